// Two real nodes at ports of their own, one of which floods: connections of the other one's with two emulated nodes, in both directions,
// and what these have while the flood lasts.
#pragma once

#include <array>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/rig.h"
#include "tests/rigs/neighbour_frames.h"

namespace understudy {

constexpr NodeId kGood = 0, kFlooder = 1, kFlooded = 2, kOther = 3;
constexpr uint32_t kVictims = 3;    ///< connections of each emulated node and direction
constexpr uint32_t kAttackers = 8;  ///< queue pairs that the flooder has
constexpr uint32_t kMessage = 4 << 10;
const Duration kWarmUp = Duration::ms(1), kStep = Duration::us(20);
constexpr uint64_t kPerStep = 16;  ///< frames: 800,000 a second

using Frames = std::vector<std::vector<uint8_t>>;
inline bool table() { return std::getenv("UNDERSTUDY_FLOOD_TABLE") != nullptr; }
/// Longer where figures are wanted.
inline Duration measured() { return table() ? Duration::ms(20) : Duration::ms(4); }

/// Of an emulated node and a direction, toward it or from it: bytes that arrived while it was measured.
using Rates = std::map<std::pair<NodeId, bool>, uint64_t>;

class Ports {
 public:
  /// `rate`: of the emulated nodes' links. Those of 10 Gbit/s have room for victims and flood.
  explicit Ports(Rate rate = Rate::bits_per_second(10'000'000'000))
      : shard_(near_config(rate)), far_(far_config()) {
    rkey_of_good_ = far_.add_region(kGood, 1 << 30);
    for (const NodeId node : {kFlooded, kOther}) {
      Command c;
      c.kind = CommandKind::kAddRegion;
      c.region_index = node;
      c.region = {node, 0, 1 << 30, kAccessRemoteRead | kAccessRemoteWrite, nullptr, false};
      command(c);
      for (const bool inward : {false, true}) add_victims(node, inward);
    }
    for (uint32_t i = 0; i < kAttackers; ++i) {
      attacked_.push_back(&add_qp(next_slot(), kFlooded, kFlooder));
    }
  }

  Rates measure(const Frames& flood) {
    run(kWarmUp, flood);
    const Rates before = bytes_;
    run(measured(), flood);
    Rates out = bytes_;
    for (auto& [group, bytes] : out) bytes -= before.at(group);
    return out;
  }
  /// Without measuring.
  void run(Duration time, const Frames& flood) {
    for (const Time end = now_ + time; now_ < end;) {
      keep_busy();
      receive_flood(flood);
      const Time until = now_ + kStep;
      for (Time next; (next = std::min(shard_.next_wake(), far_.shard.next_wake())) <= until;) {
        now_ = std::max(now_, next);
        cross();
      }
      now_ = until;
      cross();
      count();
    }
  }

  /// A frame of the flooder's to queue pair `slot` of those that it has.
  std::vector<uint8_t> request(uint32_t slot, RoceFields f, uint32_t payload = 0) const {
    if (f.dest_qpn == 0) f.dest_qpn = attacked_[slot]->config().qpn;
    return roce_frame(addressing(), f, std::vector<uint8_t>(payload, 7));
  }
  RoceAddressing addressing(bool v6 = false) const {
    RoceAddressing a;
    a.src_mac = node_mac(kFlooder);
    a.dst_mac = node_mac(kFlooded);
    a.src = node_ip(kFlooder, v6);
    a.dst = node_ip(kFlooded, v6);
    return a;
  }
  /// The emulated node writes to the flooder by these queue pairs.
  void write_to_flooder() {
    for (Qp* qp : attacked_) to_flooder_.push_back(qp);
  }
  Qpn victim() const { return victims_.front().near->config().qpn; }
  Rkey rkey() const { return shard_.regions().rkey(kFlooded); }
  uint64_t drops(Drop reason) const {
    return shard_.counters(1).drops[static_cast<size_t>(reason)];
  }
  uint64_t rc(RcEvent event) const { return shard_.counters(1).rc[static_cast<size_t>(event)]; }
  const ShardCounters& counters() const { return shard_.counters(1); }
  uint64_t flooded() const { return flooded_; }
  uint64_t lost() const { return far_.endpoint.failures + failures_; }
  double flood_ns() const { return flooded_ == 0 ? 0 : spent_ns_ / static_cast<double>(flooded_); }
  /// Whether the flooder's queue pair `slot`, which expects `psn`, still answers.
  bool answers(uint32_t slot, Psn psn) {
    RoceFields f;
    f.opcode = Opcode::kSendOnly;
    f.psn = psn;
    f.ack_request = true;
    const uint64_t before = acks();
    receive(1, request(slot, f, 16));
    run(Duration::us(400), {});
    return acks() > before;
  }

 private:
  struct Victim {
    Qp *near, *far;
    NodeId node;
    bool inward;
  };

  static ShardConfig near_config(Rate rate) {
    ShardConfig config = rig_config(rate, Duration::us(2), 4);
    config.rates[kFlooder] = Rate::bits_per_second(10'000'000'000);
    config.rates[kGood] = Rate::bits_per_second(1'000'000'000);
    NodeTable nodes;
    for (NodeNic nic : config.nodes.nics()) {
      nic.real = nic.id == kGood || nic.id == kFlooder;
      nodes.add(nic);
    }
    config.nodes = nodes;
    config.wires.resize(2);
    config.packets = 2048;
    return config;
  }
  static ShardConfig far_config() {
    ShardConfig config = rig_config(Rate(), Duration(), 4, kFlooded);
    config.packets = 4096;
    return config;
  }

  void command(Command c) {
    c.sequence = ++sequence_;
    shard_.commands().push(c);
    poll();
    Reply reply;
    ASSERT_TRUE(shard_.replies().pop(reply));
    ASSERT_EQ(reply.status, ReplyStatus::kDone);
  }
  uint32_t next_slot() { return slots_++; }
  QpConfig qp_config(uint32_t slot, NodeId node, NodeId peer) const {
    QpConfig c;
    c.node = node;
    c.qpn = shard_.qpn_of(slot);
    c.remote_qpn = far_.shard.qpn_of(slot);
    c.timeout = 12;
    c.retry_count = 250;
    c.addressing.src_mac = node_mac(node);
    c.addressing.dst_mac = node_mac(peer);
    c.addressing.src = node_ip(node);
    c.addressing.dst = node_ip(peer);
    return c;
  }
  Qp& add_qp(uint32_t slot, NodeId node, NodeId peer) {
    const QpConfig config = qp_config(slot, node, peer);
    qps_.push_back(std::make_unique<Qp>(config, shard_.regions(),
                                        shard_.rc_counters(config.addressing.dst), endpoint_));
    qps_.back()->responder().set_endless_receives();
    Command c;
    c.kind = CommandKind::kAddQp;
    c.qp = qps_.back().get();
    c.endpoint = &endpoint_;
    c.needs_payload = true;
    command(c);
    return *qps_.back();
  }
  void add_victims(NodeId node, bool inward) {
    for (uint32_t i = 0; i < kVictims; ++i) {
      const uint32_t slot = next_slot();
      Qp& near = add_qp(slot, node, kGood);
      QpConfig c = far_.qp_config(slot, kGood, node);
      c.timeout = 12;
      c.retry_count = 250;
      c.remote_qpn = near.config().qpn;
      victims_.push_back({&near, &far_.add_qp(c), node, inward});
      groups_[inward ? near.config().qpn : c.qpn] = {node, inward};
      bytes_[{node, inward}] = 0;
    }
  }

  void keep_busy() {
    WorkRequest r;
    r.length = kMessage;
    for (const Victim& v : victims_) {
      r.rkey = v.inward ? shard_.regions().rkey(v.node) : rkey_of_good_;
      Qp& sender = v.inward ? *v.far : *v.near;
      EndpointHost& host = v.inward ? static_cast<EndpointHost&>(far_.shard) : shard_;
      while (sender.outstanding() < 4 && host.post(now_, sender, r)) {
      }
    }
    r.rkey = 1;
    for (Qp* qp : to_flooder_) {
      while (qp->outstanding() < 4 && shard_.post(now_, *qp, r)) {
      }
    }
  }
  void receive(uint32_t port, std::span<const uint8_t> frame) {
    const std::span<const uint8_t> one[] = {frame};
    shard_.rx({now_, Duration(), one, port});
  }
  void receive_flood(const Frames& flood) {
    if (flood.empty()) return;
    std::array<std::span<const uint8_t>, kPerStep> burst;
    for (auto& frame : burst) frame = flood[flooded_++ % flood.size()];
    const double begin = cpu_ns();
    shard_.rx({now_, Duration(), burst, 1});
    spent_ns_ += cpu_ns() - begin;
  }
  static double cpu_ns() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
  }
  void poll() {
    for (RigSink& sink : sinks_) sink.now = now_;
    TxSink* const to[] = {&sinks_[0], &sinks_[1]};
    shard_.poll(now_, to);
  }
  /// What is due goes over the cable of the node that is good; nobody hears the other one's.
  void cross() {
    poll();
    far_.poll(now_);
    for (const SentFrame& frame : sinks_[0].sent) {
      if (is_for_good(frame.bytes)) far_.receive(frame.bytes);
    }
    for (const SentFrame& frame : far_.sink.sent) receive(0, frame.bytes);
    sinks_[0].sent.clear();
    sinks_[1].sent.clear();
    far_.sink.sent.clear();
  }
  /// Its NIC hears no other MAC than its own and those of groups.
  static bool is_for_good(const std::vector<uint8_t>& frame) {
    const MacAddress own = node_mac(kGood);
    return (frame[0] & 1) != 0 || std::equal(own.bytes.begin(), own.bytes.end(), frame.begin());
  }
  void count() {
    for (RigEndpoint* endpoint : {&endpoint_, &far_.endpoint}) {
      for (const auto& seen : endpoint->received) {
        if (const auto at = groups_.find(seen.qpn); at != groups_.end())
          bytes_[at->second] += seen.id;
      }
      endpoint->received.clear();
      endpoint->completed.clear();
      endpoint->transmitted.clear();
    }
    // What became of the flooder's own connections is the flooder's doing.
    failures_ = 0;
    for (const Victim& v : victims_) failures_ += v.near->state() == QpState::kRts ? 0 : 1;
  }
  uint64_t acks() const { return shard_.counters(1).rc[static_cast<size_t>(RcEvent::kAckSent)]; }

  Shard shard_;
  Rig far_;
  std::array<RigSink, 2> sinks_;
  RigEndpoint endpoint_;
  std::vector<std::unique_ptr<Qp>> qps_;
  std::vector<Victim> victims_;
  std::vector<Qp*> attacked_, to_flooder_;
  std::map<Qpn, std::pair<NodeId, bool>> groups_;  ///< by the receiver's number
  Rates bytes_;
  Rkey rkey_of_good_ = 0;
  Time now_;
  uint32_t slots_ = 0;
  uint64_t sequence_ = 0, flooded_ = 0, failures_ = 0;
  double spent_ns_ = 0;
};

}  // namespace understudy
