// Traffic of any length for roce-check, made as it is read: rounds of WRITEs, a READ, a lost packet
// that is asked for and sent again, and marked packets with their CNPs, on each of some connections.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/wire/build.h"
#include "dataplane/wire/headers.h"
#include "tools/roce_check/packets/capture_source.h"

namespace understudy {

struct TrafficShape {
  uint32_t connections = 8;
  uint32_t mtu = 1024;
  uint32_t message_packets = 16;
  bool losses = true;   ///< one in each round
  bool damage = false;  ///< every round has a packet that breaks a rule
};

class TrafficSource final : public CaptureSource {
 public:
  /// Ends with the round in which `packets` are reached.
  TrafficSource(const TrafficShape& shape, uint64_t packets)
      : shape_(shape), packets_(packets), states_(shape.connections) {
    summary_.format = "made";
    summary_.has_drop_counts = true;
    summary_.foretold_drops = 0;
  }

  Result<std::optional<SourceFrame>> next() override {
    if (at_ == used_) {
      if (summary_.frames >= packets_) return std::nullopt;
      used_ = at_ = 0;
      round(states_[turn_++ % shape_.connections]);
    }
    const Frame& frame = frames_[at_++];
    SourceFrame out;
    out.number = ++summary_.frames;
    out.at = frame.at;
    out.bytes = frame.bytes;
    out.original_bytes = static_cast<uint32_t>(frame.bytes.size());
    return out;
  }
  /// Frames that next() returns without making new ones.
  size_t ready() const { return used_ - at_; }

 private:
  struct State {
    Psn psn{0xfffff0};
    uint32_t msn = 0;
    uint64_t rounds = 0;
  };
  struct Frame {
    std::vector<uint8_t> bytes;
    Time at;
  };

  void round(State& s) {
    const auto which = static_cast<uint32_t>(&s - states_.data());
    const uint32_t bytes = shape_.message_packets * shape_.mtu;
    for (int message = 0; message < 4; ++message) {
      const Psn first = s.psn;
      const bool gap = shape_.losses && message == 3 && shape_.message_packets > 2;
      for (uint32_t i = 0; i < shape_.message_packets; ++i) {
        if (!gap || i != 1) write(which, first, i, bytes, message == 0 ? 3 : 2);
      }
      if (message == 0) notification(which);
      s.psn = first.advance(shape_.message_packets);
      if (gap) {
        answer(which, Opcode::kAcknowledge, first.next(), s.msn, kSyndromeNak);
        for (uint32_t i = 1; i < shape_.message_packets; ++i) write(which, first, i, bytes, 2);
      }
      answer(which, Opcode::kAcknowledge, s.psn.advance(Psn::kMask), ++s.msn, kNoCredits);
    }
    RoceFields read;
    read.opcode = Opcode::kReadRequest;
    read.psn = s.psn;
    read.dma_length = shape_.mtu / 2;
    read.rkey = 7;
    read.va = 0x1000;
    read.ack_request = true;
    ask(which, read, 0, 2);
    answer(which, Opcode::kReadResponseOnly, s.psn, ++s.msn, kNoCredits, shape_.mtu / 2);
    if (shape_.damage) answer(which, Opcode::kAcknowledge, s.psn, s.msn, 0x7f);
    s.psn = s.psn.next();
    ++s.rounds;
  }

  void write(uint32_t which, Psn first, uint32_t i, uint32_t bytes, uint8_t ecn) {
    RoceFields f;
    const bool start = i == 0, end = i + 1 == shape_.message_packets;
    f.opcode = start ? (end ? Opcode::kWriteOnly : Opcode::kWriteFirst)
                     : (end ? Opcode::kWriteLast : Opcode::kWriteMiddle);
    f.psn = first.advance(i);
    f.ack_request = end;
    f.dma_length = bytes;
    f.rkey = 7;
    f.va = 0x1000;
    ask(which, f, shape_.mtu, ecn);
  }
  void ask(uint32_t which, RoceFields f, uint32_t bytes, uint8_t ecn) {
    f.dest_qpn = 0x100 + which;
    packet(true, which, f, bytes, ecn);
  }
  void answer(uint32_t which, Opcode opcode, Psn psn, uint32_t msn, uint8_t syndrome,
              uint32_t bytes = 0) {
    RoceFields f;
    f.opcode = opcode;
    f.psn = psn;
    f.dest_qpn = 0x800 + which;
    f.syndrome = syndrome;
    f.msn = msn & Psn::kMask;
    packet(false, which, f, bytes, bytes != 0 ? 2 : 0);
  }
  void notification(uint32_t which) {
    RoceFields f;
    f.opcode = Opcode::kCnp;
    f.dest_qpn = 0x800 + which;
    f.becn = true;
    packet(false, which, f, kCnpPadBytes, 0);
  }

  void packet(bool there, uint32_t which, const RoceFields& f, uint32_t bytes, uint8_t ecn) {
    RoceAddressing a;
    a.src = IpAddress::v4(there ? 0x0a000001 : 0x0a000002);
    a.dst = IpAddress::v4(there ? 0x0a000002 : 0x0a000001);
    a.udp_src = static_cast<uint16_t>(0xc000 + which);
    a.traffic_class = ecn;
    if (used_ == frames_.size()) frames_.emplace_back();
    Frame& frame = frames_[used_++];
    const size_t size = roce_frame_bytes(a, f.opcode, bytes);
    if (frame.bytes.size() != size) frame.bytes.assign(size, 0);
    uint8_t* payload = begin_roce(frame.bytes.data(), a, f, bytes);
    for (uint32_t i = 0; i < bytes && f.opcode == Opcode::kCnp; ++i) payload[i] = 0;
    finish_roce(frame.bytes.data(), a, f.opcode, bytes);
    now_ = now_ + Duration::ns(200);
    frame.at = now_;
  }

  const TrafficShape shape_;
  const uint64_t packets_;
  std::vector<State> states_;
  std::deque<Frame> frames_;  ///< of one round; their buffers are used again
  size_t used_ = 0, at_ = 0;
  uint64_t turn_ = 0;
  Time now_;
};

}  // namespace understudy
