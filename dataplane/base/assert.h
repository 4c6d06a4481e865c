// Assertions of invariants: what this code itself makes true. One that fails is a bug of ours, so
// the program ends at once, with the file, the line and the text of the condition.
//
//   ASSERT_INVARIANT(x)        code off the packet path: checked in every build
//   DEBUG_ASSERT_INVARIANT(x)  the packet path: checked in builds with meson's `debug` option
//                              (buildtype debug or debugoptimized; the sanitized builds are),
//                              not evaluated in others
//
// Rules:
// - Assert what a function relies on and what it leaves behind: about two assertions a function.
// - A condition never depends on what comes from the wire, a file, a command line or another
//   process. That is checked and refused: by a Result that names it, or by a counter.
// - A condition changes nothing: builds that do not evaluate it behave alike.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace understudy {

[[noreturn, gnu::cold, gnu::noinline]] inline void invariant_failed(const char* condition,
                                                                    const char* file, int line) {
  std::fprintf(stderr, "%s:%d: invariant does not hold: %s\n", file, line, condition);
  std::abort();
}

}  // namespace understudy

#define ASSERT_INVARIANT(condition)   \
  ((condition) ? static_cast<void>(0) \
               : ::understudy::invariant_failed(#condition, __FILE__, __LINE__))

#ifdef UNDERSTUDY_DEBUG
#define DEBUG_ASSERT_INVARIANT(condition) ASSERT_INVARIANT(condition)
#else
#define DEBUG_ASSERT_INVARIANT(condition) static_cast<void>(sizeof(static_cast<bool>(condition)))
#endif
