#include "dataplane/rc/responder.h"

#include <algorithm>
#include <cstring>

namespace understudy {

namespace {
constexpr uint32_t kMaxMessage = uint32_t{1} << 31;  // rule A4: RETH length at most 2^31
void count(RcCounters& c, RcEvent e) { ++c[static_cast<size_t>(e)]; }
}  // namespace

Responder::Responder(const QpConfig& config, const RegionTable& regions, RcCounters& counters)
    : config_(config),
      regions_(regions),
      counters_(counters),
      epsn_(config.rq_psn),
      jobs_(std::max<size_t>(config.max_dest_rd_atomic, 1) + 1),
      history_(std::max<size_t>(config.max_dest_rd_atomic, 1)) {}

uint32_t Responder::packets_for(uint32_t length) const {
  return std::max<uint32_t>(1, (length + config_.mtu - 1) / config_.mtu);
}

void Responder::acknowledge(Psn psn, uint8_t syndrome) {
  ack_pending_ = true;
  ack_psn_ = psn;
  ack_syndrome_ = syndrome;
  ack_before_reads_ = reads_ == 0;
}

ResponderResult Responder::refuse(NakCode code, RcEvent why) {
  count(counters_, why);
  acknowledge(epsn_, static_cast<uint8_t>(kSyndromeNak | static_cast<uint8_t>(code)));
  ResponderResult r;
  r.fatal = true;
  return r;
}

ResponderResult Responder::on_request(const RoceView& packet, const uint8_t* payload) {
  if (!packet.info().is_request()) {  // of an unreliable service (IBTA 9.6: dropped silently)
    count(counters_, RcEvent::kWrongService);
    return {};
  }
  const int32_t ahead = packet.psn.distance_from(epsn_);
  if (ahead < 0) return duplicate(packet);
  if (ahead > 0) {
    // The rest of a message that met RNR is expected to run past us; it is not a gap (rule A4).
    if (rnr_waiting_) return {};
    count(counters_, RcEvent::kPsnGap);
    if (!gap_nak_sent_) {
      gap_nak_sent_ = true;
      acknowledge(epsn_, kSyndromeNak | static_cast<uint8_t>(NakCode::kPsnSequence));
    }
    return {};
  }
  gap_nak_sent_ = false;
  rnr_waiting_ = false;
  const OpcodeInfo& info = packet.info();
  if (!check_sequence(info)) return refuse(NakCode::kInvalidRequest, RcEvent::kInvalidRequest);
  if (info.kind == OpKind::kReadRequest) return read_request(packet);
  if (info.kind == OpKind::kAtomicRequest || info.ieth) {  // neither is offered
    return refuse(NakCode::kInvalidRequest, RcEvent::kInvalidRequest);
  }
  return send_or_write(packet, payload);
}

bool Responder::check_sequence(const OpcodeInfo& info) const {
  return in_message_ ? !info.start && info.kind == message_kind_ : info.start;
}

bool Responder::check_length(const RoceView& packet, const OpcodeInfo& info) const {
  const uint32_t bytes = packet.payload_bytes;
  if ((bytes + packet.pad) % 4 != 0) return false;
  if (!info.end) return bytes == config_.mtu;
  if (!info.start) return bytes >= 1 && bytes <= config_.mtu;
  return bytes <= config_.mtu;
}

ResponderResult Responder::send_or_write(const RoceView& packet, const uint8_t* payload) {
  const OpcodeInfo& info = packet.info();
  const bool write = info.kind == OpKind::kWrite;
  const bool takes_receive = write ? info.imm : info.start;
  if (takes_receive && !endless_ && receives_ == 0) {
    count(counters_, RcEvent::kRnrSent);
    rnr_waiting_ = true;
    acknowledge(epsn_, static_cast<uint8_t>(kSyndromeRnrNak | (config_.min_rnr_timer & 31)));
    return {};
  }
  if (!check_length(packet, info)) {
    return refuse(NakCode::kInvalidRequest, RcEvent::kLengthError);
  }
  if (info.start) {
    message_kind_ = info.kind;
    message_done_ = 0;
    message_va_ = packet.va;
    message_rkey_ = packet.rkey;
    message_length_ = packet.dma_length;
  }
  const uint32_t bytes = packet.payload_bytes;
  const uint64_t after = uint64_t{message_done_} + bytes;
  const uint64_t limit = write                     ? message_length_
                         : receive_buffer_.empty() ? kMaxMessage
                                                   : receive_buffer_.size();
  if (limit > kMaxMessage || after > limit || (write && info.end && after != limit)) {
    return refuse(NakCode::kInvalidRequest, RcEvent::kLengthError);
  }
  if (write && message_length_ > 0) {  // rkey and va of an empty WRITE are not checked
    // Looked up for every packet: the region may go away in the middle of a message.
    const Region* region =
        accessible(message_rkey_, kAccessRemoteWrite, message_va_, message_length_);
    if (region == nullptr) return refuse(NakCode::kRemoteAccess, RcEvent::kRemoteAccess);
    if (bytes > 0 && region->bytes != nullptr) {
      std::memcpy(region->bytes + (message_va_ - region->va) + message_done_, payload, bytes);
    }
  } else if (!write && bytes > 0 && !receive_buffer_.empty()) {
    std::memcpy(receive_buffer_.data() + message_done_, payload, bytes);
  }
  message_done_ += bytes;
  in_message_ = !info.end;
  epsn_ = epsn_.next();

  ResponderResult result;
  if (info.end) {
    msn_ = (msn_ + 1) & Psn::kMask;
    result.message_done = true;
    result.received = {write, info.imm, packet.imm, message_va_, message_rkey_, message_done_};
  }
  // A receive is consumed when the message completes; RNR was decided above.
  if (info.end && (!write || info.imm) && !endless_) --receives_;
  if (packet.ack_request) acknowledge(packet.psn, kSyndromeAck | kNoCredits);
  return result;
}

const Region* Responder::accessible(Rkey rkey, uint8_t access, uint64_t va, uint32_t length) const {
  const Region* region = regions_.find(rkey, config_.node);
  const bool allowed =
      region != nullptr && (region->access & access) != 0 && region->covers(va, length);
  return allowed ? region : nullptr;
}

ResponderResult Responder::read_request(const RoceView& packet) {
  // A new READ at the limit means that the oldest one has been answered for the requester by now:
  // if it still waits here, it is a repeat that was asked for before a late answer came.
  if (reads_ != 0 && reads_ == config_.max_dest_rd_atomic && jobs_[first_read_].repeat) {
    pop_read();
  }
  if (reads_ >= config_.max_dest_rd_atomic) {
    return refuse(NakCode::kInvalidRequest, RcEvent::kInvalidRequest);
  }
  if (packet.dma_length > kMaxMessage || packet.payload_bytes != 0) {
    return refuse(NakCode::kInvalidRequest, RcEvent::kLengthError);
  }
  if (packet.dma_length > 0 &&
      accessible(packet.rkey, kAccessRemoteRead, packet.va, packet.dma_length) == nullptr) {
    return refuse(NakCode::kRemoteAccess, RcEvent::kRemoteAccess);
  }
  msn_ = (msn_ + 1) & Psn::kMask;  // counted at acceptance (rule A4, C9-148)
  const ReadJob job{packet.psn,  packets_for(packet.dma_length),
                    0,           packet.va,
                    packet.rkey, packet.dma_length,
                    msn_,        false};
  epsn_ = packet.psn.advance(job.packets);
  history_[history_next_] = job;
  history_next_ = (history_next_ + 1) % history_.size();
  push_read(job);
  return {};
}

void Responder::push_read(const ReadJob& job) {
  if (ack_pending_ && reads_ == 0) ack_before_reads_ = true;
  jobs_[(first_read_ + reads_) % jobs_.size()] = job;
  ++reads_;
}

void Responder::pop_read() {
  first_read_ = (first_read_ + 1) % jobs_.size();
  --reads_;
}

ResponderResult Responder::duplicate(const RoceView& packet) {
  count(counters_, RcEvent::kDuplicateRequest);
  const OpcodeInfo& info = packet.info();
  if (info.kind != OpKind::kReadRequest) {
    // Not executed again; the newest PSN is acknowledged once more (rule A4, C9-105).
    if (!ack_pending_ || (ack_syndrome_ & kSyndromeKindMask) == kSyndromeAck) {
      acknowledge(epsn_.advance(Psn::kMask), kSyndromeAck | kNoCredits);
    }
    return {};
  }
  for (const ReadJob& old : history_) {
    const int32_t skip = packet.psn.distance_from(old.psn);
    if (old.packets == 0 || skip < 0 || skip >= static_cast<int32_t>(old.packets)) continue;
    const uint64_t offset = static_cast<uint64_t>(skip) * config_.mtu;
    const bool inside = packet.rkey == old.rkey && packet.va == old.va + offset &&
                        packet.dma_length <= old.length - offset;
    if (!inside) break;
    // Answers still queued for this READ and those after it are replaced by the repeat.
    while (reads_ > 0) {
      const ReadJob& last = jobs_[(first_read_ + reads_ - 1) % jobs_.size()];
      if (last.psn.distance_from(old.psn) < 0) break;
      --reads_;
    }
    if (reads_ >= config_.max_dest_rd_atomic) break;
    push_read({packet.psn, packets_for(packet.dma_length), 0, packet.va, packet.rkey,
               packet.dma_length, old.msn, true});
    return {};
  }
  count(counters_, RcEvent::kDuplicateDropped);
  return {};
}

void Responder::pull_ack(OutPacket& out) {
  out = OutPacket{};
  out.fields.opcode = Opcode::kAcknowledge;
  out.fields.psn = ack_psn_;
  out.fields.syndrome = ack_syndrome_;
  out.fields.msn = msn_;
  ack_pending_ = false;
  const uint8_t kind = ack_syndrome_ & kSyndromeKindMask;
  if (kind == kSyndromeAck) count(counters_, RcEvent::kAckSent);
  if (kind == kSyndromeNak) count(counters_, RcEvent::kNakSent);
}

void Responder::pull_read_data(OutPacket& out) {
  ReadJob& job = jobs_[first_read_];
  const bool first = job.sent == 0;
  const bool last = job.sent + 1 == job.packets;
  out = OutPacket{};
  out.fields.opcode = first ? (last ? Opcode::kReadResponseOnly : Opcode::kReadResponseFirst)
                            : (last ? Opcode::kReadResponseLast : Opcode::kReadResponseMiddle);
  out.fields.psn = job.psn.advance(job.sent);
  out.fields.syndrome = kSyndromeAck | kNoCredits;
  out.fields.msn = job.msn;
  const uint32_t offset = job.sent * config_.mtu;
  out.payload_bytes = std::min(config_.mtu, job.length - offset);
  const Region* region = accessible(job.rkey, kAccessRemoteRead, job.va, job.length);
  if (region != nullptr && region->bytes != nullptr) {
    out.payload.bytes = region->bytes;
    out.payload.offset = job.va - region->va + offset;
  }
  ++job.sent;
  if (last) pop_read();
}

}  // namespace understudy
