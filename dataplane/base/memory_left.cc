#include "dataplane/base/memory_left.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

namespace understudy {
namespace {

/// How the two versions name what they say.
struct GroupFiles {
  const char *most, *used, *statistics, *given_up;
};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat",
                               "total_inactive_file"};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "memory.stat", "inactive_file"};

/// The number in a file of one; nothing if there is none, as "max".
std::optional<uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

/// The number behind a name in a file of lines "NAME NUMBER".
std::optional<uint64_t> number_of(const std::string& path, const std::string& wanted) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    uint64_t number = 0;
    if (words >> name >> number && name == wanted) return number;
  }
  return std::nullopt;
}

MemoryLeft of_machine(const std::string& meminfo) {
  MemoryLeft left;
  if (const auto kibibytes = number_of(meminfo, "MemAvailable:")) left.bytes = *kibibytes * 1024;
  return left;
}

MemoryLeft of_group(const std::string& root, const std::string& group, const GroupFiles& names) {
  const std::string folder = root + group + "/";
  const auto most = number_in(folder + names.most), used = number_in(folder + names.used);
  if (!most || !used) return {};
  const uint64_t given_up = number_of(folder + names.statistics, names.given_up).value_or(0);
  const uint64_t kept = *used - std::min(*used, given_up);
  return {*most - std::min(*most, kept), "the control group " + (group.empty() ? "/" : group)};
}

/// Every group limits all below it.
MemoryLeft of_groups(const std::string& root, std::string group, const GroupFiles& names) {
  MemoryLeft least;
  while (group.ends_with('/')) group.pop_back();
  for (;;) {
    auto left = of_group(root, group, names);
    if (left.bytes < least.bytes) least = std::move(left);
    if (group.empty()) return least;
    group.erase(group.rfind('/'));
  }
}

/// Lines of "HIERARCHY:CONTROLLERS:/GROUP", of version 2 without controllers.
std::vector<MemoryLeft> of_all_groups(const MemoryFiles& files) {
  std::vector<MemoryLeft> all;
  std::ifstream file(files.groups);
  for (std::string line; std::getline(file, line);) {
    const size_t controllers = line.find(':') + 1;
    const size_t group = line.find(":/", controllers);
    if (controllers == 0 || group == std::string::npos) continue;
    std::string names = ",";
    names.append(line, controllers, group - controllers).append(",");
    const std::string path = line.substr(group + 1);
    if (names == ",,") {
      // Beside groups of version 1 it has a folder of its own.
      for (const char* mount : {"", "/unified"}) {
        all.push_back(of_groups(files.group_root + mount, path, kVersion2));
      }
    } else if (names.find(",memory,") != std::string::npos) {
      all.push_back(of_groups(files.group_root + "/memory", path, kVersion1));
    }
  }
  return all;
}

MemoryLeft of_address_space() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  const uint64_t pages = number_in("/proc/self/statm").value_or(0);
  const uint64_t used = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return {limit.rlim_cur - std::min<uint64_t>(limit.rlim_cur, used),
          "this process (ulimit -v, RLIMIT_AS)"};
}

}  // namespace

MemoryLeft memory_left(const MemoryFiles& files) {
  std::vector<MemoryLeft> all = of_all_groups(files);
  all.push_back(of_address_space());
  all.insert(all.begin(), of_machine(files.machine));
  return *std::ranges::min_element(all, {}, &MemoryLeft::bytes);
}

}  // namespace understudy
