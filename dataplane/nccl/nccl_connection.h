// NCCL's data phase over one connection, that is one direction of one channel between two
// neighbours (docs/nccl 3.1 to 3.5): the receiver writes credits (CTS entries) into the sender's
// FIFO, the sender answers each with RDMA WRITEs, the last one WITH IMMEDIATE on each queue pair
// that it uses.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "dataplane/nccl/cts_layout.h"
#include "dataplane/nccl/nccl_steps.h"
#include "dataplane/nccl/port_failover.h"
#include "dataplane/nccl/reflection.h"
#include "dataplane/node/endpoint.h"

namespace understudy {

/// A credit: where and how much the sender may write next.
struct CtsEntry {
  uint64_t address = 0;
  uint64_t size = 0;  ///< capacity, not the message's size
  DeviceRkeys rkey;   ///< of the receiver's devices
  uint32_t requests = 1;
  uint32_t tag = 0;    ///< the sender's rank
  uint64_t index = 0;  ///< message number + 1

  void encode(const CtsLayout& layout, uint8_t* out) const;
  static CtsEntry decode(const CtsLayout& layout, const uint8_t* in);
};

/// The queue pairs of one connection and how messages are spread over them (docs/nccl 3.2).
struct NcclQps {
  std::vector<Qp*> all;
  /// NCCL_IB_SPLIT_DATA_ON_QPS: each message goes over all of them, in parts of whole 128 bytes.
  /// Else over one for each device, and the others take turns.
  bool split = false;
  uint32_t devices = 1;  ///< of the end that has more of them
  /// Of each queue pair: which of the far end's devices it leads to. Empty: there is one.
  std::vector<uint8_t> far_device = {};

  uint32_t count() const { return static_cast<uint32_t>(all.size()); }
  uint32_t index(const Qp& qp) const;
  Rkey key(const DeviceRkeys& keys, uint32_t qp) const {
    return keys[far_device.empty() ? 0 : far_device[qp]];
  }
  /// Of a message.
  uint32_t parts() const { return split ? count() : std::min(devices, count()); }
  /// The queue pair of a part of message `k`.
  uint32_t of_part(const CtsLayout& layout, uint64_t k, uint32_t part) const {
    return static_cast<uint32_t>((k * (layout.turns_by_one ? 1 : parts()) + part) % count());
  }
};

/// Parts of messages that came, or were acknowledged, on several queue pairs: in any order between
/// these, in their own order on each.
class NcclParts {
 public:
  /// `most`: messages that are not whole.
  void reset(uint32_t queue_pairs, uint32_t most);
  void add(uint32_t qp, uint32_t bytes);
  /// Whether message `k`, the oldest one that is left, is whole: then it is taken, its bytes to
  /// `bytes`.
  bool take(const NcclQps& qps, const CtsLayout& layout, uint64_t k, uint32_t& bytes);

 private:
  struct Line {
    uint64_t came = 0, taken = 0;
  };
  std::vector<Line> lines_;      ///< by queue pair
  std::vector<uint32_t> bytes_;  ///< of parts, `most_` for each queue pair
  uint32_t most_ = 0;
};

/// Ids of work requests of a connection with port failover: a message and which part of it.
struct FailoverId {
  static constexpr uint64_t kMark = uint64_t{1} << 62;
  static constexpr uint64_t of(uint64_t k, uint32_t part) { return kMark | k << 8 | part; }
  static constexpr bool is(uint64_t id) { return (id >> 62) == 1; }
  static constexpr uint64_t message(uint64_t id) { return (id & (kMark - 1)) >> 8; }
  static constexpr uint32_t part(uint64_t id) { return static_cast<uint32_t>(id & 0xff); }
  /// What the immediate says then, instead of the message's size.
  static constexpr uint32_t immediate(uint64_t k) { return static_cast<uint32_t>(k % UINT32_MAX); }
};

/// The sending side of a connection.
class NcclSender : private PortFailover::User {
 public:
  struct Setup {
    NcclQps qps = {};
    CtsLayout layout = {};
    const uint8_t* fifo = nullptr;  ///< that the receiver writes to
    /// A connection for collectives: messages of the protocols LL and LL128 carry their flags.
    bool collective = false;
    NcclBuffers buffers = {};
    /// Where the data of small messages of `collective` connections come from, if set.
    const Reflection* reflection = nullptr;
    /// A credit may name several receives, whose sizes go to the receiver's memory.
    bool several_receives = false;
    uint64_t sizes_va = 0;
    DeviceRkeys sizes_rkey = {};
    // Counted, if set:
    std::atomic<uint64_t>* violations = nullptr;  ///< credits that are not where they should lie
    std::atomic<uint64_t>* registered = nullptr;  ///< credits of registered user memory
    PortFailover* failover = nullptr;             ///< both ends have it on; it outlives this
  };
  void connect(Setup setup);
  bool connected() const { return !setup_.qps.all.empty(); }
  bool reflects() const { return setup_.reflection != nullptr; }

