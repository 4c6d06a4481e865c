#include "dataplane/port/dpdk_log.h"

#include <rte_log.h>

#include <cstdio>
#include <mutex>
#include <string_view>

namespace understudy {
namespace {

/// The first lines say why, later ones only that something failed.
constexpr size_t kKeptBytes = 300;

std::mutex mutex;
std::string kept;  // DPDK's threads write, the one that opens a port reads

ssize_t keep_line(void*, const char* text, size_t bytes) {
  std::string_view line(text, bytes);
  while (!line.empty() && line.back() == '\n') line.remove_suffix(1);
  const std::lock_guard lock(mutex);
  if (line.empty() || kept.size() + line.size() > kKeptBytes) return static_cast<ssize_t>(bytes);
  if (!kept.empty()) kept += "; ";
  kept += line;
  return static_cast<ssize_t>(bytes);
}

}  // namespace

void quiet_dpdk_log() {
  FILE* stream = fopencookie(nullptr, "w", {nullptr, keep_line, nullptr, nullptr});
  if (stream == nullptr) return;
  setvbuf(stream, nullptr, _IOLBF, BUFSIZ);
  rte_openlog_stream(stream);
}

std::string take_dpdk_complaint() {
  const std::lock_guard lock(mutex);
  std::string line;
  line.swap(kept);
  return line.empty() ? line : ": " + line;
}

}  // namespace understudy
