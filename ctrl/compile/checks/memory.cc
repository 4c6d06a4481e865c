#include "ctrl/compile/checks/memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "ctrl/report/text.h"
#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

constexpr uint64_t kAny = std::numeric_limits<uint64_t>::max();

/// Of one job. A node's ranks each have a result of their own.
uint64_t results(const Config& config, const JobConfig& job) {
  if (job.payload != PayloadMode::kExact || job.sizes.empty()) return 0;
  uint64_t ranks = 0;
  for (const NodeId id : job.ranks) {
    const NodeConfig& node = config.nodes[id];
    if (node.real && !node.kernel) ranks += job.gpus.value_or(node.gpus);
  }
  return ranks * *std::ranges::max_element(job.sizes);
}

std::string gibibytes(uint64_t bytes) {
  return format_text("%.1f GiB", static_cast<double>(bytes) / static_cast<double>(1u << 30));
}

/// The number in a file of one; nothing if there is none, as "max".
uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = kAny;
  return file >> number ? number : kAny;
}

uint64_t available_on_machine() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    uint64_t kibibytes = 0;
    if (words >> name >> kibibytes && name == "MemAvailable:") return kibibytes * 1024;
  }
  return kAny;
}

/// Of control groups of version 2: cgroups(7).
uint64_t left_in_group() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::")) continue;
    const std::string folder = "/sys/fs/cgroup" + line.substr(3);
    const uint64_t most = number_in(folder + "/memory.max");
    const uint64_t used = number_in(folder + "/memory.current");
    if (most != kAny && used != kAny) return most - std::min(most, used);
  }
  return kAny;
}

uint64_t left_of_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kAny;
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  constexpr uint64_t kPage = 4096;
  return limit.rlim_cur - std::min<uint64_t>(limit.rlim_cur, pages * kPage);
}

}  // namespace

uint64_t bytes_of_results(const Config& config) {
  uint64_t bytes = 0;
  for (const JobConfig& job : config.jobs) bytes += results(config, job);
  return bytes;
}

uint64_t bytes_available() {
  return std::min({available_on_machine(), left_in_group(), left_of_limit()});
}

Result<void> check_memory(const Config& config, uint64_t available) {
  const uint64_t needed = bytes_of_results(config);
  if (needed <= available) return {};
  const auto largest = std::ranges::max_element(
      config.jobs, {}, [&](const JobConfig& job) { return results(config, job); });
  return fail(config.path + ":" + std::to_string(largest->line) +
              ": job.payload: exact results of operations of " +
              size_text(*std::ranges::max_element(largest->sizes)) + " need " + gibibytes(needed) +
              " of memory, and this machine has " + gibibytes(available) +
              " left: take smaller sizes, or payload = \"synthetic\"");
}

}  // namespace understudy
