#include "dataplane/virtual_time/guest_queue.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <bit>
#include <cstring>
#include <limits>

namespace understudy {
namespace {

constexpr uint32_t kMostEntries = 32768;  // virtio 1.1, 2.6
constexpr uint16_t kHasNext = 1, kIndirect = 4;
constexpr uint16_t kNoInterrupt = 1;

uint8_t* find(const std::vector<GuestMemory::Region>& regions, uint64_t GuestMemory::Region::*base,
              uint64_t address, uint64_t bytes) {
  for (const auto& region : regions) {
    const uint64_t offset = address - region.*base;
    if (address >= region.*base && offset <= region.bytes && bytes <= region.bytes - offset) {
      return region.at + offset;
    }
  }
  return nullptr;
}

uint16_t load(uint16_t* shared) {
  return std::atomic_ref<uint16_t>(*shared).load(std::memory_order_acquire);
}

}  // namespace

bool GuestMemory::add(int fd, uint64_t offset, uint64_t guest_address, uint64_t user_address,
                      uint64_t bytes) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  // Beyond the file's end a mapping would be there, and a look at it would kill us.
  struct stat file {};
  if (fstat(fd, &file) != 0 || file.st_size < 0) return false;
  const auto size = static_cast<uint64_t>(file.st_size);
  if (bytes == 0 || bytes > size || offset > size - bytes) return false;
  if (guest_address > kMost - bytes || user_address > kMost - bytes) return false;
  void* at = mmap(nullptr, offset + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return false;
  auto* base = static_cast<uint8_t*>(at);
  mapped_.emplace_back(base, offset + bytes);
  regions_.push_back({guest_address, user_address, bytes, base + offset});
  return true;
}

void GuestMemory::clear() {
  for (const auto mapped : mapped_) munmap(mapped.data(), mapped.size());
  mapped_.clear();
  regions_.clear();
}

uint8_t* GuestMemory::at(uint64_t guest_address, uint64_t bytes) const {
  return find(regions_, &Region::guest_address, guest_address, bytes);
}

uint8_t* GuestMemory::at_user(uint64_t user_address, uint64_t bytes) const {
  return find(regions_, &Region::user_address, user_address, bytes);
}

bool GuestQueue::set_size(uint32_t size) {
  if (size == 0 || size > kMostEntries || !std::has_single_bit(size)) return false;
  size_ = static_cast<uint16_t>(size);
  descriptors_ = nullptr;  // rings that were in the memory need not be with this size
  return true;
}

bool GuestQueue::set_rings(const GuestMemory& memory, uint64_t descriptors, uint64_t used,
                           uint64_t available) {
  uint8_t* d = memory.at_user(descriptors, sizeof(Descriptor) * size_);
  uint8_t* a = memory.at_user(available, 6 + 2 * uint64_t{size_});
  uint8_t* u = memory.at_user(used, 6 + 8 * uint64_t{size_});
  if (size_ == 0 || d == nullptr || a == nullptr || u == nullptr) return false;
  const auto aligned = [](const uint8_t* at, uintptr_t to) {
    return reinterpret_cast<uintptr_t>(at) % to == 0;
  };
  if (!aligned(d, 16) || !aligned(a, 2) || !aligned(u, 4)) return false;
  descriptors_ = reinterpret_cast<const Descriptor*>(d);
  available_ = reinterpret_cast<uint16_t*>(a);
  used_ = reinterpret_cast<uint16_t*>(u);
  return true;
}

bool GuestQueue::wants_interrupt() const {
  return ready() && (load(available_) & kNoInterrupt) == 0;
}

uint16_t GuestQueue::offered() const {
  if (!ready()) return 0;
  return static_cast<uint16_t>(load(available_ + 1) - next_);
}

bool GuestQueue::peek(const GuestMemory& memory, uint16_t skip, Chain& chain) const {
  chain = {};
  if (offered() <= skip || offered() > size_) return false;
  const auto place = static_cast<uint16_t>(next_ + skip);
  chain.head = load(available_ + 2 + place % size_);
  uint16_t index = chain.head;
  for (uint32_t steps = 0; steps < size_ && index < size_; ++steps) {
    const Descriptor descriptor = descriptors_[index];
    uint8_t* at = memory.at(descriptor.address, descriptor.bytes);
    if (at == nullptr || (descriptor.flags & kIndirect) != 0) break;
    chain.parts.emplace_back(at, descriptor.bytes);
    chain.bytes += descriptor.bytes;
    if ((descriptor.flags & kHasNext) == 0) return true;
    index = descriptor.next;
  }
  chain.parts.clear();
  chain.bytes = 0;
  return true;
}

bool GuestQueue::take(const GuestMemory& memory, Chain& chain) {
  if (!peek(memory, 0, chain)) return false;
  ++next_;
  return true;
}

void GuestQueue::give_back(uint16_t head, uint32_t bytes) {
  if (descriptors_ == nullptr) return;
  const uint32_t entry[2] = {head, bytes};
  std::memcpy(used_ + 2 + size_t{4} * (used_index_ % size_), entry, sizeof entry);
  ++used_index_;
  std::atomic_ref<uint16_t>(used_[1]).store(used_index_, std::memory_order_release);
}

}  // namespace understudy
