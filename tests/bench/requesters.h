// Emulated nodes' queue pairs that WRITE to the real node without end, and that node's ACKs: for
// benchmarks of what is sent.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <vector>

#include "dataplane/cc/make_controller.h"
#include "dataplane/node/traffic_source.h"
#include "tests/bench/bench_shard.h"
#include "tests/bench/feed.h"

namespace understudy {

/// What holds a queue pair's packets back.
enum class Control {
  kNone,
  kLineRate,   ///< DCQCN that hears of no congestion
  kEachPaced,  ///< a rate below its share of the link: each packet waits for its time
};

struct RequestersSetup {
  uint32_t payload = 64;  ///< of a packet
  uint32_t message_packets = 1;
  uint32_t queue_pairs = 16;  ///< of one node
  uint32_t window = 128;      ///< messages of each under way
  Between between = Between::kTwoLinks;
  Control control = Control::kNone;
};

class Requesters {
 public:
  explicit Requesters(const RequestersSetup& setup)
      : setup_(setup), rig_(config(setup)), from_(setup.queue_pairs) {
    TrafficSource::Setup traffic;
    traffic.bytes = setup.payload * setup.message_packets;
    traffic.count = ~uint64_t{0};
    traffic.window = setup.window;
    for (uint32_t i = 0; i < setup.queue_pairs; ++i) {
      One& one = from_[i];
      // Packets of long messages fill the path MTU, whether there is one of that size or not.
      const uint32_t mtu = setup.message_packets > 1 ? setup.payload : 4096;
      QpConfig q = rig_.qp_config(i, 1, mtu);
      q.send_queue = setup.window;
      q.timeout = 14;
      one.source = std::make_unique<TrafficSource>(traffic, one.progress);
      if (setup.control != Control::kNone) one.control = make_control();
      one.source->set_qp(rig_.add_qp(q, *one.source, one.control.get()));
      one.back = q.addressing;
      std::swap(one.back.src, one.back.dst);
      std::swap(one.back.src_mac, one.back.dst_mac);
    }
    for (One& one : from_) {
      Command wake;
      wake.kind = CommandKind::kWakeEndpoint;
      wake.endpoint = one.source.get();
      wake.cookie = reinterpret_cast<uint64_t>(&remote_);
      rig_.command(wake);
    }
  }

  /// The ACKs that are there come in, and what is due meanwhile goes out: 32 packets, or few more.
  /// Not inlined: so profiles can tell it from the real node's work.
  [[gnu::noinline]] void step() {
    sink_.most = sink_.sent + RingSink::kFrames;
    rig_.now += bench_line().time_for(kBurst * wire());
    rig_.shard.rx({rig_.now, Duration(), {acks_.data(), ack_count_}});
    rig_.shard.poll(rig_.now, sink_);
  }
  /// The real node looks at what has come and writes its ACKs.
  void answer() {
    ack_count_ = 0;
    for (; looked_at_ < sink_.sent; ++looked_at_) look(sink_.frame(looked_at_));
    acks_fed_ += ack_count_;
  }
  uint64_t sent() const { return sink_.sent; }

  /// Every packet came once, in order, right; every ACK has done its work.
  void check() {
    rig_.shard.rx({rig_.now, Duration(), {acks_.data(), ack_count_}});
    struct Nothing final : TxSink {
      uint8_t* reserve(uint32_t) override { return room.data(); }
      void commit(uint32_t, Time) override {}
      std::array<uint8_t, 8192> room;
    } nothing;
    for (int i = 0; i < 3; ++i) rig_.shard.poll(rig_.now += Duration::us(1), nothing);
    must_equal("dropped", rig_.drops(), 0);
    for (const RcEvent e :
         {RcEvent::kRetransmit, RcEvent::kTimeout, RcEvent::kNakReceived, RcEvent::kGhostAck}) {
      must_equal(rc_event_name(e), rig_.rc(e), 0);
    }
    must_equal("ACKs received", rig_.rc(RcEvent::kAckReceived), acks_fed_);
    uint64_t messages = 0, completed = 0;
    for (const One& one : from_) {
      messages += one.messages;
      completed += one.progress.completed;
      must_equal("packets of whole messages", one.psn.value() & Psn::kMask,
                 (one.messages * setup_.message_packets + one.in_message) & Psn::kMask);
    }
    must_equal("completed messages", completed, messages);
    must(messages > 0, "any message");
  }

