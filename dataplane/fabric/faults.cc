#include "dataplane/fabric/faults.h"

#include <utility>

#include "dataplane/base/pattern.h"

namespace understudy {
namespace {

bool is_of(FaultPackets wanted, const FaultFacts& packet) {
  const OpcodeInfo& info = opcode_info(packet.opcode);
  const uint8_t answer = packet.syndrome & kSyndromeKindMask;
  const bool plain_ack = info.kind == OpKind::kAck && !info.atomic_ack;
  switch (wanted) {
    case FaultPackets::kAny:
      return true;
    case FaultPackets::kRequest:
      return info.is_request();
    case FaultPackets::kResponse:
      return info.is_response();
    case FaultPackets::kSend:
      return info.kind == OpKind::kSend;
    case FaultPackets::kWrite:
      return info.kind == OpKind::kWrite;
    case FaultPackets::kRead:
      return info.kind == OpKind::kReadRequest;
    case FaultPackets::kAtomic:
      return info.kind == OpKind::kAtomicRequest;
    case FaultPackets::kReadResponse:
      return info.kind == OpKind::kReadResponse;
    case FaultPackets::kAtomicResponse:
      return info.atomic_ack;
    case FaultPackets::kAck:
      return plain_ack && answer == kSyndromeAck;
    case FaultPackets::kNak:
      return plain_ack && answer == kSyndromeNak;
    case FaultPackets::kRnr:
      return plain_ack && answer == kSyndromeRnrNak;
    case FaultPackets::kCnp:
      return info.kind == OpKind::kCnp;
    case FaultPackets::kUd:
      return info.kind == OpKind::kUd;
  }
  return false;
}

constexpr size_t stream_of(const FaultFacts& packet, bool response) {
  return (packet.to_real ? 2u : 0u) + (response ? 1u : 0u);
}

}  // namespace

FaultInjector::FaultInjector(std::vector<Fault> faults, uint64_t seed, std::vector<NodeId> nodes,
                             uint32_t queue_pairs)
    : faults_(std::move(faults)),
      counters_(faults_.size()),
      nodes_(std::move(nodes)),
      ordinals_(nodes_.size()),
      queue_pairs_(queue_pairs),
      qps_(faults_.empty() ? 0 : queue_pairs + nodes_.size() + 1) {
  for (uint32_t i = 0; active() && i < nodes_.size(); ++i) qps_[queue_pairs + i].node = nodes_[i];
  for (size_t i = 0; i < faults_.size(); ++i) {
    keys_.push_back(splitmix64(splitmix64(seed) ^ (0xfa017ULL + i)));
  }
}

void FaultInjector::on_new_qp(uint32_t slot, uint32_t position, Psn first_sent,
                              Psn first_expected) {
  if (!active()) return;
  QueuePair& qp = qps_[slot];
  qp = QueuePair{};
  qp.node = nodes_[position];
  qp.ordinal = ++ordinals_[position];
  // What the real node asks for has the PSNs that are expected, and so have the answers to it.
  qp.streams[0].first = qp.streams[3].first = first_expected;
  qp.streams[1].first = qp.streams[2].first = first_sent;
}

bool FaultInjector::matches(const Fault& fault, const FaultFacts& packet, const QueuePair& qp,
                            const Stream& stream, Time now) const {
  if (packet.slot == unknown_slot() && (fault.psn || fault.round != 0)) return false;
  const FaultDirection way = packet.to_real ? FaultDirection::kToReal : FaultDirection::kFromReal;
  return (fault.direction == FaultDirection::kBoth || fault.direction == way) &&
         (fault.node == kNoNode || fault.node == qp.node) &&
         (fault.queue_pair == 0 || fault.queue_pair == qp.ordinal) &&
         (!fault.psn || stream.first.advance(*fault.psn) == packet.psn) &&
         (fault.round == 0 || fault.round == stream.round) && now >= fault.from && now < fault.to &&
         is_of(fault.packets, packet);
}

bool FaultInjector::chosen(size_t i) {
  const Fault& fault = faults_[i];
  const uint64_t n = ++counters_[i].matched;
  if (fault.nth != 0 && n != fault.nth) return false;
  if (n % fault.every != 0 || counters_[i].acted >= fault.most) return false;
  return (splitmix64(keys_[i] + n) >> 32) < fault.probability;
}

FaultVerdict FaultInjector::judge(const FaultFacts& packet, Time now) {
  FaultVerdict verdict;
  QueuePair& qp = qps_[packet.slot];
  const bool response = opcode_info(packet.opcode).is_response();
  Stream& stream = qp.streams[stream_of(packet, response)];
  if (stream.round == 0 || packet.psn.distance_from(stream.newest) > 0) {
    stream.round = 1;
  } else if (packet.psn.distance_from(stream.last) <= 0) {
    ++stream.round;
  }
  stream.last = packet.psn;
  const Psn end = packet.psn.advance(packet.psns - 1);
  if (stream.round == 1 || end.distance_from(stream.newest) > 0) stream.newest = end;

  for (uint32_t i = 0; i < faults_.size(); ++i) {
    const Fault& fault = faults_[i];
    if (!matches(fault, packet, qp, stream, now) || !chosen(i)) continue;
    ++counters_[i].acted;
    switch (fault.action) {
      case FaultAction::kDrop:
        verdict.drop = {i};
        return verdict;
      case FaultAction::kDuplicate:
        verdict.duplicate = {i};
        break;
      case FaultAction::kReorder:
        verdict.reorder = {i};
        break;
      case FaultAction::kDelay:
        verdict.delay += fault.delay;
        break;
      case FaultAction::kCorrupt:
        verdict.corrupt = {i};
        verdict.damage = splitmix64(~keys_[i] + counters_[i].matched);
        break;
      case FaultAction::kMarkCe:
        verdict.mark_ce = true;
        break;
    }
  }
  return verdict;
}

void FaultInjector::skip(FaultVerdict::Act act) {
  --counters_[act.fault].acted;
  ++counters_[act.fault].skipped;
}

}  // namespace understudy
