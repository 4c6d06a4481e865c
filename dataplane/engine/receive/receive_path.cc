#include "dataplane/engine/receive/receive_path.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "dataplane/wire/headers.h"

namespace understudy {
namespace {

Drop drop_for(FrameKind kind) {
  switch (kind) {
    case FrameKind::kBadIp:
      return Drop::kBadIp;
    case FrameKind::kBadTver:
      return Drop::kBadTver;
    case FrameKind::kBadOpcode:
      return Drop::kBadOpcode;
    case FrameKind::kBadPad:
      return Drop::kBadPad;
    case FrameKind::kOther:
      return Drop::kOtherEthertype;
    default:
      return Drop::kTruncated;
  }
}

constexpr uint64_t kSampleEvery = 64;

/// Frames between the one that is handled and the one of which something is asked for: its headers,
/// its queue pair. Measured with tests/bench/path_bench and responder_bench.
constexpr size_t kPrefetchAhead = 3;

void prefetch_headers(const uint8_t* frame) {
  __builtin_prefetch(frame);
  __builtin_prefetch(frame + 64);
}

}  // namespace

ReceivePath::ReceivePath(ShardState& state, const Sinks& sinks)
    : state_(state),
      config_(state.config),
      pool_(state.pool),
      qps_(state.qps),
      ports_(state.ports),
      injector_(state.faults),
      to_(sinks),
      trains_(state, sinks.network) {}

void ReceivePath::rx(const RxBurst& burst) {
  state_.arrival_uncertainty = burst.uncertainty;
  ports_.receive_from(burst.port);
  for (size_t first = 0; first < burst.frames.size(); first += kTogether) {
    const auto frames =
        burst.frames.subspan(first, std::min(kTogether, burst.frames.size() - first));
    if (burst.read.empty()) read_headers(frames);
    rx_frames(frames, burst.read.empty() ? own_read_.data() : burst.read.data() + first, burst.at);
  }
  trains_.close(burst.at);
  trains_.forget_last();
}

void ReceivePath::read_headers(std::span<const std::span<const uint8_t>> frames) {
  const ReadFrame* like = nullptr;  // packets of whose stream are read by comparing them with it
  for (size_t i = 0; i < frames.size(); ++i) {
    if (i + kPrefetchAhead < frames.size()) prefetch_headers(frames[i + kPrefetchAhead].data());
    if (like != nullptr && differs_by_psn_only(frames[i], like->view, like->roce)) {
      own_read_[i] = like;
      continue;
    }
    own_read_[i] = read_one(frames[i], i);
    like = TrainAssembler::may_hold(*own_read_[i]) ? own_read_[i] : nullptr;
  }
}

const ReadFrame* ReceivePath::read_one(std::span<const uint8_t> frame, size_t at) {
  ReadFrame& read = *std::construct_at(&own_reads_[at]);
  if (frame.size() <= kPacketBufferBytes) read.read(frame);
  return &read;
}

/// All headers have been read before the first frame is handled, so that what the packets are for
/// is on its way from memory when its turn comes.
void ReceivePath::rx_frames(std::span<const std::span<const uint8_t>> frames,
                            const ReadFrame* const* read, Time now) {
  const size_t count = frames.size();
  std::array<uint32_t, kTogether> slots;  // of the queue pairs that they name
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    bytes += frames[i].size();
    if (i > 0 && read[i] == read[i - 1]) {
      slots[i] = slots[i - 1];
      continue;
    }
    slots[i] = read[i]->kind == FrameKind::kRoce ? qps_.slot_of(read[i]->roce.dest_qpn) : kNoSlot;
    if (slots[i] != kNoSlot) __builtin_prefetch(&qps_[slots[i]]);
  }
  ports_.here().counters.rx_frames += count;
  ports_.here().counters.rx_bytes += bytes;
  for (size_t i = 0; i < std::min(kPrefetchAhead, count); ++i) {
    if (slots[i] != kNoSlot) prefetch_qp(slots[i]);
  }
  for (size_t i = 0; i < count; ++i) {
    if (const size_t ahead = i + kPrefetchAhead; ahead < count) {
      const uint32_t slot = slots[ahead];  // often that of the one before
      if (slot != kNoSlot && slot != slots[ahead - 1]) prefetch_qp(slot);
    }
    const auto at = static_cast<uint32_t>(i);
    const ReadFrame* one = read[i];
    if (i > 0 && one == read[i - 1]) {
      if (continues_train(*one, frames[i], at, now)) continue;
      one = read_one(frames[i], i);
    }
    rx_frame(*one, slots[i], frames[i], at, now);
  }
}

void ReceivePath::prefetch_qp(uint32_t slot) const {
  const auto* at = reinterpret_cast<const uint8_t*>(qps_[slot].qp);
  if (at == nullptr) return;
  for (size_t i = 0; i < Qp::kHotBytes; i += 64) __builtin_prefetch(at + i);
}

