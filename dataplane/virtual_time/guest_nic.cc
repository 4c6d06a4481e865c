#include "dataplane/virtual_time/guest_nic.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "dataplane/base/try.h"
#include "dataplane/virtual_time/guest_socket.h"

namespace understudy {
namespace {

// vhost-user's requests (QEMU's documentation, interop/vhost-user.rst).
enum Code : uint32_t {
  kGetFeatures = 1,
  kSetMemTable = 5,
  kSetVringNum = 8,
  kSetVringAddr = 9,
  kSetVringBase = 10,
  kGetVringBase = 11,
  kGetProtocolFeatures = 15,
  kGetQueueNum = 17,
  kSetVringEnable = 18,
  kSetBackendRequestFd = 21,
  kGetConfig = 24,
  kVringKick = 35,
};
constexpr uint32_t kBackendVringCall = 4;
constexpr uint32_t kVersion = 1, kVersionBits = 3, kReply = 1 << 2, kNeedReply = 1 << 3;

// Feature bits: the MAC and merged receive buffers of virtio-net, virtio 1, and vhost-user's own.
constexpr uint64_t kFeatures = 1ULL << 5 | 1ULL << 15 | 1ULL << 30 | 1ULL << 32;
// Protocol features: replies to all, our own requests, configuration, in-band notifications.
constexpr uint64_t kProtocolFeatures = 1ULL << 3 | 1ULL << 5 | 1ULL << 9 | 1ULL << 14;

constexpr size_t kHeaderBytes = 12, kMostPayload = 1024;
/// virtio_net_hdr_mrg_rxbuf; its last field is how many buffers a frame has.
constexpr size_t kNetHeaderBytes = 12, kNetBuffersAt = 10;
/// A jumbo frame with a VLAN tag: longer ones do not leave a NIC.
constexpr size_t kMostFrameBytes = 9018;
constexpr size_t kConfigBytes = 64, kConfigAt = 12;
constexpr size_t kLongestFields = 40;

uint32_t word(std::span<const uint8_t> bytes, size_t at) {
  uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

uint64_t long_word(std::span<const uint8_t> bytes, size_t at) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::vector<uint8_t> bytes_of(uint64_t value) {
  std::vector<uint8_t> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

}  // namespace

struct GuestNic::Request {
  uint32_t code = 0, flags = 0;
  std::vector<uint8_t> payload;
  std::vector<UniqueFd> fds;
  std::vector<uint8_t> reply;  ///< empty: none but the acknowledgement, where it is asked for
};

Result<void> GuestNic::listen(const std::string& path) {
  listener_ = TRY(listen_unix(path));
  return {};
}

Result<void> GuestNic::serve(const Kicked& kicked) {
  if (!connection_.valid()) {
    connection_ = UniqueFd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    listener_ = UniqueFd();
    if (!connection_.valid()) return fail(std::string("accept: ") + std::strerror(errno));
    limit_waits(connection_.get());
    return {};
  }
  Request request;
  std::array<uint8_t, kHeaderBytes> header;
  bool there = read_whole(connection_.get(), header, &request.fds);
  if (there) {
    request.code = word(header, 0);
    request.flags = word(header, 4);
    if ((request.flags & kVersionBits) != kVersion) {
      return fail("a vhost-user message has flags " + std::to_string(request.flags) +
                  ": expected version 1");
    }
    if (word(header, 8) > kMostPayload) {
      return fail("a vhost-user message has " + std::to_string(word(header, 8)) +
                  " bytes: expected up to " + std::to_string(kMostPayload));
    }
    request.payload.resize(word(header, 8));
    there = read_whole(connection_.get(), request.payload, &request.fds);
  }
  if (!there) {
    connection_ = UniqueFd();
    for (GuestQueue& queue : queues_) queue.reset();
    memory_.clear();
    return {};
  }
  const size_t bytes = request.payload.size();
  request.payload.resize(std::max<size_t>(bytes, kLongestFields));  // those that lack are 0
  TRY(take(request, kicked));
  if (request.code == kGetConfig) request.reply.resize(bytes);
  if (request.reply.empty() && (request.flags & kNeedReply) != 0) request.reply = bytes_of(0);
  if (request.reply.empty()) return {};
  std::vector<uint8_t> answer(kHeaderBytes);
  const uint32_t fields[3] = {request.code, kVersion | kReply,
                              static_cast<uint32_t>(request.reply.size())};
  std::memcpy(answer.data(), fields, kHeaderBytes);
  answer.insert(answer.end(), request.reply.begin(), request.reply.end());
  write_whole(connection_.get(), answer);
  return {};
}

GuestQueue* GuestNic::queue_of(const Request& request) {
  const uint32_t number = word(request.payload, 0);
  return number < queues_.size() ? &queues_[number] : nullptr;
}

Result<void> GuestNic::take(Request& request, const Kicked& kicked) {
  const auto no_queue = [&] { return fail("names a queue that its network device does not have"); };
  GuestQueue* const queue = queue_of(request);
  switch (request.code) {
    case kGetFeatures:
      request.reply = bytes_of(kFeatures);
      return {};
    case kGetProtocolFeatures:
      request.reply = bytes_of(kProtocolFeatures);
      return {};
    case kGetQueueNum:
      request.reply = bytes_of(1);
      return {};
    case kSetMemTable:
      return map_memory(request);
    case kSetVringNum:
      if (queue == nullptr) return no_queue();
      if (queue->set_size(word(request.payload, 4))) return {};
      return fail("a ring has " + std::to_string(word(request.payload, 4)) +
                  " entries: expected a power of two up to 32768");
    case kSetVringAddr:
      if (queue == nullptr) return no_queue();
      if (!queue->set_rings(memory_, long_word(request.payload, 8), long_word(request.payload, 16),
                            long_word(request.payload, 24))) {
        return fail("a ring is not in the guest's memory");
      }
      return {};
    case kSetVringBase:
      if (queue == nullptr) return no_queue();
      queue->set_base(static_cast<uint16_t>(word(request.payload, 4)));
      return {};
    case kGetVringBase: {
      if (queue == nullptr) return no_queue();
      request.reply = bytes_of(word(request.payload, 0) | uint64_t{queue->base()} << 32);
      return {};
    }
    case kSetVringEnable:
      if (queue == nullptr) return no_queue();
      queue->enable(word(request.payload, 4) != 0);
      return {};
    case kSetBackendRequestFd:
      if (request.fds.empty()) return {};
      back_ = std::move(request.fds.front());
      limit_waits(back_.get());
      return {};
    case kGetConfig: {
      std::array<uint8_t, kConfigBytes> config{};
      std::ranges::copy(mac_.bytes, config.begin());
      config[6] = 1;                    // the link is up
      request.reply = request.payload;  // offset, size, flags, and room for the contents
      const size_t from = std::min<size_t>(word(request.payload, 0), config.size());
      std::copy_n(config.begin() + static_cast<ptrdiff_t>(from),
                  std::min(request.reply.size() - kConfigAt, config.size() - from),
                  request.reply.begin() + kConfigAt);
      return {};
    }
    case kVringKick:
      return queue == nullptr ? no_queue() : kicked(static_cast<Queue>(word(request.payload, 0)));
    default:
      return {};  // nothing that we have to know
  }
}

Result<void> GuestNic::map_memory(Request& request) {
  for (GuestQueue& queue : queues_) queue.forget_rings();
  memory_.clear();
  constexpr size_t kFirst = 8, kRegionBytes = 32;
  const uint32_t regions = word(request.payload, 0);
  if (regions != request.fds.size() || kFirst + regions * kRegionBytes > request.payload.size()) {
    return fail("its memory's regions do not have a descriptor each");
  }
  for (size_t i = 0; i < regions; ++i) {
    const size_t at = kFirst + i * kRegionBytes;
    const auto field = [&](size_t number) { return long_word(request.payload, at + 8 * number); };
    if (!memory_.add(request.fds[i].get(), field(3), field(0), field(2), field(1))) {
      return fail(std::string("its memory cannot be mapped: ") + std::strerror(errno));
    }
  }
  return {};
}

bool GuestNic::take_frame(std::vector<uint8_t>& frame, uint16_t& head) {
  GuestQueue::Chain chain;
  while (queues_[kTransmit].take(memory_, chain)) {
    if (chain.bytes <= kNetHeaderBytes || chain.bytes > kNetHeaderBytes + kMostFrameBytes) {
      ++broken_;
      give_back(chain.head);
      continue;
    }
    frame.clear();
    for (const auto part : chain.parts) frame.insert(frame.end(), part.begin(), part.end());
    frame.erase(frame.begin(), frame.begin() + kNetHeaderBytes);
    head = chain.head;
    return true;
  }
  return false;
}

bool GuestNic::deliver(std::span<const uint8_t> frame) {
  GuestQueue& queue = queues_[kReceive];
  const size_t needed = kNetHeaderBytes + frame.size();
  std::vector<GuestQueue::Chain> chains;
  uint64_t room = 0;
  while (room < needed) {
    GuestQueue::Chain chain;
    if (!queue.peek(memory_, static_cast<uint16_t>(chains.size()), chain)) return false;
    room += chain.bytes;
    chains.push_back(std::move(chain));
  }
  std::vector<uint8_t> bytes(kNetHeaderBytes);
  const auto buffers = static_cast<uint16_t>(chains.size());
  std::memcpy(bytes.data() + kNetBuffersAt, &buffers, sizeof buffers);
  bytes.insert(bytes.end(), frame.begin(), frame.end());
  std::span<const uint8_t> rest = bytes;
  for (const auto& offered : chains) {
    GuestQueue::Chain chain;
    queue.take(memory_, chain);
    uint32_t written = 0;
    for (const auto part : offered.parts) {
      const size_t n = std::min(part.size(), rest.size());
      std::memcpy(part.data(), rest.data(), n);
      rest = rest.subspan(n);
      written += static_cast<uint32_t>(n);
    }
    if (offered.parts.empty()) ++broken_;
    queue.give_back(offered.head, written);
  }
  return true;
}

Result<void> GuestNic::interrupt(Queue queue, const Wait& wait) {
  if (!back_.valid()) return {};
  const uint32_t message[5] = {kBackendVringCall, kVersion | kNeedReply, 8, queue, 0};
  std::array<uint8_t, sizeof message> bytes;
  std::memcpy(bytes.data(), message, sizeof message);
  std::array<uint8_t, kHeaderBytes + 8> answer;
  bool there = write_whole(back_.get(), bytes);
  if (there) {
    TRY(wait(back_.get()));
    there = read_whole(back_.get(), answer);
  }
  if (!there) back_ = UniqueFd();
  return {};
}

}  // namespace understudy
