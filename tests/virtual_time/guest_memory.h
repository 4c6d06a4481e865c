// What a guest shares with its network device, written as its driver would: memory in a file, and
// split rings in it (virtio 1.1, 2.6).
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "dataplane/base/unique_fd.h"

namespace understudy {

/// A file that both sides map. Addresses differ from offsets, and from one another.
class GuestFile {
 public:
  static constexpr uint64_t kGuest = 0x1000'0000, kUser = 0x6000'0000;

  explicit GuestFile(size_t bytes) : bytes_(bytes), fd_(memfd_create("guest", MFD_CLOEXEC)) {
    if (ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0) std::abort();
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    if (at == MAP_FAILED) std::abort();
    at_ = static_cast<uint8_t*>(at);
  }
  GuestFile(const GuestFile&) = delete;
  GuestFile& operator=(const GuestFile&) = delete;
  ~GuestFile() { munmap(at_, bytes_); }

  int fd() const { return fd_.get(); }
  size_t bytes() const { return bytes_; }
  uint8_t* at(uint64_t offset) const { return at_ + offset; }
  std::vector<uint8_t> read(uint64_t offset, size_t bytes) const {
    return {at(offset), at(offset) + bytes};
  }
  void write(uint64_t offset, std::span<const uint8_t> bytes) const {
    std::memcpy(at(offset), bytes.data(), bytes.size());
  }
  template <typename T>
  T get(uint64_t offset) const {
    T value;
    std::memcpy(&value, at(offset), sizeof value);
    return value;
  }
  template <typename T>
  void put(uint64_t offset, T value) const {
    std::memcpy(at(offset), &value, sizeof value);
  }

 private:
  size_t bytes_;
  UniqueFd fd_;
  uint8_t* at_ = nullptr;
};

/// The driver's side of one ring, in 4 KiB of the file from `offset` on: up to 64 entries.
class GuestRing {
 public:
  static constexpr uint16_t kNext = 1, kWrite = 2, kIndirect = 4;
  static constexpr uint64_t kAvailable = 1024, kUsed = 2048;

  GuestRing(const GuestFile& file, uint64_t offset, uint16_t entries, uint16_t base = 0)
      : file_(file), offset_(offset), entries_(entries), next_(base), seen_(base) {
    file_.put<uint16_t>(offset_ + kAvailable + 2, base);
    file_.put<uint16_t>(offset_ + kUsed + 2, base);
  }

  uint16_t entries() const { return entries_; }
  uint64_t descriptors() const { return GuestFile::kUser + offset_; }
  uint64_t available() const { return descriptors() + kAvailable; }
  uint64_t used() const { return descriptors() + kUsed; }

  void describe(uint16_t index, uint64_t guest_address, uint32_t bytes, uint16_t flags = 0,
                uint16_t next = 0) const {
    const uint64_t at = offset_ + 16 * uint64_t{index};
    file_.put<uint64_t>(at, guest_address);
    file_.put<uint32_t>(at + 8, bytes);
    file_.put<uint16_t>(at + 12, flags);
    file_.put<uint16_t>(at + 14, next);
  }
  void offer(uint16_t head) {
    file_.put<uint16_t>(offset_ + kAvailable + 4 + 2 * uint64_t{next_} % (2 * uint64_t{entries_}),
                        head);
    set_offered(static_cast<uint16_t>(next_ + 1));
  }
  /// The available ring's index, whatever is in the ring.
  void set_offered(uint16_t index) {
    next_ = index;
    file_.put<uint16_t>(offset_ + kAvailable + 2, index);
  }
  void no_interrupts(bool on) const { file_.put<uint16_t>(offset_ + kAvailable, on ? 1 : 0); }

  struct Used {
    uint32_t head = 0, bytes = 0;
    bool operator==(const Used&) const = default;
  };
  /// What has come back since the last call.
  std::vector<Used> take_used() {
    std::vector<Used> all;
    for (const auto end = file_.get<uint16_t>(offset_ + kUsed + 2); seen_ != end; ++seen_) {
      const uint64_t at = offset_ + kUsed + 4 + 8 * uint64_t{seen_} % (8 * uint64_t{entries_});
      all.push_back({file_.get<uint32_t>(at), file_.get<uint32_t>(at + 4)});
    }
    return all;
  }

 private:
  const GuestFile& file_;
  uint64_t offset_;
  uint16_t entries_, next_, seen_;
};

}  // namespace understudy