  /// Bytes that the credit for message `k`, which has come, offers; of several receives the first.
  uint64_t capacity(uint64_t k) const;
  /// True when the credit for message `k` (counted over all operations) has come.
  bool has_credit(uint64_t k) const;
  /// Posts message `k`, the next one: `size` bytes to where its credit says, or to each place that
  /// it names, where that has room. False without credit, when the credit is too small, or while a
  /// send queue is full. Without `payload` data are zeros, with flags where the kernel on the other
  /// side looks for them.
  bool send(Time now, EndpointHost& host, uint64_t k, uint32_t size, const PayloadRef& payload,
            uint64_t id);

  /// Adds to message `k`, one of the newest eight, the lines that it is shorter than `size`, where
  /// the kernel on the other side spins on their flags (LL, LL128): what was sent on a guess is no
  /// reason to wait for ever. False while the send queue is full.
  bool lengthen(Time now, EndpointHost& host, uint64_t k, uint32_t size);

  /// What LL and LL128 carry as the flag of message `k`, one of the newest eight of a connection for
  /// collectives.
  uint64_t flag(uint64_t k) const { return newest_[k % newest_.size()].place.flag(); }

  /// Ids of work requests that are not a message's last one.
  static constexpr uint64_t kPart = ~uint64_t{0} - 1;
  static constexpr uint64_t kBeforePart = ~uint64_t{0} - 2;
  static constexpr bool is_message(uint64_t id) { return id < kBeforePart; }
  /// The message whose last packet is that of work request `id`; nothing if there is more of it.
  std::optional<uint64_t> ends_message(uint64_t id) const;
  /// A work request failed. False: the connection is lost, as it always is without port failover.
  bool fails_over(Time now, const Qp& qp, uint64_t id, WorkStatus status);

  /// A work request was acknowledged: calls message(id) for each message that now wholly is, in
  /// their order.
  template <typename Message>
  void acknowledged(const Qp& qp, uint64_t id, Message message) {
    if (several_ == nullptr) {
      if (is_message(id)) message(id);
      return;
    }
    if (id == kBeforePart) return;
    if (setup_.failover == nullptr) {
      several_->acknowledged.add(setup_.qps.index(qp), 0);
    } else if (FailoverId::is(id)) {
      part_arrived(FailoverId::message(id), FailoverId::part(id));
    }
    while (take_acknowledged()) {
      message(several_->ids[several_->first++ % setup_.layout.slots]);
    }
  }

