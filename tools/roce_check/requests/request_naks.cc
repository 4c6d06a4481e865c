// The responder's refusals (rules A4.2, A4.6, A4.7, A4.9, A4.11).
#include "tools/roce_check/requests/request_stream.h"

namespace understudy {

void RequestStream::nak(const PacketRecord& p, int64_t psn) {
  const uint8_t kind = p.syndrome & kSyndromeKindMask;
  const uint8_t value = p.syndrome & kSyndromeValueMask;
  findings_.examined(Rule::kA4_9);
  // NAK code 4 belongs to reliable datagrams.
  if (kind != kSyndromeRnrNak && (kind != kSyndromeNak || value > 3)) {
    fault(Rule::kA4_9, p.stamp(), psn,
          "AETH syndrome " + std::to_string(p.syndrome) + " is illegal");
    return;
  }
  acknowledge(psn - 1, p.stamp());
  Slot* s = slot(psn);
  const bool sequence =
      kind == kSyndromeNak && value == static_cast<uint8_t>(NakCode::kPsnSequence);
  if (kind == kSyndromeRnrNak) {
    ++counts_.rnr_naks;
    findings_.examined(Rule::kA4_11);
  } else {
    ++counts_.naks[value];
  }
  if (sequence) {
    sequence_nak(p, psn, s);
  } else if (kind == kSyndromeNak) {
    fatal_nak(p, psn, s);
  }
  if (s == nullptr || broken_) return;
  if (sequence) s->gap_nak = p.stamp();
  // What follows a SEND without a receive finds a gap, and Linux' rdma_rxe says so. The wait that
  // the RNR NAK asked for goes on.
  const bool waits = (s->nak_syndrome & kSyndromeKindMask) == kSyndromeRnrNak && !s->sent.empty() &&
                     s->nak.frame > s->sent.back().frame;
  if (sequence && waits) return;
  s->nak = p.stamp();
  s->nak_syndrome = p.syndrome;
}

void RequestStream::sequence_nak(const PacketRecord& p, int64_t psn, const Slot* slot) {
  findings_.examined(Rule::kA4_2);
  if (slot != nullptr && slot->revealed.frame != 0 && slot->nak.frame == 0) {
    times_.nak.add(p.at - slot->revealed.at);
  }
  if (psn + 1 >= next_) {
    suspect(Rule::kA4_2, p.stamp(), psn, "NAK for a gap, but no later packet was sent");
    return;
  }
  if (context_.impaired) return;
  if (newest_ack_ && psn <= *newest_ack_) {
    fault(Rule::kA4_2, p.stamp(), psn, "NAK for a gap, but the PSN has been acknowledged before");
    return;
  }
  if (slot == nullptr || slot->gap_nak.frame == 0) return;
  // Once more, though the PSN has not come in between; without any request in between it is a copy
  // that the network made.
  const bool came = !slot->sent.empty() && slot->sent.back().frame > slot->gap_nak.frame;
  if (!came && last_request_.frame > slot->gap_nak.frame) {
    suspect(Rule::kA4_2, p.stamp(), psn,
            "a second NAK for the same gap, the first was frame " +
                std::to_string(slot->gap_nak.frame));
  }
}

void RequestStream::fatal_nak(const PacketRecord& p, int64_t psn, const Slot* slot) {
  if (!broken_) broken_at_ = p.stamp();
  broken_ = true;
  const bool access =
      (p.syndrome & kSyndromeValueMask) == static_cast<uint8_t>(NakCode::kRemoteAccess);
  if (!access || slot == nullptr || !slot->known) return;
  const OpcodeInfo& info = opcode_info(slot->opcode);
  findings_.examined(info.reth ? Rule::kA4_6 : Rule::kA4_7);
  if (info.reth && slot->dma_length == 0) {
    fault(Rule::kA4_6, p.stamp(), psn,
          "remote access error for a request of no bytes, which needs no key");
  } else if (info.kind == OpKind::kSend && !info.ieth) {
    fault(Rule::kA4_7, p.stamp(), psn, "remote access error for a SEND, which names no memory");
  }
}

}  // namespace understudy
