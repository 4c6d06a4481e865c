// One of net_ib's connections with real queue pairs (docs/nccl 2.4, 3.1 to 3.4): the credits and
// messages of one direction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "tests/rigs/nccl_rank/credits.h"
#include "tests/rigs/nccl_rank/real_rank.h"
#include "tools/rigs/ring_node/verbs/verbs_queue_pair.h"

namespace understudy::nccl_rank {

/// Messages are counted from 0 since the connection was made. All of it throws Refused.
class VerbsConnection {
 public:
  struct Settings {
    nccl_decode::Release release;
    int queue_pairs = 1;
    bool split = false;   ///< a message over all of them, else they take turns
    uint32_t number = 0;  ///< in work requests
    uint32_t sender = 0;  ///< rank
  };
  VerbsConnection(const VerbsDevice& device, const Settings& settings, const Link& link);

  const Link& link() const { return link_; }
  const IbSide& own() const { return own_; }
  void connect(const IbSide& theirs);

  /// How an operation uses it: steps of a buffer of 8, by which each message's slot is found.
  struct Use {
    uint32_t step_bytes = 0, slice_steps = 1, chunk_steps = 1;
    uint32_t capacity = 0;  ///< bytes that a credit offers
  };
  void begin(const Use& use);

  // Of a receiver.
  /// Offers room for the next message.
  void grant();
  uint64_t granted() const { return granted_; }
  uint64_t arrived() const { return arrived_; }
  /// Bytes of a message that has arrived, as its immediate says.
  uint32_t size(uint64_t k) const { return sizes_[k % kKept]; }

  // Of a sender.
  /// Writes the next message out of its slot, if its credit is there.
  bool post(uint32_t bytes);
  uint64_t posted() const { return posted_; }
  uint64_t acknowledged() const { return acknowledged_; }

  /// Of the current operation.
  uint64_t step(uint64_t k) const { return first_step_ + (k - first_) * use_.slice_steps; }
  std::byte* slot(uint64_t k) const { return buffer_->data() + offset(k); }

  enum class Kind : uint64_t { kData, kReceive, kCredit };
  static uint32_t number_of(uint64_t id) { return static_cast<uint32_t>(id >> 34); }
  static Kind kind_of(uint64_t id) { return static_cast<Kind>(id >> 32 & 3); }
  /// A completion of its own.
  void complete(uint64_t id, uint32_t immediate);

 private:
  static constexpr uint32_t kKept = 256;
  uint64_t id(Kind kind, uint64_t k) const {
    return uint64_t{settings_.number} << 34 | static_cast<uint64_t>(kind) << 32 | (k & 0xffffffff);
  }
  /// Queue pairs that carry a message.
  unsigned parts() const { return settings_.split ? static_cast<unsigned>(qps_.size()) : 1; }
  ibv_qp* part(uint64_t k, unsigned part) const {
    return qps_[settings_.split ? part : k % qps_.size()].get();
  }
  uint64_t offset(uint64_t k) const { return step(k) % 8 * use_.step_bytes; }

  const VerbsDevice& device_;
  Settings settings_;
  Link link_;
  const CreditLayout& layout_;
  IbSide own_, theirs_;
  std::unique_ptr<RegisteredMemory> fifo_;    ///< credits, that come or that go
  std::unique_ptr<RegisteredMemory> buffer_;  ///< of messages
  uint64_t buffer_bytes_ = 0;
  std::vector<VerbsQueuePair> qps_;
  Use use_;
  uint64_t first_ = 0;       ///< message of the operation
  uint64_t first_step_ = 0;  ///< its step
  uint64_t granted_ = 0, arrived_ = 0, posted_ = 0, acknowledged_ = 0;
  std::vector<uint8_t> missing_ = std::vector<uint8_t>(kKept);  ///< completions of a message
  std::vector<uint32_t> sizes_ = std::vector<uint32_t>(kKept);
};

/// All connections of a rank.
class VerbsAdapter final : public IbAdapter {
 public:
  VerbsAdapter(const IpAddress& address, const World& world, int rank);

  IbSide open(const Link& link) override;
  void connect(const IbSide& own, const IbSide& theirs) override;
  /// That has been made for this link.
  VerbsConnection& connection(const Link& link) { return *connections_.at(by_link_.at(link)); }
  /// Tells connections of their completions; false: there were none.
  bool poll();
  std::string text() const { return device_.text(); }

 private:
  VerbsDevice device_;
  const World& world_;
  int rank_;
  std::vector<std::unique_ptr<VerbsConnection>> connections_;
  std::map<uint32_t, uint32_t> by_qpn_;  ///< of their first queue pair
  std::map<Link, uint32_t> by_link_;
};

}  // namespace understudy::nccl_rank
