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

namespace {

#if defined(__x86_64__)

constexpr uint8_t kReadCounter[] = {0x0f, 0x31}, kUndefined[] = {0x0f, 0x0b};
/// How far behind it a compiler takes the counter's halves out of EAX and EDX. Two bytes alone may
/// be part of something else.
constexpr size_t kFar = 28;

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

/// "mov %eax,%..." or, of register 2, "mov %edx,%..."
bool moves(const uint8_t* at, unsigned from) {
  return at[0] == 0x89 && (at[1] & 0xc0) == 0xc0 && (at[1] >> 3 & 7) == from;
}

bool reads_counter(const uint8_t* at, const uint8_t* end) {
  if (std::memcmp(at, kReadCounter, sizeof kReadCounter) != 0) return false;
  constexpr uint8_t kShift[] = {0x48, 0xc1, 0xe2, 0x20}, kOr[] = {0x48, 0x09, 0xd0};
  bool low = false, high = false;
  for (const uint8_t* p = at + 2; p < at + kFar && p + sizeof kShift <= end; ++p) {
    low = low || moves(p, 0) || std::memcmp(p, kOr, sizeof kOr) == 0;
    high = high || moves(p, 2) || std::memcmp(p, kShift, sizeof kShift) == 0;
  }
  return low && high;
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
    if (!reads_counter(at, end)) continue;
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
