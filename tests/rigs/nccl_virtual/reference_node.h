// The data plane of a node of reference ranks in virtual time: the queue pairs and memory that their
// net_ib tells of are its shard's, and what the other side tells is what they are connected with.
#pragma once

#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "ctrl/jobs/ranks_host.h"
#include "tests/rigs/nccl_rank/real_rank.h"

namespace understudy::nccl_rank {

/// A connection that no operation of the job uses. One message can go over it.
class SpareConnection final : public Endpoint {
 public:
  static constexpr uint32_t kBytes = 3000;  ///< of the message

  SpareConnection(uint32_t rank, const Link& link, const CtsLayout& layout)
      : rank_(rank), link_(link), layout_(layout) {}
  uint32_t rank() const { return rank_; }
  const Link& link() const { return link_; }
  /// Its message has been received, or acknowledged, whole.
  bool exchanged() const { return exchanged_; }

  LinkNearEnd end;
  ExposedRegion region, records;
  PortFailover failover;  ///< if `end` has it
  FailoverCounters failover_counters;

  /// Queue pairs of `end`, as NCCL would use them.
  void prepare(const NcclQps& qps, const LinkNearEnd& theirs, uint32_t devices,
               const DeviceRkeys& keys);

  void on_wake(Time now, uint64_t) override;
  void on_received(Time now, Qp& qp, const Received& message) override;
  void on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) override;

 private:
  void send(Time now);

  const uint32_t rank_;  ///< whose it is
  const Link link_;
  const CtsLayout layout_;
  NcclSender sender_;
  NcclReceiver receiver_;
  std::vector<uint8_t> staging_;
  bool wanted_ = false, sent_ = false, exchanged_ = false;
};

/// Of a node with all of its ranks.
class ReferenceNode {
 public:
  /// All outlive this. `state`: the reference nodes' own, not the emulator's. `real`: which of the
  /// job's real nodes it is.
  ReferenceNode(const Config& config, const JobConfig& job, JobState& state, uint32_t real,
                ShardControl& control);
  ReferenceNode(const ReferenceNode&) = delete;

  /// Of a GPU's rank.
  IbAdapter& adapter(uint32_t gpu) { return adapters_[gpu]; }
  uint32_t first_rank() const { return first_; }

  /// All of its connections that an operation uses stand.
  bool can_carry(size_t operation) const;
  /// Begins with the first operation.
  void start() { ranks_->start(); }
  /// Its process is no more: nothing is sent or taken.
  void vanish();
  /// The queue pairs of all connections on one device of its NICs fail, as by an error of the NIC.
  void lose_device(size_t device);
  const CollectiveProgress& progress() const { return ranks_->progress(); }
  uint32_t queue_pairs() const { return wire_.queue_pairs; }
  /// Connections that the job does not use.
  const std::deque<SpareConnection>& spares() const { return spares_; }
  /// Lets a message go over each of those that have none yet.
  void use_spares();

 private:
  class Adapter final : public IbAdapter {
   public:
    Adapter(ReferenceNode& node, uint32_t rank) : node_(node), rank_(rank) {}
    IbSide open(const Link& link) override { return node_.open(rank_, link); }
    void connect(const IbSide& own, const IbSide& theirs) override { node_.connect(own, theirs); }

   private:
    ReferenceNode& node_;
    const uint32_t rank_;
  };
  IbSide open(uint32_t rank, const Link& link);
  void connect(const IbSide& own, const IbSide& theirs);
  std::optional<uint32_t> link_of(uint32_t rank, const Link& link) const;
  const NodeConfig& node_of(uint32_t rank) const;
  std::vector<unsigned> nics_of(uint32_t rank) const;  ///< that NCCL takes for one

  const Config& config_;
  const JobConfig& job_;
  const CollectiveSetup& setup_;
  const uint32_t first_;  ///< of its ranks
  ShardControl& control_;
  const NcclWire wire_;
  std::unique_ptr<RanksHost> ranks_;
  std::deque<Adapter> adapters_;           ///< by GPU
  std::set<uint32_t> opened_, connected_;  ///< links of the job
  std::deque<SpareConnection> spares_;
  size_t used_ = 0;  ///< of them
};

}  // namespace understudy::nccl_rank
