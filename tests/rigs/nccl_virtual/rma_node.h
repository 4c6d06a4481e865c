// Queue pairs and memory of a reference rank's RMA proxy in virtual time.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/shards/shard_control.h"
#include "dataplane/nccl/nccl_connection.h"
#include "tests/rigs/nccl_rank/rma_proxy.h"

namespace understudy::nccl_rank {

/// An end of the ring.
class RmaRingEnd final : public Endpoint {
 public:
  static constexpr uint32_t kSlots = 4, kSlotBytes = 256;
  /// NCCL takes no credit with another tag.
  static constexpr uint32_t kTag = 0xa0;
  explicit RmaRingEnd(bool sends) : sends_(sends) {}

  const bool sends_;
  ExposedRegion region;
  std::vector<uint8_t> staging;
  CtsLayout layout;
  NcclSender sender;
  NcclReceiver receiver;
  std::deque<Bytes> messages;     ///< to send, or that came
  std::deque<uint32_t> capacity;  ///< of credits to grant
  size_t sent = 0, granted = 0, posted = 0;
  bool failed = false;

  void on_wake(Time now, uint64_t) override { act(now); }
  void on_received(Time now, Qp& qp, const Received& message) override;
  void on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) override;

 private:
  void act(Time now);
};

/// An end of the mesh: what is posted there, or where others' come.
class RmaMeshEnd final : public Endpoint {
 public:
  ExposedRegion region;
  Qp* qp = nullptr;
  std::deque<WorkRequest> waiting;
  size_t done = 0;
  bool failed = false;

  void on_wake(Time now, uint64_t) override;
  void on_received(Time, Qp&, const Received&) override {}
  void on_completed(Time now, Qp&, uint64_t id, WorkStatus status) override;
};

class RmaNode final : public RmaAdapter {
 public:
  /// All outlive this. `rank`: of the job.
  RmaNode(const Config& config, const JobConfig& job, uint32_t rank, ShardControl& control)
      : config_(config), job_(job), rank_(rank), control_(control) {}

  IbSide open(const Link& link) override;
  void connect(const IbSide& own, const IbSide& theirs) override;
  RmaMemory expose(uint64_t bytes) override;
  void ring_send(Bytes bytes) override;
  void ring_receive(size_t bytes) override;
  size_t ring_sent() const override { return out_->sent; }
  const std::deque<Bytes>& ring_received() const override { return in_->messages; }
  void put(int peer, const uint8_t* from, uint64_t bytes, uint64_t address, uint32_t rkey) override;
  void signal(int peer, uint64_t value, uint64_t* original, uint64_t address,
              uint32_t rkey) override;
  void get(int peer, uint8_t* to, uint64_t bytes, uint64_t address, uint32_t rkey) override;
  size_t posted() const override { return posted_; }
  size_t done() const override;
  bool failed() const override;

 private:
  struct End {
    Link link;
    Qpn qpn = 0;
    std::unique_ptr<RmaRingEnd> ring;
    std::unique_ptr<RmaMeshEnd> mesh;
  };
  const NodeConfig& node(uint32_t rank) const { return config_.nodes[job_.ranks[rank]]; }
  void post(int peer, const WorkRequest& request);

  const Config& config_;
  const JobConfig& job_;
  const uint32_t rank_;
  ShardControl& control_;
  std::deque<End> ends_;
  std::map<int, RmaMeshEnd*> to_;
  RmaRingEnd *out_ = nullptr, *in_ = nullptr;
  size_t posted_ = 0;
};

}  // namespace understudy::nccl_rank
