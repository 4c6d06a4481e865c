#include "dataplane/port/capture_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "dataplane/base/output_file.h"

namespace understudy {
namespace {

constexpr size_t kFlushBytes = size_t{1} << 20;

}  // namespace

Result<std::unique_ptr<CaptureFile>> CaptureFile::create(const CaptureOptions& options) {
  auto fd = open_growing(options.path);
  if (!fd) return fail("capture " + fd.error().text);
  std::unique_ptr<CaptureFile> file(new CaptureFile(options, std::move(*fd)));
  append_pcapng_section(file->buffer_, options.application);
  for (const auto& name : options.interfaces) {
    append_pcapng_interface(file->buffer_, name, options.snap_length, options.epoch);
  }
  file->flush();
  if (!file->error_.empty()) return fail(file->error_);
  return file;
}

CaptureFile::CaptureFile(CaptureOptions options, UniqueFd fd)
    : options_(std::move(options)),
      fd_(std::move(fd)),
      counts_(options_.interfaces.size()),
      buffered_(options_.interfaces.size()) {
  buffer_.reserve(2 * kFlushBytes);
}

CaptureFile::~CaptureFile() {
  if (fd_.valid()) (void)close();
}

void CaptureFile::packet(size_t interface, const CapturedFrame& frame) {
  last_ = std::max(last_, frame.at);
  if (!error_.empty()) {
    ++counts_[interface].drops;
    return;
  }
  append_pcapng_packet(buffer_, static_cast<uint32_t>(interface), options_.epoch, frame, changes_);
  changes_.clear();
  ++buffered_[interface];
  if (buffer_.size() >= kFlushBytes) flush();
}

void CaptureFile::flush() {
  if (error_.empty()) {
    const auto written = write_all(fd_.get(), buffer_);
    if (!written) error_ = "capture " + options_.path + ": " + written.error().text;
  }
  for (size_t i = 0; i < buffered_.size(); ++i) {
    if (!error_.empty()) counts_[i].drops += buffered_[i];
    buffered_[i] = 0;
  }
  buffer_.clear();
}

Result<void> CaptureFile::close() {
  flush();
  for (size_t i = 0; i < counts_.size(); ++i) {
    append_pcapng_statistics(buffer_, static_cast<uint32_t>(i), options_.epoch, last_, counts_[i]);
  }
  flush();
  if (::close(fd_.release()) != 0 && error_.empty()) {
    error_ = "capture " + options_.path + ": " + std::strerror(errno);
  }
  if (!error_.empty()) return fail(error_);
  return {};
}

}  // namespace understudy
