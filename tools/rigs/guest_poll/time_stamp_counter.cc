// Programs that read the processor's time stamp counter would see the host's: their RDTSC
// instructions are replaced by one that traps, and answered with virtual nanoseconds, which is what
// /proc/cpuinfo of such a guest promises (1000 MHz).
#include <link.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>

#include "tools/rigs/guest_poll/reads_counter.h"

namespace {

#if defined(__x86_64__)

constexpr uint8_t kUndefined[] = {0x0f, 0x0b};

const uint8_t* text_first = nullptr;
size_t text_bytes = 0;

uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void answer(int, siginfo_t*, void* where) {
  auto& registers = static_cast<ucontext_t*>(where)->uc_mcontext.gregs;
  const size_t into_text =
      static_cast<uintptr_t>(registers[REG_RIP]) - reinterpret_cast<uintptr_t>(text_first);
  if (into_text >= text_bytes ||
      std::memcmp(text_first + into_text, kUndefined, sizeof kUndefined) != 0) {
    signal(SIGILL, SIG_DFL);  // it happens again, and then counts
    return;
  }
  const uint64_t now = now_ns();
  registers[REG_RAX] = static_cast<greg_t>(now & 0xffffffff);
  registers[REG_RDX] = static_cast<greg_t>(now >> 32);
  registers[REG_RIP] += sizeof kUndefined;
}

/// Replaces them in one stretch of the program's text.
void patch(uint8_t* first, size_t bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const size_t into_page = reinterpret_cast<uintptr_t>(first) % page;
  uint8_t* const start = first - into_page;
  const size_t whole = into_page + bytes;
  bool writable = false;
  uint8_t* const end = first + bytes;
  for (uint8_t* at = first; at + 2 <= end; ++at) {
    if (!guest_poll::reads_counter(first, at, end)) continue;
    if (!writable && mprotect(start, whole, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return;
    writable = true;
    std::memcpy(at, kUndefined, sizeof kUndefined);
  }
  if (!writable) return;
  mprotect(start, whole, PROT_READ | PROT_EXEC);
  text_first = first;
  text_bytes = bytes;
  struct sigaction action {};
  action.sa_sigaction = answer;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGILL, &action, nullptr);
}

/// The program itself comes first; libraries keep theirs.
int visit(dl_phdr_info* object, size_t, void*) {
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& part = object->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    // The loader gives addresses as numbers. NOLINTNEXTLINE(performance-no-int-to-ptr)
    patch(reinterpret_cast<uint8_t*>(object->dlpi_addr + part.p_vaddr), part.p_memsz);
  }
  return 1;
}

[[gnu::constructor]] void replace_counter() { dl_iterate_phdr(visit, nullptr); }

#endif

}  // namespace
