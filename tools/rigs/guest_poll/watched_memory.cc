// Such a program never enters the kernel, and so no time passes in which the other node could
// write. Here its memory is closed by look_again(): when a completion has been taken, and when a
// queue pair is modified (waiting.cc). The first access to a closed page traps and opens it, until
// it is closed again. Where that access reads, and the eight bytes around are what they were when
// the page was opened last, it waits for frames until they have changed. So a look costs no time
// where the data are there, and sees them at the instant at which they come.
//
// That is right for a program that takes each change once, as ib_write_lat does with the last byte
// of a message, that takes a completion between two looks, and that has one thread. One that reads
// twice what it has got would wait for ever, and so would one that looks on at an open page.
#include "tools/rigs/guest_poll/watched_memory.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tools/rigs/guest_poll/frames.h"

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
  const void* name = nullptr;
  uint8_t* first = nullptr;
  size_t bytes = 0;
  const uint8_t *data = nullptr, *end = nullptr;  ///< what other nodes may write
  uint8_t* seen = nullptr;
  bool holds(const uint8_t* at) const { return at >= first && at < first + bytes; }
  bool may_change(const uint8_t* at) const { return at >= data && at < end; }
};

constexpr size_t kMostRegions = 16;
std::array<Region, kMostRegions> regions;
size_t count = 0;

void set_access(uint8_t* first, size_t bytes, int access) {
  const int before = errno;
  mprotect(first, bytes, access);
  errno = before;
}

void not_watched(const void* address, size_t bytes, const char* why) {
  std::fprintf(stderr,
               "guest_poll: %zu bytes at %p are not watched: %s; a program that looks there until "
               "something comes stands still\n",
               bytes, address, why);
}

uint8_t* page_of(uint8_t* at) { return at - reinterpret_cast<uintptr_t>(at) % page_size(); }

bool is_watched(const uint8_t* at) {
  return std::any_of(regions.begin(), regions.begin() + count,
                     [&](const Region& r) { return r.holds(at); });
}

void on_fault(int, siginfo_t* info, void* where) {
  auto* const at = static_cast<uint8_t*>(info->si_addr);
  if (!is_watched(at)) {
    signal(SIGSEGV, SIG_DFL);  // it happens again, and then counts
    return;
  }
  uint8_t* const page = page_of(at);
  set_access(page, page_size(), PROT_READ | PROT_WRITE);
  const bool reads = (static_cast<ucontext_t*>(where)->uc_mcontext.gregs[REG_ERR] & kWrite) == 0;
  const auto region = std::find_if(regions.begin(), regions.begin() + count,
                                   [&](const Region& r) { return r.may_change(at); });
  if (reads && region != regions.begin() + count) {
    const auto word = static_cast<size_t>(at - region->first) / kWord * kWord;
    while (std::memcmp(region->first + word, region->seen + word, kWord) == 0) {
      if (!wait_for_frame()) break;  // a signal: the program's own time is over
    }
  }
  for (size_t i = 0; i < count; ++i) {
    const Region& r = regions[i];
    if (r.holds(page)) std::memcpy(r.seen + (page - r.first), page, page_size());
  }
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

void watch(const void* name, void* address, size_t bytes) {
  if (!watches_memory() || bytes == 0) return;
  if (count == regions.size()) return not_watched(address, bytes, "there are 16 regions already");
  const size_t into_page = reinterpret_cast<uintptr_t>(address) % page_size();
  Region region;
  region.name = name;
  region.bytes = whole_pages(into_page + bytes);
  region.first = static_cast<uint8_t*>(address) - into_page;
  region.data = region.first + into_page;
  region.end = region.data + bytes;
  void* seen =
      mmap(nullptr, region.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (seen == MAP_FAILED) return not_watched(address, bytes, "no memory for its copy");
  region.seen = static_cast<uint8_t*>(seen);
  set_access(region.first, region.bytes, PROT_READ | PROT_WRITE);  // another region may be there
  std::memcpy(region.seen, region.first, region.bytes);
  if (count == 0) {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
  }
  regions[count++] = region;
}

void forget(const void* name) {
  const auto region = std::find_if(regions.begin(), regions.begin() + count,
                                   [&](const Region& r) { return r.name == name; });
  if (region == regions.begin() + count) return;
  const Region gone = *region;
  *region = regions[--count];
  munmap(gone.seen, gone.bytes);
  for (uint8_t* page = gone.first; page < gone.first + gone.bytes; page += page_size()) {
    if (!is_watched(page)) set_access(page, page_size(), PROT_READ | PROT_WRITE);
  }
}

void look_again() {
  for (size_t i = 0; i < count; ++i) set_access(regions[i].first, regions[i].bytes, PROT_NONE);
}

#else

bool watches_memory() { return false; }
void watch(const void*, void*, size_t) {}
void forget(const void*) {}
void look_again() {}

#endif

}  // namespace guest_poll
