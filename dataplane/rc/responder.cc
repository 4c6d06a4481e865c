#include "dataplane/rc/responder.h"

#include <algorithm>
#include <cstring>

namespace understudy {

namespace {

constexpr uint32_t kAtomicBytes = 8;

/// What the queue pair must allow for a request; 0: a SEND needs nothing.
uint8_t access_for(OpKind kind) {
  switch (kind) {
    case OpKind::kWrite:
      return kAccessRemoteWrite;
    case OpKind::kReadRequest:
      return kAccessRemoteRead;
    case OpKind::kAtomicRequest:
      return kAccessRemoteAtomic;
    default:
      return 0;
  }
}

}  // namespace

void Responder::reset() {
  epsn_ = base_.config.rq_psn;
  msn_ = 0;
  gap_nak_sent_ = rnr_waiting_ = in_message_ = endless_ = receive_held_ = false;
  receives_ = 0;
  set_receive_buffer({});
  forget_answers();
}

uint32_t Responder::packets_for(uint32_t length) const {
  return std::max<uint32_t>(1, (length + base_.config.mtu - 1) / base_.config.mtu);
}

RequestOutcome Responder::refuse(NakCode code, RcEvent why) {
  count(base_.counters, why);
  if (base_.config.unreliable) return drop_message();
  acknowledge(epsn_, static_cast<uint8_t>(kSyndromeNak | static_cast<uint8_t>(code)));
  return RequestOutcome::kFatal;
}

/// As where no receive is posted: the requester comes again after a while.
RequestOutcome Responder::not_ready() {
  if (base_.config.unreliable) return drop_message();
  count(base_.counters, RcEvent::kRnrSent);
  rnr_waiting_ = true;
  acknowledge(epsn_, static_cast<uint8_t>(kSyndromeRnrNak | (base_.config.min_rnr_timer & 31)));
  return RequestOutcome::kTaken;
}

RequestOutcome Responder::on_request(const RoceView& packet, const uint8_t* payload) {
  // Of another service: dropped silently (IBTA 9.6).
  if (!packet.info().is_request() || packet.info().unreliable != base_.config.unreliable) {
    count(base_.counters, RcEvent::kWrongService);
    return RequestOutcome::kNotExpected;
  }
  if (base_.config.unreliable) return unreliable(packet, payload);
  const int32_t ahead = packet.psn.distance_from(epsn_);
  if (ahead < 0) {
    duplicate(packet);
    return RequestOutcome::kNotExpected;
  }
  if (ahead > 0) {
    gap();
    return RequestOutcome::kNotExpected;
  }
  end_wait_for_expected();
  return expected(packet, payload);
}

/// Of a message with a gap nothing is kept; the next one begins where it begins (IBTA 9.8.2.2).
RequestOutcome Responder::unreliable(const RoceView& packet, const uint8_t* payload) {
  const OpcodeInfo& info = packet.info();
  if (packet.psn != epsn_) {
    count(base_.counters, RcEvent::kPsnGap);
    if (in_message_) drop_message();
    epsn_ = packet.psn;
  }
  if (in_message_ && (info.start || info.kind != message_kind_)) drop_message();
  const uint8_t access = access_for(info.kind);
  if (!info.start && !in_message_) {  // the rest of one that was dropped
    epsn_ = packet.psn.next();
    return RequestOutcome::kNotExpected;
  }
  const RequestOutcome outcome = (base_.config.access & access) != access
                                     ? refuse(NakCode::kInvalidRequest, RcEvent::kInvalidRequest)
                                     : send_or_write(packet, payload);
  epsn_ = packet.psn.next();
  return outcome;
}

/// What it has taken of the program's receives the next message has.
RequestOutcome Responder::drop_message() {
  count(base_.counters, RcEvent::kMessageDropped);
  in_message_ = false;
  return RequestOutcome::kNotExpected;
}

bool Responder::take_middles(Psn first, uint32_t packets, uint32_t bytes) {
  const uint64_t after = uint64_t{message_done_} + uint64_t{packets} * bytes;
  const bool expected = !base_.config.unreliable && first == epsn_ && in_message_ &&
                        message_kind_ == OpKind::kWrite && bytes == base_.config.mtu &&
                        after <= message_length_ && (base_.config.access & kAccessRemoteWrite) != 0;
  if (!expected) return false;
  const Region* region =
      accessible(message_rkey_, kAccessRemoteWrite, message_va_, message_length_);
  if (region == nullptr || region->kind() == RegionKind::kBacked) return false;
  end_wait_for_expected();
  message_done_ = static_cast<uint32_t>(after);
  epsn_ = epsn_.advance(packets);
  return true;
}

void Responder::gap() {
  // The rest of a message that met RNR is expected to run past us; it is not a gap (rule A4).
  if (rnr_waiting_) return;
  count(base_.counters, RcEvent::kPsnGap);
  if (gap_nak_sent_) return;
  gap_nak_sent_ = true;
  acknowledge(epsn_, kSyndromeNak | static_cast<uint8_t>(NakCode::kPsnSequence));
}

/// The expected PSN is there.
void Responder::end_wait_for_expected() {
  gap_nak_sent_ = rnr_waiting_ = false;
  if (nak_pending()) take_nak_back();
}

/// The checks follow each other as rule A4.3 says.
RequestOutcome Responder::expected(const RoceView& packet, const uint8_t* payload) {
  const OpcodeInfo& info = packet.info();
  const uint8_t access = access_for(info.kind);
  if (!check_sequence(info) || (base_.config.access & access) != access) {
    return refuse(NakCode::kInvalidRequest, RcEvent::kInvalidRequest);
  }
  if (info.kind == OpKind::kReadRequest) return read_request(packet);
  if (info.kind == OpKind::kAtomicRequest) return atomic_request(packet);
  return send_or_write(packet, payload);
}

bool Responder::check_sequence(const OpcodeInfo& info) const {
  return in_message_ ? !info.start && info.kind == message_kind_ : info.start;
}

bool Responder::check_length(const RoceView& packet, const OpcodeInfo& info) const {
  const uint32_t bytes = packet.payload_bytes;
  if ((bytes + packet.pad) % 4 != 0) return false;
  if (!info.end) return bytes == base_.config.mtu;
  if (!info.start) return bytes >= 1 && bytes <= base_.config.mtu;
  return bytes <= base_.config.mtu;
}

RequestOutcome Responder::send_or_write(const RoceView& packet, const uint8_t* payload) {
  const OpcodeInfo& info = packet.info();
  const bool write = info.kind == OpKind::kWrite;
  const bool takes_receive = write ? info.imm : info.start;
  if (takes_receive && !receive_held_ && !take_receive()) return not_ready();
  receive_held_ = base_.config.unreliable && (takes_receive || receive_held_);
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
  const uint64_t limit = write                 ? message_length_
                         : receive_bytes_ == 0 ? kMaxMessageBytes
                                               : receive_bytes_;
  if (limit > kMaxMessageBytes || after > limit || (write && info.end && after != limit)) {
    return refuse(NakCode::kInvalidRequest, RcEvent::kLengthError);
  }
  if (write && message_length_ > 0) {  // rkey and va of an empty WRITE are not checked
    // Looked up for every packet: the region may go away in the middle of a message.
    const Region* region =
        accessible(message_rkey_, kAccessRemoteWrite, message_va_, message_length_);
    if (region == nullptr) return refuse(NakCode::kRemoteAccess, RcEvent::kRemoteAccess);
    if (bytes > 0 && region->kind() == RegionKind::kBacked) {
      std::memcpy(region->bytes + (message_va_ - region->va) + message_done_, payload, bytes);
    }
  } else if (!write && sink_ != nullptr) {
    if (const auto nak = sink_->place(message_done_, {payload, bytes})) {
      return refuse(*nak, RcEvent::kLengthError);
    }
  } else if (!write && bytes > 0 && receive_bytes_ != 0) {
    std::memcpy(receive_buffer_ + message_done_, payload, bytes);
  }
  if (info.ieth) {
    if (!base_.regions.invalidate(packet.imm, base_.config.node)) {
      return refuse(NakCode::kRemoteAccess, RcEvent::kRemoteAccess);
    }
    count(base_.counters, RcEvent::kInvalidated);
  }
  message_done_ += bytes;
  in_message_ = !info.end;
  if (info.end && (!write || info.imm)) receive_held_ = false;
  epsn_ = epsn_.next();

  if (info.end) msn_ = (msn_ + 1) & Psn::kMask;
  // A receive is consumed when the message completes; RNR was decided above.
  if (info.end && (!write || info.imm) && !endless_ && sink_ == nullptr) --receives_;
  if (packet.ack_request && !base_.config.unreliable) acknowledge(packet.psn, ack_syndrome());
  return info.end ? RequestOutcome::kMessage : RequestOutcome::kTaken;
}

Received Responder::received(const RoceView& packet, const uint8_t* payload) const {
  const OpcodeInfo& info = packet.info();
  const bool write = info.kind == OpKind::kWrite;
  const bool event = packet.solicited && (!write || info.imm);
  return {write,
          info.imm,
          packet.imm,
          message_va_,
          message_rkey_,
          message_done_,
          event,
          info.ieth,
          info.ieth ? packet.imm : 0,
          info.start ? payload : nullptr};
}

const Region* Responder::accessible(Rkey rkey, uint8_t access, uint64_t va, uint32_t length) const {
  const Region* region = base_.regions.find(rkey, base_.config.node);
  const bool allowed =
      region != nullptr && (region->access & access) != 0 && region->covers(va, length);
  return allowed ? region : nullptr;
}

RequestOutcome Responder::read_request(const RoceView& packet) {
  if (!room_for_answer()) return refuse(NakCode::kInvalidRequest, RcEvent::kInvalidRequest);
  if (packet.dma_length > kMaxMessageBytes || packet.payload_bytes != 0) {
    return refuse(NakCode::kInvalidRequest, RcEvent::kLengthError);
  }
  if (packet.dma_length > 0 &&
      accessible(packet.rkey, kAccessRemoteRead, packet.va, packet.dma_length) == nullptr) {
    return refuse(NakCode::kRemoteAccess, RcEvent::kRemoteAccess);
  }
  if (!pool().has_some()) return not_ready();
  Answer answer{};
  answer.kind = OpKind::kReadRequest;
  answer.psn = packet.psn;
  answer.packets = packets_for(packet.dma_length);
  answer.va = packet.va;
  answer.rkey = packet.rkey;
  answer.length = packet.dma_length;
  accept(answer);
  return RequestOutcome::kTaken;
}

RequestOutcome Responder::atomic_request(const RoceView& packet) {
  if (!room_for_answer() || packet.va % kAtomicBytes != 0) {
    return refuse(NakCode::kInvalidRequest, RcEvent::kInvalidRequest);
  }
  if (packet.payload_bytes != 0) return refuse(NakCode::kInvalidRequest, RcEvent::kLengthError);
  const Region* region = accessible(packet.rkey, kAccessRemoteAtomic, packet.va, kAtomicBytes);
  if (region == nullptr) return refuse(NakCode::kRemoteAccess, RcEvent::kRemoteAccess);
  if (!pool().has_some()) return not_ready();
  Answer answer{};
  answer.kind = OpKind::kAtomicRequest;
  answer.psn = packet.psn;
  answer.packets = 1;
  answer.va = packet.va;
  answer.rkey = packet.rkey;
  const uint64_t offset = packet.va - region->va;
  uint8_t original[kAtomicBytes];
  region->contents(offset).write(original);
  std::memcpy(&answer.original, original, kAtomicBytes);
  if (region->kind() == RegionKind::kBacked) {
    const bool add = static_cast<Opcode>(packet.opcode) == Opcode::kFetchAdd;
    const uint64_t fresh = add                                 ? answer.original + packet.swap_add
                           : answer.original == packet.compare ? packet.swap_add
                                                               : answer.original;
    std::memcpy(region->bytes + offset, &fresh, kAtomicBytes);
  }
  accept(answer);
  return RequestOutcome::kAtomic;
}

}  // namespace understudy
