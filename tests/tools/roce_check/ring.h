// Makes the capture of a small ring job out of nothing but the configuration's rates and the
// messages of its connections: what a faithful emulator would have put on the wire, or, with a knob
// turned, an unfaithful one.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ctrl/config/read/load.h"
#include "ctrl/schedule/expected_messages.h"
#include "dataplane/wire/build.h"
#include "tests/tools/roce_check/capture.h"

namespace understudy {

inline constexpr uint32_t kRingMtu = 4096;

inline std::string ring_config_text(const std::string& rate, const std::string& more = "",
                                    const std::string& size = "768KiB") {
  return R"(format = 1
[[prefix]]
nic = 0
v4 = "10.9.0.0/24"
[[node]]
name = "gpu"
real = true
link = { rate = ")" +
         rate + R"(", latency = "250us" }
[[node]]
name = "w"
count = 2
link = { rate = ")" +
         rate + R"(", latency = "250us" }
[[port]]
real = "gpu"
device = "virtual"
[[job]]
name = "allreduce"
collective = "all_reduce"
algorithm = "ring"
ranks = ["gpu", "w0", "w1"]
sizes = [")" +
         size + R"("]
iterations = 1
warmup = 1
entry = "scheduled"
interval = "1ms"
)" + more;
}

inline Config ring_config(const std::string& text) {
  auto config = load_config_text(text, "ring.toml");
  EXPECT_TRUE(config) << (config ? "" : describe(config.error()));
  return config ? std::move(*config) : Config{};
}

/// How the emulator behaves. Speeds are relative to the configuration.
struct RingKnobs {
  double out_speed = 1;  ///< of the queue to the real node
  double in_speed = 1;   ///< of the queue from the real node
  bool pacing = true;
  Time slow_from = Time::never();  ///< from then on half the rate
};

class RingScript {
 public:
  RingScript(Config config, const RingKnobs& knobs) : config_(std::move(config)), knobs_(knobs) {}

  /// `connections`: normally expected_connections(config).
  TestCapture make(const std::vector<ExpectedConnection>& connections) {
    Qpn qpn = 0x20;
    std::vector<size_t> sent(connections.size());
    std::vector<Link> links;
    for (size_t i = 0; i < connections.size(); ++i) links.push_back({qpn++, qpn++, {}, {}, 0, 0});
    for (bool more = true; more;) {
      more = false;
      for (size_t i = 0; i < connections.size(); ++i) {
        if (sent[i] == connections[i].sizes.size()) continue;
        more = true;
        message(connections[i], links[i], connections[i].sizes[sent[i]++]);
      }
    }
    std::ranges::stable_sort(capture_.frames, {}, &TestFrame::at);
    return std::move(capture_);
  }

 private:
  /// A connection: `sender` and `receiver` are their queue pair numbers.
  struct Link {
    Qpn sender, receiver;
    Psn data_psn, credit_psn;
    uint32_t messages, credits;
  };

  static uint32_t wire_bytes(const TestFrame& f) {
    return std::max<uint32_t>(static_cast<uint32_t>(f.bytes.size()), kMinFrameBytes) +
           kEthernetOverheadBytes;
  }
  Duration takes(const TestFrame& f, double speed, Time at) const {
    if (!knobs_.pacing) return Duration();
    const double slower = at >= knobs_.slow_from ? 2 : 1;
    const auto exact = config_.nodes[0].nics[0].link_rate.time_for(wire_bytes(f)).ps();
    return Duration::ps(static_cast<int64_t>(static_cast<double>(exact) * slower / speed));
  }

  /// One frame; to the real node it leaves when its queue lets it, from the real node it comes at
  /// once and its queue's end is noted. Returns when it has arrived at its receiver.
  Time frame(NodeId from, NodeId to, RoceFields fields, uint32_t payload, Time earliest) {
    const NicConfig& src = config_.nodes[from].nics[0];
    const NicConfig& dst = config_.nodes[to].nics[0];
    RoceAddressing a;
    a.src_mac = src.mac;
    a.dst_mac = dst.mac;
    a.src = *src.v4;
    a.dst = *dst.v4;
    TestFrame f;
    f.bytes.resize(roce_frame_bytes(a, fields.opcode, payload));
    begin_roce(f.bytes.data(), a, fields, payload);
    finish_roce(f.bytes.data(), a, fields.opcode, payload);
    const bool out = config_.nodes[to].real;
    Time arrived;
    if (out) {
      f.direction = CaptureDirection::kOut;
      out_free_ = std::max(out_free_, earliest) + takes(f, knobs_.out_speed, out_free_);
      f.at = f.scheduled = arrived = out_free_;
    } else {
      f.direction = CaptureDirection::kIn;
      f.at = earliest;
      in_free_ = std::max(in_free_, earliest) + takes(f, knobs_.in_speed, in_free_);
      arrived = in_free_ + way();
    }
    capture_.frames.push_back(std::move(f));
    return arrived;
  }
  Duration way() const { return config_.nodes[0].nics[0].link_latency * 2; }

  void ack(NodeId from, NodeId to, Qpn qpn, Psn psn, uint32_t msn, Time arrived) {
    RoceFields f;
    f.opcode = Opcode::kAcknowledge;
    f.dest_qpn = qpn;
    f.psn = psn;
    f.syndrome = kSyndromeAck | kNoCredits;
    f.msn = msn;
    const Time earliest = config_.nodes[to].real ? arrived + way() : arrived;
    now_ = std::max(now_, frame(from, to, f, 0, earliest));
  }

  /// Credit, its ACK, data, its ACK.
  void message(const ExpectedConnection& c, Link& link, uint32_t size) {
    RoceFields credit;
    credit.opcode = Opcode::kWriteOnly;
    credit.dest_qpn = link.sender;
    credit.psn = link.credit_psn;
    credit.ack_request = true;
    credit.dma_length = 64;
    const Time granted = frame(c.to, c.from, credit, 64, now_);
    ack(c.from, c.to, link.receiver, link.credit_psn, ++link.credits, granted);
    link.credit_psn = link.credit_psn.next();
    const uint32_t packets = std::max(1u, (size + kRingMtu - 1) / kRingMtu);
    const Time begin = now_;
    Time arrived;
    for (uint32_t i = 0; i < packets; ++i) {
      const bool first = i == 0;
      const bool last = i + 1 == packets;
      RoceFields f;
      f.opcode = first ? (last ? Opcode::kWriteOnlyImm : Opcode::kWriteFirst)
                       : (last ? Opcode::kWriteLastImm : Opcode::kWriteMiddle);
      f.dest_qpn = link.receiver;
      f.psn = link.data_psn;
      f.ack_request = last;
      f.dma_length = size;
      arrived = frame(c.from, c.to, f, std::min(kRingMtu, size - i * kRingMtu), begin);
      link.data_psn = link.data_psn.next();
    }
    ack(c.to, c.from, link.sender, link.data_psn.advance(Psn::kMask), ++link.messages, arrived);
  }

  const Config config_;  ///< its own: a test may hand over a temporary
  RingKnobs knobs_;
  TestCapture capture_;
  Time now_, out_free_, in_free_;
};

inline Analysis judge_ring(const Config& config, const RingKnobs& knobs = {}) {
  RingScript script(config, knobs);
  return script.make(expected_connections(config)).judge({.open_end = false, .config = &config});
}

}  // namespace understudy
