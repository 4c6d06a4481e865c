#include "dataplane/port/capture_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace understudy {
namespace {

constexpr size_t kFlushBytes = size_t{1} << 20;

}  // namespace

Result<std::unique_ptr<CaptureFile>> CaptureFile::create(const CaptureOptions& options) {
  const int fd = ::open(options.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return fail("capture " + options.path + ": " + std::strerror(errno));
  std::unique_ptr<CaptureFile> file(new CaptureFile(options, fd));
  append_pcapng_section(file->buffer_, options.application);
  for (const auto& name : options.interfaces) {
    append_pcapng_interface(file->buffer_, name, options.snap_length, options.epoch);
  }
  file->flush();
  if (!file->error_.empty()) return fail(file->error_);
  return file;
}

CaptureFile::CaptureFile(CaptureOptions options, int fd)
    : options_(std::move(options)),
      fd_(fd),
      counts_(options_.interfaces.size()),
      buffered_(options_.interfaces.size()) {
  buffer_.reserve(2 * kFlushBytes);
}

CaptureFile::~CaptureFile() {
  if (fd_ >= 0) (void)close();
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
  size_t done = 0;
  while (error_.empty() && done < buffer_.size()) {
    const ssize_t n = ::write(fd_, buffer_.data() + done, buffer_.size() - done);
    if (n >= 0) {
      done += static_cast<size_t>(n);
    } else if (errno != EINTR) {
      error_ = "capture " + options_.path + ": " + std::strerror(errno);
    }
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
  if (::close(std::exchange(fd_, -1)) != 0 && error_.empty()) {
    error_ = "capture " + options_.path + ": " + std::strerror(errno);
  }
  if (!error_.empty()) return fail(error_);
  return {};
}

}  // namespace understudy
