// Such a program never enters the kernel, and so no time passes in which the other node could
// write. Here its memory cannot be read after each call of verbs: the first look at a page traps,
// and where nothing has changed since the last one it waits for frames, until something has. So a
// look costs no time where the data are there, and sees them at the instant at which they come.
//
// That is right for a program that takes each change once, as ib_write_lat does with the last byte
// of a message, and has one thread. One that reads twice what it has got would wait for ever.
#include "tools/guest_poll/watched_memory.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tools/guest_poll/frames.h"

namespace guest_poll {
namespace {

size_t page_size() {
  static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

#if defined(__x86_64__)

constexpr greg_t kWrite = 2;  // of a page fault's error code
/// What is compared around the byte that is looked at.
constexpr size_t kWord = 8;

/// Whole pages, and what was in them when the program last could look.
struct Region {
  uint8_t* first = nullptr;
  size_t bytes = 0;
  const uint8_t *data = nullptr, *end = nullptr;  ///< what other nodes may write
  uint8_t* seen = nullptr;
  bool holds(const uint8_t* at) const { return at >= first && at < first + bytes; }
};

std::array<Region, 16> regions;
size_t count = 0;

void set_access(uint8_t* first, size_t bytes, int access) {
  const int before = errno;
  mprotect(first, bytes, access);
  errno = before;
}

void on_fault(int, siginfo_t* info, void* where) {
  auto* const at = static_cast<uint8_t*>(info->si_addr);
  const auto region = std::find_if(regions.begin(), regions.begin() + count,
                                   [&](const Region& r) { return r.holds(at); });
  if (region == regions.begin() + count) {
    signal(SIGSEGV, SIG_DFL);  // it happens again, and then counts
    return;
  }
  const auto offset = static_cast<size_t>(at - region->first);
  const size_t page = offset / page_size() * page_size();
  set_access(region->first + page, page_size(), PROT_READ | PROT_WRITE);
  const bool reads_data =
      at >= region->data && at < region->end &&
      (static_cast<ucontext_t*>(where)->uc_mcontext.gregs[REG_ERR] & kWrite) == 0;
  const size_t word = offset / kWord * kWord;
  while (reads_data && std::memcmp(region->first + word, region->seen + word, kWord) == 0) {
    if (!wait_for_frame()) break;  // a signal: the program's own time is over
  }
  std::memcpy(region->seen + page, region->first + page, page_size());
}

#endif

}  // namespace

size_t whole_pages(size_t bytes) { return (bytes + page_size() - 1) / page_size() * page_size(); }

#if defined(__x86_64__)

bool watches_memory() {
  static const bool watches = std::string_view(program_invocation_short_name) == "ib_write_lat" ||
                              std::getenv("GUEST_POLL_MEMORY") != nullptr;
  return watches;
}

void watch(void* address, size_t bytes) {
  if (!watches_memory() || bytes == 0 || count == regions.size()) return;
  const auto from = reinterpret_cast<uintptr_t>(address) / page_size() * page_size();
  const uintptr_t end = reinterpret_cast<uintptr_t>(address) + bytes;
  Region region;
  region.bytes = whole_pages(end - from);
  region.first = reinterpret_cast<uint8_t*>(from);
  region.data = static_cast<uint8_t*>(address);
  region.end = region.data + bytes;
  void* seen =
      mmap(nullptr, region.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (seen == MAP_FAILED) return;
  region.seen = static_cast<uint8_t*>(seen);
  std::memcpy(region.seen, region.first, region.bytes);
  if (count == 0) {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
  }
  regions[count++] = region;
}

void forget(void* address) {
  for (size_t i = 0; i < count; ++i) {
    if (!regions[i].holds(static_cast<uint8_t*>(address))) continue;
    set_access(regions[i].first, regions[i].bytes, PROT_READ | PROT_WRITE);
    munmap(regions[i].seen, regions[i].bytes);
    regions[i] = regions[--count];
    return;
  }
}

void look_again() {
  for (size_t i = 0; i < count; ++i) set_access(regions[i].first, regions[i].bytes, PROT_NONE);
}

#else

bool watches_memory() { return false; }
void watch(void*, size_t) {}
void forget(void*) {}
void look_again() {}

#endif

}  // namespace guest_poll
