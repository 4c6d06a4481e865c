// One virtqueue of a guest's network device (virtio 1.1, 2.6: split rings), in memory that the
// guest shares. Everything in it is the guest's word: what points outside its memory is an error.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace understudy {

/// The memory that a guest has named; addresses as it uses them in its rings.
class GuestMemory {
 public:
  struct Region {
    uint64_t guest_address = 0, user_address = 0, bytes = 0;
    uint8_t* at = nullptr;
  };
  GuestMemory() = default;
  GuestMemory(const GuestMemory&) = delete;
  GuestMemory& operator=(const GuestMemory&) = delete;
  ~GuestMemory() { clear(); }

  /// Maps `bytes` of a file from `offset` on; false if it has not as many, or cannot be mapped.
  bool add(int fd, uint64_t offset, uint64_t guest_address, uint64_t user_address, uint64_t bytes);
  void clear();
  /// Null if not all of it is the guest's.
  uint8_t* at(uint64_t guest_address, uint64_t bytes) const;
  /// The same by the addresses in which its kernel names rings.
  uint8_t* at_user(uint64_t user_address, uint64_t bytes) const;

 private:
  std::vector<Region> regions_;
  std::vector<std::span<uint8_t>> mapped_;
};

class GuestQueue {
 public:
  /// Of ring entries; false if it is none of virtio's. Its rings are to be set anew.
  bool set_size(uint32_t size);
  void set_base(uint16_t base) { next_ = used_index_ = base; }
  /// False if a ring is not in the guest's memory.
  bool set_rings(const GuestMemory& memory, uint64_t descriptors, uint64_t used,
                 uint64_t available);
  void enable(bool on) { enabled_ = on; }
  void reset() { *this = GuestQueue(); }
  /// The memory with its rings goes.
  void forget_rings() { descriptors_ = nullptr; }
  uint16_t base() const { return next_; }
  bool ready() const { return descriptors_ != nullptr && enabled_; }
  /// The guest wants an interrupt when buffers come back.
  bool wants_interrupt() const;

  /// Buffers that the guest has offered and that were not taken yet.
  uint16_t offered() const;
  struct Chain {
    uint16_t head = 0;
    std::vector<std::span<uint8_t>> parts;
    uint64_t bytes = 0;
  };
  /// Takes the next; false if there is none. A chain that is not in the guest's memory is broken:
  /// its `parts` are empty.
  bool take(const GuestMemory& memory, Chain& chain);
  /// The next but `skip`, without taking it.
  bool peek(const GuestMemory& memory, uint16_t skip, Chain& chain) const;
  /// Gives buffers back, `bytes` of them written. Nothing happens if the rings are gone since.
  void give_back(uint16_t head, uint32_t bytes);

 private:
  struct Descriptor {
    uint64_t address;
    uint32_t bytes;
    uint16_t flags, next;
  };
  uint16_t size_ = 0, next_ = 0, used_index_ = 0;
  bool enabled_ = false;
  const Descriptor* descriptors_ = nullptr;
  uint16_t* available_ = nullptr;
  uint16_t* used_ = nullptr;
};

}  // namespace understudy