 private:
  struct One {
    TrafficProgress progress;
    std::unique_ptr<TrafficSource> source;
    std::unique_ptr<QpControl> control;
    RoceAddressing back;
    Psn psn;  ///< of the packet that has to come next
    uint64_t messages = 0;
    uint32_t in_message = 0;
  };

  static ShardConfig config(const RequestersSetup& setup) {
    ShardConfig c = bench_config(1, setup.queue_pairs, setup.between);
    c.control_users = 1;
    return c;
  }
  uint32_t wire() const {
    const Opcode longest = setup_.message_packets > 1 ? Opcode::kWriteMiddle : Opcode::kWriteOnly;
    const RoceAddressing& a = from_.front().back;
    return (roce_frame_bytes(a, longest, setup_.payload) + 24) * (paced() ? 20 : 19) / 19;
  }
  bool paced() const { return setup_.control == Control::kEachPaced; }

  std::unique_ptr<QpControl> make_control() const {
    struct Fixed final : Controller {
      Fixed(Rate line, Rate rate) : Controller(line) { rate_ = rate; }
    };
    QpControl::Setup made;
    if (paced()) {
      const uint64_t share = bench_line().bps() / setup_.queue_pairs / 20 * 19;
      made.controller = std::make_unique<Fixed>(bench_line(), Rate::bits_per_second(share));
    } else {
      SenderPath path;
      path.line = bench_line();
      path.base_rtt = Duration::us(2);
      made.controller = make_controller(DcqcnParameters{}, path);
    }
    return std::make_unique<QpControl>(std::move(made));
  }

  void look(std::span<const uint8_t> frame) {
    FrameView view;
    RoceView roce;
    must(parse_frame(frame, view, roce) == FrameKind::kRoce && icrc_ok(view, roce),
         "a frame that was sent");
    One& one = from_[roce.dest_qpn - rig_.shard.qpn_of(0)];
    must(roce.psn == one.psn, "the order of packets");
    must_equal("bytes of a packet", roce.payload_bytes, setup_.payload);
    one.psn = one.psn.next();
    ++one.in_message;
    if (roce.info().end) {
      must_equal("packets of a message", one.in_message, setup_.message_packets);
      one.in_message = 0;
      ++one.messages;
    }
    if (!roce.ack_request) return;
    RoceFields ack;
    ack.opcode = Opcode::kAcknowledge;
    ack.dest_qpn = roce.dest_qpn;  // both sides use the same numbers
    ack.psn = roce.psn;
    ack.syndrome = 0x1f;
    ack.msn = static_cast<uint32_t>(one.messages & Psn::kMask);
    uint8_t* const to = ack_room_[ack_count_].data();
    begin_roce(to, one.back, ack, 0);
    finish_roce(to, one.back, ack.opcode, 0);
    acks_[ack_count_++] = {to, roce_frame_bytes(one.back, ack.opcode, 0)};
  }

  RequestersSetup setup_;
  RemoteBuffer remote_{0x1000, 0x1234, 0};
  BenchShard rig_;
  RingSink sink_;
  std::vector<One> from_;
  std::array<std::array<uint8_t, 128>, RingSink::kFrames> ack_room_;
  std::array<std::span<const uint8_t>, RingSink::kFrames> acks_;
  size_t ack_count_ = 0;
  uint64_t looked_at_ = 0, acks_fed_ = 0;
};

/// Runs them and checks what they did. The time is that of a packet, without the real node's.
inline void run_requesters(benchmark::State& state, const RequestersSetup& setup) {
  Requesters nodes(setup);
  uint64_t before = 0;
  const auto answer = [&] {
    nodes.answer();
    return before = nodes.sent();
  };
  const auto step = [&](uint64_t) { nodes.step(); };
  for (int i = 0; i < 1000; ++i) undisturbed_seconds(answer, step);
  // By batches of packets, though steps send one more or less.
  uint64_t packets = 0, sent = 0;
  while (state.KeepRunningBatch(kBurst)) {
    double seconds = 0;
    for (packets += kBurst; sent < packets; sent += nodes.sent() - before) {
      seconds += undisturbed_seconds(answer, step);
    }
    state.SetIterationTime(seconds);
  }
  nodes.answer();
  nodes.check();
  state.SetItemsProcessed(static_cast<int64_t>(packets));
}

}  // namespace understudy
