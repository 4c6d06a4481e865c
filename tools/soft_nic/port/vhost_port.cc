#include "tools/soft_nic/port/vhost_port.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "dataplane/base/try.h"

namespace understudy::soft_nic {

namespace {

constexpr uint16_t kWritable = 2;     // of a descriptor
constexpr uint16_t kNoInterrupt = 1;  // of the available ring
constexpr uint16_t kNoNotify = 1;     // of the used ring
/// virtio_net_hdr of virtio 1 (5.1.6) in front of every frame: all zero, nothing is left to others.
constexpr uint32_t kNetHeader = 12;
/// So that RoCE payload behind Ethernet, IPv4, UDP and BTH begins at a cache line.
constexpr uint32_t kLead = 128 - kNetHeader - (14 + 20 + 8 + 12);

uint16_t load(uint16_t& shared) { return std::atomic_ref(shared).load(std::memory_order_acquire); }

void store(uint16_t& shared, uint16_t value) {
  std::atomic_ref(shared).store(value, std::memory_order_release);
}

uint32_t stride_of(uint32_t longest) {
  const uint32_t lines = (kLead + kNetHeader + longest + 63) / 64;
  return (lines | 1) * 64;  // an odd number of lines: buffers spread over a cache's sets
}

}  // namespace

VhostPort::VhostPort(VhostSocket socket, UniqueFd lock, uint32_t longest)
    : socket_(std::move(socket)),
      lock_(std::move(lock)),
      longest_(longest),
      stride_(stride_of(longest)) {}

Result<std::unique_ptr<VhostPort>> VhostPort::open(const std::string& path, uint32_t longest) {
  auto socket = TRY(VhostSocket::connect(path));
  const std::string name = path + ".lock";
  UniqueFd lock(::open(name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!lock.valid()) return fail(name + ": " + std::strerror(errno));
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return fail("vhost socket " + path + ": another program uses it, and it takes one at a time");
  }
  std::unique_ptr<VhostPort> port(new VhostPort(std::move(socket), std::move(lock), longest));
  TRY(port->share());
  return port;
}

VhostPort::~VhostPort() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

Result<void> VhostPort::share() {
  const uint64_t buffers = uint64_t{kEntries} * stride_;
  // DPDK 24.11 maps whole pages, and refuses a file that has not all of the last one.
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  bytes_ = (2 * (sizeof(Rings) + buffers) + page - 1) / page * page;
  file_ = UniqueFd(memfd_create("understudy soft NIC", MFD_CLOEXEC));
  if (!file_.valid() || ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0) {
    return fail(std::string("no memory for a vhost port: ") + std::strerror(errno));
  }
  void* at =
      mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file_.get(), 0);
  if (at == MAP_FAILED) {
    return fail(std::string("no memory for a vhost port: ") + std::strerror(errno));
  }
  memory_ = static_cast<uint8_t*>(at);
  uint8_t* free = memory_ + 2 * sizeof(Rings);
  size_t number = 0;
  for (Queue* queue : {&receive_, &transmit_}) {
    queue->rings = reinterpret_cast<Rings*>(memory_ + number++ * sizeof(Rings));
    queue->buffers = free;
    free += buffers;
    queue->kick = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    queue->call = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    queue->rings->available.flags = kNoInterrupt;
  }
  for (uint16_t id = 0; id < kEntries; ++id) {
    receive_.rings->descriptors[id] = {reinterpret_cast<uintptr_t>(buffer(receive_, id)),
                                       kNetHeader + longest_, kWritable, 0};
    transmit_.rings->descriptors[id] = {reinterpret_cast<uintptr_t>(buffer(transmit_, id)), 0, 0,
                                        0};
    offer(receive_, id);
    free_.push_back(static_cast<uint16_t>(kEntries - 1 - id));
  }
  publish(receive_);
  return socket_.set_up({file_.get(), memory_, bytes_},
                        {addresses(receive_), addresses(transmit_)});
}

QueueAddresses VhostPort::addresses(const Queue& queue) const {
  const Rings& rings = *queue.rings;
  return {kEntries,    rings.descriptors, &rings.available,
          &rings.used, queue.kick.get(),  queue.call.get()};
}

uint8_t* VhostPort::buffer(const Queue& queue, uint32_t id) const {
  return queue.buffers + size_t{id} * stride_ + kLead;
}

void VhostPort::offer(Queue& queue, uint16_t id) {
  queue.rings->available.entries[queue.available++ % kEntries] = id;
}

void VhostPort::publish(Queue& queue) {
  Rings& rings = *queue.rings;
  store(rings.available.index, queue.available);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // virtio 1.1, 2.6.13.4.1
  if ((load(rings.used.flags) & kNoNotify) != 0) return;
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = write(queue.kick.get(), &one, sizeof one);
}

std::span<const std::span<const uint8_t>> VhostPort::receive() {
  if (given_count_ > 0) {  // what was given last time is done with
    for (size_t i = 0; i < given_count_; ++i) offer(receive_, given_[i]);
    publish(receive_);
    given_count_ = 0;
  }
  Rings& rings = *receive_.rings;
  size_t frames = 0;
  const uint16_t end = load(rings.used.index);
  while (given_count_ < kBurst && receive_.used != end) {
    const auto entry = rings.used.entries[receive_.used++ % kEntries];
    if (entry.id >= kEntries) continue;  // none of ours
    given_[given_count_++] = static_cast<uint16_t>(entry.id);
    if (entry.bytes <= kNetHeader || entry.bytes > kNetHeader + longest_) continue;
    frames_[frames++] = {buffer(receive_, entry.id) + kNetHeader, entry.bytes - kNetHeader};
  }
  return {frames_.data(), frames};
}

uint8_t* VhostPort::reserve(uint32_t bytes) {
  if (bytes > longest_) return nullptr;
  if (free_.empty()) {
    Rings& rings = *transmit_.rings;
    for (const uint16_t end = load(rings.used.index); transmit_.used != end;) {
      const uint32_t id = rings.used.entries[transmit_.used++ % kEntries].id;
      if (id < kEntries && free_.size() < kEntries) free_.push_back(static_cast<uint16_t>(id));
    }
    if (free_.empty()) {
      flush();
      return nullptr;
    }
  }
  return buffer(transmit_, free_.back()) + kNetHeader;
}

void VhostPort::commit(uint32_t bytes) {
  const uint16_t id = free_.back();
  if (gone_) return;  // as into a cable without a plug
  free_.pop_back();
  transmit_.rings->descriptors[id].bytes = kNetHeader + bytes;
  offer(transmit_, id);
}

void VhostPort::flush() {
  if (transmit_.available != transmit_.rings->available.index) publish(transmit_);
}

bool VhostPort::still_there() {
  if (gone_ || socket_.connected()) return !gone_;
  gone_ = true;
  std::fprintf(stderr, "understudy soft NIC: the other end of the vhost socket has gone\n");
  if (free_.empty()) free_.push_back(0);  // nobody gives any back
  return false;
}

bool VhostPort::begin_wait() {
  if (!still_there()) return true;
  Rings& rings = *receive_.rings;
  store(rings.available.flags, 0);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return load(rings.used.index) == receive_.used;
}

void VhostPort::end_wait() {
  store(receive_.rings->available.flags, kNoInterrupt);
  uint64_t calls;
  [[maybe_unused]] const auto got = read(receive_.call.get(), &calls, sizeof calls);
}

}  // namespace understudy::soft_nic
