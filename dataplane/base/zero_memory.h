// Zeros that take no memory until they are touched, however malloc is set: large ones are pages of
// their own.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace understudy {

class ZeroMemory {
 public:
  explicit ZeroMemory(size_t size) : bytes_(allocate(size), Free{size}) {}
  /// Null: there is no memory.
  uint8_t* bytes() const { return bytes_.get(); }

 private:
  static constexpr size_t kOwnPages = 128 << 10;

  struct Free {
    size_t size;
    void operator()(uint8_t* p) const {
      if (size >= kOwnPages) {
        munmap(p, size);
      } else {
        std::free(p);
      }
    }
  };
  static uint8_t* allocate(size_t size) {
    if (size < kOwnPages) return static_cast<uint8_t*>(std::calloc(size, 1));
    void* const p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? nullptr : static_cast<uint8_t*>(p);
  }

  std::unique_ptr<uint8_t, Free> bytes_;
};

}  // namespace understudy
