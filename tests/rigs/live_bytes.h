// What a test program has allocated and not given back, in bytes. Replaces the program's allocator:
// include it once, from the test's own file.
#pragma once

#include <malloc.h>

#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LIVE_BYTES_ARE_UNKNOWN  // the sanitizer's allocator cannot be replaced
#endif
#endif

namespace understudy {
inline long long live_bytes = 0;
}

#ifndef LIVE_BYTES_ARE_UNKNOWN
// Not inlined: the compiler would take malloc and delete, or new and free, for a mismatch.
[[gnu::noinline]] void* operator new(size_t bytes) {
  void* p = std::malloc(bytes);
  if (p == nullptr) throw std::bad_alloc();
  understudy::live_bytes += static_cast<long long>(malloc_usable_size(p));
  return p;
}
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  void* p = std::malloc(bytes);
  if (p != nullptr) understudy::live_bytes += static_cast<long long>(malloc_usable_size(p));
  return p;
}
// What is aligned has its size in front of it: the allocator's own word may be much more.
[[gnu::noinline]] void* operator new(size_t bytes, std::align_val_t alignment) {
  const auto before = static_cast<size_t>(alignment);
  void* p = nullptr;
  if (posix_memalign(&p, before, before + bytes) != 0) throw std::bad_alloc();
  understudy::live_bytes += static_cast<long long>(bytes);
  auto* const given = static_cast<char*>(p) + before;
  std::memcpy(given - sizeof bytes, &bytes, sizeof bytes);
  return given;
}
[[gnu::noinline]] void operator delete(void* p) noexcept {
  if (p != nullptr) understudy::live_bytes -= static_cast<long long>(malloc_usable_size(p));
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { operator delete(p); }
// The sanitizer has its own for arrays.
[[gnu::noinline]] void* operator new[](size_t bytes) { return operator new(bytes); }
[[gnu::noinline]] void operator delete[](void* p) noexcept { operator delete(p); }
[[gnu::noinline]] void operator delete[](void* p, size_t) noexcept { operator delete(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t alignment) noexcept {
  if (p == nullptr) return;
  size_t bytes;
  std::memcpy(&bytes, static_cast<char*>(p) - sizeof bytes, sizeof bytes);
  understudy::live_bytes -= static_cast<long long>(bytes);
  std::free(static_cast<char*>(p) - static_cast<size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* p, size_t, std::align_val_t alignment) noexcept {
  operator delete(p, alignment);
}
#endif
