// PFC frames of the real node and to it, where a shard has a network with switches.
#include "dataplane/engine/shard.h"
#include "dataplane/wire/pfc.h"

namespace understudy {

void Shard::rx_mac_control(std::span<const uint8_t> frame, Time now) {
  PfcFrame pfc;
  if (frame.size() < kPfcHeaderBytes) return counters_.drop(Drop::kTruncated);
  if (!parse_pfc(frame, pfc)) return counters_.drop(Drop::kOtherEthertype);
  pfc_.count_received();
  if (!pfc_.on()) return;
  const uint8_t classes = pfc_.hear(pfc, now);
  for (unsigned c = 0; c < kPfcPriorities; ++c) {
    if ((classes >> c & 1) == 0) continue;
    events_.push(now, EventKind::kPauseHeard, c);
    if (const Time ends = pfc_.pause_ends(c); ends > now) {
      events_.push(ends, EventKind::kPauseEnds, c);
    }
  }
}

/// A class may have been paused by the real node, or its pause may be over.
void Shard::look_at_pause(unsigned cls, bool frame, Time now) {
  if (pfc_.look(cls, now)) fabric_->hear_pause(cls, pfc_.is_paused(cls), frame, now);
}

void Shard::tell_pause(unsigned cls, bool pause, Time due) { pfc_.tell(cls, pause, due); }

/// False when the device takes no more now.
bool Shard::send_pfc(Time now, TxSink& sink) {
  for (Time due; (due = pfc_.next_frame()) <= now;) {
    uint8_t* out = sink.reserve(kPfcFrameBytes);
    if (out == nullptr) {
      ++counters_.tx_busy;
      return false;
    }
    write_pfc(pfc_.take_frame(now), out);
    ++counters_.tx_frames;
    counters_.tx_bytes += kPfcFrameBytes;
    sink.commit(kPfcFrameBytes, due);
  }
  return true;
}

}  // namespace understudy
