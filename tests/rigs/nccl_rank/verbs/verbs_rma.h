// A reference rank's RMA proxy on a real RDMA device (docs/nccl 3.16): its ring's messages, and puts,
// signals and gets of its mesh.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>

#include "tests/rigs/nccl_rank/rma_proxy.h"
#include "tools/rigs/ring_node/verbs/verbs_queue_pair.h"

namespace understudy::nccl_rank {

class VerbsRma final : public RmaAdapter {
 public:
  VerbsRma(const World& world, int rank);

  IbSide open(const Link& link) override;
  void connect(const IbSide& own, const IbSide& theirs) override;
  RmaMemory expose(uint64_t bytes) override;
  void ring_send(Bytes bytes) override { to_send_.push_back(std::move(bytes)); }
  void ring_receive(size_t bytes) override;
  size_t ring_sent() const override { return sent_; }
  const std::deque<Bytes>& ring_received() const override { return received_; }
  void put(int peer, const uint8_t* from, uint64_t bytes, uint64_t address, uint32_t rkey) override;
  void signal(int peer, uint64_t value, uint64_t* original, uint64_t address,
              uint32_t rkey) override;
  void get(int peer, uint8_t* to, uint64_t bytes, uint64_t address, uint32_t rkey) override;
  size_t posted() const override { return results_.size(); }
  size_t done() const override { return done_; }
  /// A failed work request throws Refused, in poll().
  bool failed() const override { return false; }

  /// Sends what can go, and hears of what is done; false: of nothing.
  bool poll();

 private:
  struct End {
    Link link;
    VerbsQueuePair qp;
    IbSide own, theirs;
  };
  /// Of what brings bytes back: they come here first.
  struct Result {
    uint8_t* to = nullptr;
    uint64_t from = 0, bytes = 0;
  };
  End& ring(bool sends);
  End& mesh(int peer);
  bool send_next();
  void post(int peer, ibv_send_wr request, uint64_t local, uint32_t bytes, uint32_t lkey);
  uint64_t room_for(uint8_t* to, uint64_t bytes);
  void complete(uint64_t id);

  const World& world_;
  VerbsDevice device_;
  RegisteredMemory credits_, messages_, results_memory_;
  std::deque<RegisteredMemory> exposed_;
  std::deque<uint64_t> exposed_bytes_;
  std::deque<End> ends_;
  std::deque<Bytes> to_send_, received_;
  std::deque<size_t> sizes_;  ///< of messages to come
  size_t posted_sends_ = 0, sent_ = 0, done_ = 0;
  std::deque<Result> results_;
  uint64_t results_used_ = 0;
};

}  // namespace understudy::nccl_rank