 private:
  /// Of connections whose messages may take several work requests.
  struct Several final : PayloadSource {
    void fill(uint64_t cookie, uint64_t offset, std::span<uint8_t> out) const override;
    uint64_t first = 0, end = 0;  ///< messages that are not wholly acknowledged
    std::vector<uint64_t> ids;    ///< of messages, by slot
    NcclParts acknowledged;
    std::vector<std::array<uint32_t, CtsLayout::kEntries>> sizes;  ///< by slot
    uint32_t posted = 0;  ///< work requests of the message that is being posted
    /// With port failover, by slot.
    struct Flight {
      uint64_t k = 0, id = 0;
      uint32_t size = 0, entries = 1;
      PayloadRef payload;
      bool probing = false;
    };
    struct Part {
      enum class State : uint8_t { kPosted, kLost, kArrived } state = State::kPosted;
      uint8_t over = 0;     ///< queue pair
      uint32_t repeat = 0;  ///< work requests of it that have been posted again
    };
    std::vector<Flight> flights;
    std::vector<Part> parts;
  };

  const uint8_t* slot(uint64_t k) const {
    return setup_.fifo + k % setup_.layout.slots * setup_.layout.stride();
  }
  CtsEntry entry(uint64_t k, uint32_t i = 0) const {
    return CtsEntry::decode(setup_.layout, slot(k) + size_t{i} * setup_.layout.entry_bytes);
  }
  /// Takes the oldest message off the acknowledgements, if it is whole.
  bool take_acknowledged();
  // With port failover (nccl_failover.cc):
  void on_probed(Time now, EndpointHost& host, uint64_t k, const uint8_t* flags) override;
  void on_retry(Time now, EndpointHost& host, uint64_t k) override;
  void begin_part(uint64_t k, uint32_t part, uint32_t size, const PayloadRef& payload, uint64_t id,
                  uint32_t entries);
  void part_arrived(uint64_t k, uint32_t part);
  bool has_arrived(uint64_t k, uint32_t part, const uint8_t* flags) const;
  bool is_under_way(uint64_t k) const;
  Several::Part& flight_part(uint64_t k, uint32_t part) const;
  uint32_t queue_pair(uint64_t k, uint32_t part) const {
    const uint32_t qp = setup_.qps.of_part(setup_.layout, k, part);
    return setup_.failover == nullptr ? qp : setup_.failover->active(qp);
  }
  PayloadRef lines(const CtsEntry& credit, uint32_t size);
  void check(const CtsEntry& credit, const NcclSteps::Place& place);
  bool post_parts(Time now, EndpointHost& host, uint64_t k, uint32_t size,
                  const PayloadRef& payload, uint64_t id, uint32_t entries);
  WorkRequest part(uint64_t k, uint32_t part, uint32_t request, uint32_t size,
                   const PayloadRef& payload, uint64_t id, uint32_t entries) const;

  Setup setup_;
  std::unique_ptr<Several> several_;
  NcclSteps steps_;
  uint64_t counted_ = 0;  ///< messages that steps_ knows
  PayloadRef lines_;      ///< of the newest of them
  struct Posted {
    NcclSteps::Place place;
    uint32_t bytes = 0;
  };
  std::array<Posted, 8> newest_ = {};   ///< no more messages of LL or LL128 are under way
  std::array<uint64_t, 3> bases_ = {};  ///< of the buffers of LL, LL128, Simple, once seen
};

/// The receiving side of a connection.
class NcclReceiver : private PortFailover::User {
 public:
  struct Setup {
    NcclQps qps = {};
    CtsLayout layout = {};
    uint64_t fifo_va = 0;  ///< the sender's FIFO
    DeviceRkeys fifo_rkey = {};
    /// Ours: credits go over the first queue pair of each in turn.
    uint32_t devices = 1;
    uint64_t buffer_va = 0;  ///< our memory, `slots` messages of `slot_bytes`
    Rkey buffer_rkey = 0;
    uint32_t slots = 0;
    uint32_t slot_bytes = 0;
    /// Messages lie where NCCL has them, in buffers of Simple, LL and LL128 that follow each other,
    /// instead.
    bool stepped = false;
    /// `stepped`: messages that no buffer of NCCL's is for have slots of their own.
    bool own_slots = false;
    NcclBuffers buffers = {};
    uint32_t sender_rank = 0;
    uint8_t* staging = nullptr;        ///< an entry a slot: they stay until they are acknowledged
    Reflection* reflection = nullptr;  ///< that is told the contents of small messages, if set
    PortFailover* failover = nullptr;  ///< both ends have it on; it outlives this
    uint8_t* records = nullptr;        ///< `failover`: CompletionRecords, which the sender reads
  };
  void connect(Setup setup);
  bool connected() const { return !setup_.qps.all.empty(); }
  uint32_t slot(uint64_t k) const { return static_cast<uint32_t>(k % setup_.slots); }
  /// Bytes of memory of stepped buffers.
  static constexpr uint64_t stepped_bytes(const NcclBuffers& b) {
    return uint64_t{b.simple} + b.ll + b.ll128;
  }