/// Whether a frame whose headers are those of `like`, a packet of the train if its last packet was
/// the frame before, is the next one of the train.
bool ReceivePath::continues_train(const ReadFrame& like, std::span<const uint8_t> frame,
                                  uint32_t at, Time now) {
  if (!trains_.accepts_next(frame, at)) return false;
  ++ports_.here().counters.rx_roce;
  if (verifies_next() && !icrc_ok(frame, like.view, like.roce, icrc_memory_)) {
    ports_.here().counters.drop(Drop::kBadIcrc);
  } else {
    trains_.add_next(at, now);
  }
  return true;
}

void ReceivePath::rx_frame(const ReadFrame& read, uint32_t slot, std::span<const uint8_t> frame,
                           uint32_t at, Time now) {
  if (frame.size() > kPacketBufferBytes) return ports_.here().counters.drop(Drop::kTooLong);
  if (read.kind == FrameKind::kRoce) return rx_roce(read, slot, at, now);
  trains_.close(now);
  switch (read.kind) {
    case FrameKind::kIp:
    case FrameKind::kArp:
      return to_.host.receive(read.view, now);
    case FrameKind::kMacControl:
      return to_.pauses.receive(frame, now);
    default:
      ports_.here().counters.drop(drop_for(read.kind));
  }
}

/// Whether the ICRC of the next RoCE packet is looked at.
bool ReceivePath::verifies_next() {
  const uint64_t before = count_++;
  return config_.verify == VerifyIcrc::kFull ||
         (config_.verify == VerifyIcrc::kSampled && before % kSampleEvery == 0);
}

void ReceivePath::rx_roce(const ReadFrame& read, uint32_t slot, uint32_t at, Time now) {
  const FrameView& view = read.view;
  const RoceView& roce = read.roce;
  ++ports_.here().counters.rx_roce;
  if (verifies_next() && !read.has_good_icrc(icrc_memory_)) {
    return ports_.here().counters.drop(Drop::kBadIcrc);
  }
  if (ports_.is_of_wrong_vlan(view)) return ports_.here().counters.drop(Drop::kWrongVlan);
  if (slot == kNoSlot || qps_[slot].qp == nullptr) trains_.close(now);
  if (ports_.size() > 1) {
    const NodeNic* to = config_.nodes.find(view.dst);
    if (to != nullptr && to->real) return rx_through(view, roce, *to, now);
  }
  if (roce.dest_qpn == kGsiQpn) return to_.datagrams.receive_gsi(view, roce, now);
  if (slot == kNoSlot) return ports_.here().counters.drop(Drop::kUnknownQpn);
  if (qps_[slot].qp == nullptr) return to_.datagrams.receive(view, roce, slot, now);
  rx_rc(view, roce, slot, at, now);
}

/// For an RC queue pair.
void ReceivePath::rx_rc(const FrameView& view, const RoceView& roce, uint32_t slot, uint32_t at,
                        Time now) {
  const QpConfig& qp = qps_[slot].qp->config();
  if (view.src != qp.addressing.dst || view.dst != qp.addressing.src ||
      qps_[slot].real != ports_.here().nic) {
    return ports_.here().counters.drop(Drop::kWrongAddress);
  }
  if (!pkey_matches(roce.pkey, qp.pkey)) return ports_.here().counters.drop(Drop::kWrongPkey);
  ports_.learn_mac(view.src, view.src_mac);
  if (injector_.active()) return to_.faults.receive(view, roce, slot, now);
  if (trains_.accepts(view, roce, slot)) return trains_.add(view, roce, at, now);
  trains_.close(now);
  const bool opens = trains_.may_open(view, roce, slot);
  trains_.forget_last();
  const uint32_t id = to_.inbound.store(view, roce, slot, now);
  if (id == kNoPacket) return;
  trains_.note_last(slot, roce.psn, at);
  if (opens) return trains_.open(id, roce);
  to_.network.accept(id, now);
}

/// From one real NIC to another: it crosses the fabric as it is.
void ReceivePath::rx_through(const FrameView& view, const RoceView& roce, const NodeNic& to,
                             Time now) {
  const NodeNic* from = config_.nodes.find(view.src);
  const uint32_t real = config_.nodes.position(to);
  if (from == nullptr || config_.nodes.position(*from) != ports_.here().nic ||
      real == ports_.here().nic) {
    return ports_.here().counters.drop(Drop::kWrongAddress);
  }
  ports_.learn_mac(view.src, view.src_mac);
  if (marked(view.tos)) ++ports_.here().counters.ce_marked;
  const uint32_t id = to_.inbound.take(PacketKind::kThrough, view, ports_.here().nic, now);
  if (id == kNoPacket) return;
  Packet& p = pool_[id];
  p.real = real;
  p.qpn = roce.dest_qpn;
  p.view = roce;
  p.crossed = false;
  p.link = link_id(ports_.here().nic, true, config_.class_of(roce));
  std::memcpy(pool_.buffer(id), view.frame.data(), view.frame.size());
  if (injector_.active()) return to_.faults.cross(id, now);
  to_.network.accept(id, now);
}

}  // namespace understudy
