// Emulated nodes that a peer WRITEs to, and the frames that it sends: for benchmarks of what is
// received.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "tests/bench/bench_shard.h"
#include "tests/bench/feed.h"

namespace understudy {

struct RespondersSetup {
  FeedShape feed;  ///< its number of frames is `cold`'s
  bool cold = false;
  uint32_t nodes = 1;        ///< emulated ones
  uint32_t queue_pairs = 1;  ///< in all, those of each node alike
  Between between = Between::kTwoLinks;
};

class Responders {
 public:
  explicit Responders(const RespondersSetup& setup)
      : setup_(setup), rig_(bench_config(setup.nodes, setup.queue_pairs, setup.between)) {
    std::vector<FeedTarget> targets;
    std::vector<Rkey> rkeys;
    for (NodeId node = 1; node <= setup.nodes; ++node) {
      rkeys.push_back(rig_.add_region(node, uint64_t{1} << 32));
    }
    for (uint32_t i = 0; i < setup.queue_pairs; ++i) {
      const NodeId node = 1 + i % setup.nodes;
      // Packets of long messages fill the path MTU, whether there is one of that size or not.
      const uint32_t payload = setup.feed.payload;
      QpConfig q = rig_.qp_config(
          i, node, setup.feed.message_packets > 1 ? payload : std::max(payload, 1024u));
      q.send_queue = 0;
      qps_.push_back(&rig_.add_qp(q, endpoint_));
      FeedTarget& target = targets.emplace_back();
      target.way = q.addressing;
      std::swap(target.way.src, target.way.dst);
      std::swap(target.way.src_mac, target.way.dst_mac);
      target.qpn = q.qpn;
      target.rkey = rkeys[node - 1];
    }
    FeedShape shape = setup.feed;
    shape.frames = feed_frames(shape.payload, setup.cold);
    feed_ = std::make_unique<Feed>(std::move(targets), shape);
  }

  const RespondersSetup& setup() const { return setup_; }
  Feed& feed() { return *feed_; }
  BenchShard& rig() { return rig_; }
  Qp& qp(size_t i) { return *qps_[i]; }
  /// The burst is handled, and what it leads to, up to its time. Not inlined: so profiles can tell
  /// it from the making of frames.
  [[gnu::noinline]] void handle(std::span<const std::span<const uint8_t>> frames,
                                std::span<const ReadFrame* const> read = {}) {
    rig_.now += bench_line().time_for(kBurst * (setup_.feed.payload + 120));
    rig_.shard.rx({rig_.now, Duration(), frames, 0, read});
    rig_.shard.poll(rig_.now, sink_);
  }
  /// Everything was executed, once; but damaged frames, which were dropped.
  void check(uint64_t frames) {
    for (int i = 0; i < 100; ++i) {
      rig_.now += Duration::us(1);
      rig_.shard.poll(rig_.now, sink_);
    }
    const FeedShape& f = setup_.feed;
    const uint64_t damaged = f.damage_every == 0 ? 0 : frames / f.damage_every;
    must_equal("RoCE packets received", rig_.shard.counters().rx_roce, frames);
    must_equal("dropped for their ICRC", rig_.drops(Drop::kBadIcrc), damaged);
    must_equal("dropped in all", rig_.drops(), damaged);
    for (const RcEvent e : {RcEvent::kDuplicateRequest, RcEvent::kPsnGap, RcEvent::kNakSent,
                            RcEvent::kInvalidRequest, RcEvent::kRemoteAccess}) {
      must_equal(rc_event_name(e), rig_.rc(e), 0);
    }
    const uint64_t messages = (frames - damaged) / f.message_packets;
    must_equal("messages", endpoint_.messages, messages);
    must_equal("bytes in messages", endpoint_.bytes, messages * f.message_packets * f.payload);
    must_equal("frames sent", sink_.sent, rig_.rc(RcEvent::kAckSent));
    // Without links' times a whole burst comes at one moment, and is answered by one ACK.
    if (setup_.between == Between::kNothing) return;
    must_equal("ACKs", sink_.sent, messages / f.ack_every);
  }
  uint64_t acks() const { return sink_.sent; }

 private:
  struct Counting final : Endpoint {
    void on_received(Time, Qp&, const Received& m) override {
      ++messages;
      bytes += m.length;
    }
    void on_completed(Time, Qp&, uint64_t, WorkStatus) override {}
    uint64_t messages = 0, bytes = 0;
  };

  RespondersSetup setup_;
  BenchShard rig_;
  RingSink sink_;
  Counting endpoint_;
  std::vector<Qp*> qps_;
  std::unique_ptr<Feed> feed_;
};

/// Runs them and checks what they did.
inline void run_responders(benchmark::State& state, const RespondersSetup& setup) {
  Responders nodes(setup);
  const uint64_t frames =
      run_feed(state, nodes.feed(), setup.cold, [&](const auto& burst) { nodes.handle(burst); });
  nodes.check(frames);
  state.SetItemsProcessed(state.iterations());
  state.counters["acks"] = static_cast<double>(nodes.acks()) / static_cast<double>(frames);
  state.counters["bytes"] = setup.feed.payload;  // where no argument says it
}

}  // namespace understudy