  /// Of message `k`, whose credit is one of the newest 16: where it lies in our memory, and, if
  /// `stepped`, the flag that LL and LL128 carry.
  uint64_t offset(uint64_t k) const { return places_[k % kPlaces].offset; }
  uint64_t flag(uint64_t k) const { return places_[k % kPlaces].flag; }

  uint64_t granted() const { return granted_; }
  /// Whether no credit has been granted yet for the message that takes the place of message `k`.
  bool holds(uint64_t k) const { return granted_ <= k + setup_.slots; }
  /// Grants the credit for the next message, of `capacity` bytes (0: all of a slot): posts a
  /// receive and writes the CTS entry.
  bool grant(Time now, EndpointHost& host, uint32_t capacity = 0);
  /// A credit's work request failed. False: as NcclSender::fails_over().
  bool fails_over(Time now, EndpointHost& host, const Qp& qp, uint64_t id, WorkStatus status);

  /// Something came: calls message(bytes) for each message that is whole now, in their order.
  template <typename Message>
  void received(const Qp& qp, const Received& came, Message message) {
    // A message that is split over queue pairs is kept in so far as its first part goes.
    if (setup_.reflection != nullptr && came.payload != nullptr &&
        (came.va - setup_.buffer_va) % std::max(setup_.slot_bytes, 1u) == 0) {
      setup_.reflection->take({came.payload, came.length});
    }
    if (several_ == nullptr) {
      held_ += came.length;
      if (!came.has_imm) return;  // adaptive routing: the data before their immediate
      message(std::exchange(held_, 0));
      return;
    }
    take(setup_.qps.index(qp), came);
    for (uint32_t bytes = 0; next_whole(bytes);) message(bytes);
  }

 private:
  /// Of connections with several queue pairs.
  struct Several {
    std::vector<uint32_t> held;  ///< by queue pair: bytes before their immediate
    NcclParts parts;
    uint64_t whole = 0;  ///< messages
    /// With port failover: of a slot's message what has come, each piece once.
    struct Piece {
      uint64_t from = 0;  ///< in the message
      uint32_t bytes = 0;
    };
    std::vector<Piece> pieces;    ///< by slot, as many as a message has parts
    std::vector<uint8_t> count;   ///< the same: pieces
    std::vector<Received> ahead;  ///< by queue pair: data before their immediate
  };
  void take(uint32_t qp, const Received& came);
  // With port failover (nccl_failover.cc):
  void on_probed(Time, EndpointHost&, uint64_t, const uint8_t*) override {}
  void on_retry(Time now, EndpointHost& host, uint64_t k) override;
  void begin_message(uint64_t k);
  void take_piece(uint32_t qp, const Received& came);
  bool whole_pieces(uint32_t& bytes);
  uint64_t address(uint64_t k) const;
  bool post_credit(Time now, EndpointHost& host, uint64_t k);
  bool next_whole(uint32_t& bytes);
  uint64_t place(uint64_t k, uint32_t capacity);

  static constexpr size_t kPlaces = 16;
  struct Placed {
    uint64_t offset = 0, flag = 0;
  };

  Setup setup_;
  std::array<Placed, kPlaces> places_ = {};
  std::unique_ptr<Several> several_;
  NcclSteps steps_;
  uint64_t granted_ = 0;
  uint32_t held_ = 0;
};

}  // namespace understudy
