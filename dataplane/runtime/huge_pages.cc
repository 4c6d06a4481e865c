#include "dataplane/runtime/huge_pages.h"

#include <sys/mman.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace understudy {
namespace {

constexpr uint64_t kMegabyte = uint64_t{1} << 20;

/// Can a page of this size be mapped? errno, or 0.
int try_map(uint64_t page_bytes) {
  const int size_flag = std::countr_zero(page_bytes) << MAP_HUGE_SHIFT;
  void* page = mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | size_flag, -1, 0);
  if (page == MAP_FAILED) return errno;
  munmap(page, page_bytes);
  return 0;
}

}  // namespace

HugePageState look_for_huge_pages() {
  HugePageState state;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/kernel/mm/hugepages", error)) {
    static constexpr std::string_view kPrefix = "hugepages-";
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix)) continue;
    const uint64_t page = std::strtoull(name.c_str() + kPrefix.size(), nullptr, 10) * 1024;
    uint64_t count = 0;
    std::ifstream(entry.path() / "free_hugepages") >> count;
    if (page == 0 || count == 0) continue;
    if (const int failed = try_map(page); failed != 0) {
      state.map_error = failed;
    } else {
      state.free_bytes += page * count;
    }
  }
  return state;
}

Result<bool> choose_huge_pages(const HugePageState& state, uint64_t bytes,
                               const std::string& card) {
  if (state.free_bytes >= bytes) return true;
  if (card.empty()) return false;
  const std::string need =
      card + " needs " + std::to_string(bytes / kMegabyte) + " MB of huge pages";
  if (state.free_bytes == 0 && state.map_error != 0) {
    return fail(need + ", and this user may not have them (" + std::strerror(state.map_error) +
                "); run as root or raise the user's limits");
  }
  return fail(need + ", but " + std::to_string(state.free_bytes / kMegabyte) +
              " MB are free; reserve some, e.g. `sysctl vm.nr_hugepages=" +
              std::to_string(bytes / kMegabyte) + "`");
}

Result<void> check_ordinary_memory(const MemoryLeft& left, uint64_t bytes) {
  if (left.bytes >= bytes) return {};
  return fail("buffers of the ports need " + std::to_string(bytes / kMegabyte) +
              " MB of memory, and " + left.of + " has " + std::to_string(left.bytes / kMegabyte) +
              " MB left");
}

}  // namespace understudy
