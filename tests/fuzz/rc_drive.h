// Any bytes as packets, work and time for one queue pair, and what must hold whatever comes.
#pragma once

#include <memory>
#include <vector>

#include "dataplane/rc/qp.h"
#include "tests/fuzz/input.h"

namespace understudy {

class RcDrive : public QpOwner {
 public:
  /// Input: five bytes of attributes, then steps; see step().
  void run(std::span<const uint8_t> bytes) {
    FuzzInput in(bytes);
    QpConfig config;
    config.node = 1;
    config.mtu = 256u << in.byte() % 3;
    config.timeout = static_cast<uint8_t>(in.byte() % 12);
    const uint8_t retries = in.byte();
    config.retry_count = retries % 8;
    config.unreliable = retries / 8 % 8 == 7;
    config.rnr_retry = static_cast<uint8_t>(in.byte() % 8);
    config.max_dest_rd_atomic = config.max_rd_atomic = static_cast<uint8_t>(in.byte() % 5);
    config.rq_psn = config.sq_psn = Psn(Psn::kMask - 8);
    regions_.add(1, region());
    qp_ = std::make_unique<Qp>(config, regions_, counters_, *this);
    if (config.retry_count % 2 != 0) qp_->responder().set_receive_buffer(receive_);
    while (!in.done()) step(in);
    if (qp_->deadline() <= now_) qp_->on_timer(now_);
    must(completed_ <= posted_);
    must(completed_ + qp_->outstanding() == posted_);
  }

  void on_received(Time, Qp&, const Received& m) override {
    must(m.is_write || m.length <= (uint32_t{1} << 31));
  }
  void on_completed(Time, Qp&, uint64_t id, WorkStatus) override { must(id == completed_++); }

  uint64_t counted(RcEvent e) const { return counters_[static_cast<size_t>(e)]; }

 private:
  static constexpr uint64_t kVa = 0x1000;

  Region region() { return {1, kVa, exposed_.size(), kAccessRemoteAny, exposed_.data(), true}; }

  void step(FuzzInput& in) {
    switch (in.byte() % 8) {
      case 0:
        return post(in);
      case 1:
        now_ += Duration::us(in.byte() * in.byte());
        if (qp_->deadline() <= now_) qp_->on_timer(now_);
        return;
      case 2:
        return qp_->responder().post_receives(in.byte() % 4);
      case 3:
        regions_.remove(1);
        regions_.add(1, region());
        return;
      case 4:
      case 5:
        return pull(in.byte() % 16);
      default:
        return packet(in);
    }
  }

  void post(FuzzInput& in) {
    WorkRequest r;
    const uint8_t op = in.byte();
    r.op = static_cast<WorkOp>(op % 8);
    r.fence = (op & 8) != 0;
    r.id = posted_;
    r.length = in.byte() * 16u;
    r.payload.bytes = source_.data();
    r.read_to = fetched_.data();
    posted_ += qp_->post(r) ? 1 : 0;
  }

  void pull(unsigned n) {
    OutPacket out;
    bool departs;
    uint64_t id;
    while (n-- > 0 && qp_->can_send(now_, TrafficKind::kAny)) {
      must(qp_->pull(now_, TrafficKind::kAny, out, departs, id));
      must(out.payload_bytes <= qp_->config().mtu);
      std::vector<uint8_t> payload(out.payload_bytes);
      out.payload.write(payload);
    }
  }

  void packet(FuzzInput& in) {
    RoceView v;
    do {
      v.opcode = static_cast<uint8_t>(in.byte() % 0x20);
      if (v.opcode == 0x1f) v.opcode = static_cast<uint8_t>(Opcode::kUdSendOnly);
    } while (v.info().name == nullptr && !in.done());
    if (v.info().name == nullptr) return;
    if (qp_->config().unreliable && v.opcode < 12) v.opcode += kUnreliable;
    v.psn = Psn(Psn::kMask - 8 + in.byte() % 64);
    const uint8_t flags = in.byte();
    v.ack_request = (flags & 1) != 0;
    v.rkey = (flags & 2) != 0 ? in.word() : regions_.rkey(1);
    v.va = (flags & 4) != 0 ? in.word() : kVa + in.byte();
    v.payload_bytes = (flags & 8) != 0 ? in.byte() : (flags & 16) != 0 ? qp_->config().mtu : 0;
    v.dma_length = (flags & 32) != 0 ? in.word() : in.byte() * 8u;
    v.pad =
        static_cast<uint8_t>((flags & 64) != 0 ? in.byte() % 4u : (4 - v.payload_bytes % 4) % 4);
    v.imm = v.info().ieth ? v.rkey : 0;
    v.syndrome = (flags & 128) != 0 ? in.byte() : kNoCredits;
    const std::vector<uint8_t> payload(v.payload_bytes, 0x77);
    qp_->on_packet(now_, v, payload.data());
  }

  RegionTable regions_{4, 8};  // few READs and ATOMICs are remembered, so that they run out
  RcCounters counters_{};
  std::vector<uint8_t> exposed_ = std::vector<uint8_t>(2000), source_ = std::vector<uint8_t>(4080),
                       fetched_ = std::vector<uint8_t>(4080), receive_ = std::vector<uint8_t>(700);
  std::unique_ptr<Qp> qp_;
  Time now_;
  uint64_t posted_ = 0, completed_ = 0;
};

}  // namespace understudy
