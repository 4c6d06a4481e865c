// Any bytes as frames of the wire and of the host, commands and time for a shard.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/engine/shard.h"
#include "dataplane/node/services.h"
#include "dataplane/wire/icrc.h"
#include "dataplane/wire/pfc.h"
#include "tests/fuzz/input.h"

namespace understudy {

class ShardDrive : private TxSink {
 public:
  explicit ShardDrive(std::span<const uint8_t> bytes) : in_(bytes), shard_(config(in_.byte())) {
    Command c;
    c.kind = CommandKind::kAddRegion;
    c.region_index = 1;
    c.region = {1, 0, memory_.size(), kAccessRemoteAny, memory_.data(), true};
    shard_.commands().push(c);
    c.region_index = 2;
    c.region = {1, 0, memory_.size(), kAccessRemoteAny, nullptr, false};
    shard_.commands().push(c);
    add_qp();
  }

  void run() {
    while (!in_.done()) step();
    room_ = SIZE_MAX;
    advance(Duration::ms(50));
  }
  const ShardCounters& counters() const { return shard_.counters(); }
  uint64_t pauses_sent() const { return pauses_sent_; }

 private:
  static constexpr uint32_t kMtu = 256;

  static ShardConfig config(uint8_t flags) {
    ShardConfig c;
    for (NodeId id = 0; id < 3; ++id) {
      NodeNic nic;
      nic.id = id;
      nic.real = id == 0;
      nic.mac = MacAddress{{2, 0, 0, 0, 0, static_cast<uint8_t>(id + 1)}};
      nic.v4 = IpAddress::v4(0x0a000001 + id);
      if ((flags & 1) != 0) nic.vlan_tci = 100;
      c.nodes.add(nic);
    }
    c.rates.assign(3, (flags & 2) != 0 ? Rate::unlimited() : Rate::bits_per_second(1'000'000'000));
    c.latencies.assign(3, Duration::us(1));
    c.separate_control = (flags & 4) != 0;
    c.icmp_through_fabric = (flags & 8) != 0;
    if ((flags & 16) != 0) c.wires[0].physical = Rate::bits_per_second(1'000'000'000);
    c.packets = 16;
    c.queue_pairs = 4;
    c.regions = 4;
    if ((flags & 32) != 0) {
      c.separate_control = false;
      c.network = one_switch();
      c.wires[0].pfc = {(flags & 64) != 0, Rate::bits_per_second(1'000'000'000)};
    }
    return c;
  }

  /// All three nodes at it; what a few packets take of its buffer makes it pause them.
  static std::shared_ptr<const SwitchedNetwork> one_switch() {
    auto network = std::make_shared<SwitchedNetwork>();
    const VertexId s = network->graph.add_vertex({VertexKind::kSwitch, "s", 0, 0, 1});
    for (uint32_t i = 0; i < 3; ++i) {
      const std::string name(1, static_cast<char>('a' + i));
      network->nics.push_back(network->graph.add_vertex({VertexKind::kNic, name, i, 0, 0}));
      network->cables.push_back({network->graph.connect(
          network->nics[i], s, Rate::bits_per_second(1'000'000'000), Duration::us(1))});
    }
    ClassSettings lossless, other;
    lossless.priorities = 0x0f;
    lossless.pfc = PfcSettings{};
    lossless.pfc->xoff = 500;
    lossless.pfc->xon = 300;
    lossless.pfc->headroom = 1000;
    other.priorities = 0xf0;
    network->settings.classes = {lossless, other};
    return network;
  }

  void add_qp() {
    QpConfig c;
    c.node = 1 + in_.byte() % 2;
    c.qpn = shard_.qpn_of(0);
    c.remote_qpn = 5;
    c.mtu = kMtu;
    c.timeout = 8;
    c.retry_count = 2;
    c.rnr_retry = 2;
    c.addressing.src = IpAddress::v4(0x0a000001 + c.node);
    c.addressing.dst = IpAddress::v4(0x0a000001);
    qp_ = std::make_unique<Qp>(c, shard_.regions(), shard_.rc_counters(), endpoint_);
    qp_->responder().set_receive_buffer(memory_);
    if (in_.byte() % 2 != 0) qp_->responder().set_endless_receives();
    Command command;
    command.kind = CommandKind::kAddQp;
    command.qp = qp_.get();
    command.endpoint = &endpoint_;
    command.needs_payload = looks_ = in_.byte() % 2 != 0;
    shard_.commands().push(command);
    advance(Duration());
  }

  void step() {
    switch (in_.byte() % 9) {
      case 0:
        return advance(Duration::ns(in_.byte() * 100));
      case 1: {  // a frame of the host
        const auto frame = in_.take(in_.byte());
        uint8_t* at = shard_.from_host().reserve(static_cast<uint32_t>(frame.size()));
        if (at == nullptr) return;
        if (!frame.empty()) std::memcpy(at, frame.data(), frame.size());
        return shard_.from_host().commit(static_cast<uint32_t>(frame.size()));
      }
      case 2: {  // a queue pair goes, and another one comes under its number
        Command c;
        c.kind = CommandKind::kRemoveQp;
        c.qpn = qp_->config().qpn;
        shard_.commands().push(c);
        advance(Duration());
        return add_qp();
      }
      case 3: {
        Command c;
        c.kind = CommandKind::kSetLink;
        c.node = in_.byte() % 4;
        c.change.rate = Rate::bits_per_second(in_.byte() * uint64_t{10'000'000} +
                                              (shard_.network() != nullptr ? 1'000'000 : 0));
        c.change.latency = Duration::ns(in_.byte() * 10);
        c.effective = now_ + Duration::ns(in_.byte() * 10);
        shard_.commands().push(c);
        return;
      }
      case 4: {
        WorkRequest r;
        r.op = static_cast<WorkOp>(in_.byte() % 8);
        r.length = in_.byte() * 8u;
        r.payload.bytes = memory_.data();
        shard_.post(now_, *qp_, r);
        return;
      }
      case 5:
        room_ = in_.byte() % 4;
        return;
      case 6: {
        const uint8_t size = in_.byte();
        return size < 32 ? receive_pfc() : receive(in_.take(size / 2u));
      }
      case 7:
        return receive_packet();
      default:
        return receive_message();
    }
  }

  /// A frame that gets past the parser and the ICRC: the fuzzer chooses what is behind.
  void receive_packet() {
    RoceFields f;
    const uint8_t opcode = in_.byte();
    f.opcode = static_cast<Opcode>(opcode < 0xf0 ? opcode % 0x18 : opcode % 0x82);
    if (opcode_info(f.opcode).name == nullptr) return;
    f.psn = Psn(in_.byte() % 32);
    f.dest_qpn = qp_->config().qpn;
    f.rkey = rkey();
    f.va = in_.byte();
    f.dma_length = in_.byte() * 8u;
    f.ack_request = in_.byte() % 2 != 0;
    f.syndrome = in_.byte();
    const uint8_t size = in_.byte();
    const uint32_t payload = size < 128 ? size * 2u : size < 192 ? f.dma_length : 256;
    receive(frame_of(f, payload));
  }

  /// WRITE packets that come together, as they follow one another but for what the fuzzer changes.
  void receive_message() {
    RoceFields f;
    f.dest_qpn = qp_->config().qpn;
    f.rkey = rkey();
    const uint32_t packets = 1 + in_.byte() % 40u, changed = in_.byte() % 64u;
    const uint8_t change = in_.byte();
    f.psn = Psn(in_.byte() % 32);
    f.dma_length = packets * kMtu;
    std::vector<std::vector<uint8_t>> frames;
    for (uint32_t i = 0; i < packets; ++i) {
      f.opcode = i == 0 ? Opcode::kWriteFirst : Opcode::kWriteMiddle;
      f.ack_request = i + 1 == packets;
      if (f.ack_request) f.opcode = Opcode::kWriteLast;
      uint32_t bytes = kMtu;
      if (i == changed) {
        if (change % 8 == 0) f.psn = f.psn.advance(change / 8);
        if (change % 8 == 1) bytes = change;
        if (change % 8 == 2) f.ack_request = !f.ack_request;
        if (change % 8 == 3) f.opcode = static_cast<Opcode>(change / 8 % 0x0c);
        if (change % 8 == 4) continue;
      }
      frames.push_back(frame_of(f, bytes));
      if (i == changed && change % 8 == 5) frames.back()[change % frames.back().size()] ^= 1;
      if (i == changed && change % 8 == 6) frames.back().resize(change);
      f.psn = f.psn.next();
    }
    const std::vector<std::span<const uint8_t>> views(frames.begin(), frames.end());
    shard_.rx({now_, Duration(), views});
    while (shard_.to_host().front().data() != nullptr) shard_.to_host().pop();
  }

  Rkey rkey() const { return shard_.regions().rkey(looks_ ? 1 : 2); }

  std::vector<uint8_t> frame_of(const RoceFields& f, uint32_t payload) {
    RoceAddressing a;
    a.src = IpAddress::v4(0x0a000001);
    a.dst = qp_->config().addressing.src;
    if (shard_.nodes()[0].vlan_tci) a.vlan_tci = 100;
    std::vector<uint8_t> frame(roce_frame_bytes(a, f.opcode, payload));
    uint8_t* at = begin_roce(frame.data(), a, f, payload);
    std::memset(at, 0x5c, payload);
    finish_roce(frame.data(), a, f.opcode, payload);
    return frame;
  }

  void receive_pfc() {
    PfcFrame pfc;
    pfc.priorities = in_.byte();
    pfc.quanta.fill(static_cast<uint16_t>(in_.byte() * 257));
    uint8_t frame[kPfcFrameBytes];
    write_pfc(pfc, frame);
    receive(frame);
  }

  void receive(std::span<const uint8_t> bytes) {
    const std::vector<uint8_t> frame(bytes.begin(), bytes.end());  // exact size
    const std::span<const uint8_t> frames[] = {frame};
    shard_.rx({now_, Duration(), frames});
    while (shard_.to_host().front().data() != nullptr) shard_.to_host().pop();
  }

  void advance(Duration by) {
    const Time until = now_ + by;
    for (int turns = 0; shard_.next_wake() <= until && room_ > 0; ++turns) {
      must(turns < 1'000'000);  // or time stands still
      now_ = std::max(now_, shard_.next_wake());
      shard_.poll(now_, *this);
    }
    now_ = until;
    shard_.poll(now_, *this);
    Reply reply;
    while (shard_.replies().pop(reply)) {
    }
  }

  uint8_t* reserve(uint32_t bytes) override {
    if (room_ == 0) return nullptr;
    out_.assign(bytes, 0);
    return out_.data();
  }
  void commit(uint32_t bytes, Time scheduled) override {
    --room_;
    must(bytes <= out_.size() && scheduled <= now_);
    FrameView view;
    RoceView roce;
    const FrameKind kind = parse_frame({out_.data(), bytes}, view, roce);
    must(kind == FrameKind::kRoce || kind == FrameKind::kArp || kind == FrameKind::kIp ||
         kind == FrameKind::kMacControl);
    must(kind != FrameKind::kRoce || icrc_ok(view, roce));
    pauses_sent_ += kind == FrameKind::kMacControl ? 1 : 0;
  }

  FuzzInput in_;
  Shard shard_;
  MemoryTarget endpoint_;
  std::unique_ptr<Qp> qp_;
  bool looks_ = true;  ///< contents of what it receives are needed
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(40 * kMtu), out_;
  size_t room_ = SIZE_MAX;
  uint64_t pauses_sent_ = 0;
  Time now_;
};

}  // namespace understudy
