// PFC frames of the real node and to it, where a shard has a network with switches.
#include "dataplane/engine/shard.h"
#include "dataplane/wire/pfc.h"

namespace understudy {

void Shard::rx_mac_control(std::span<const uint8_t> frame, Time now) {
  PfcFrame pfc;
  if (frame.size() < kPfcHeaderBytes) return here().counters.drop(Drop::kTruncated);
  if (!parse_pfc(frame, pfc)) return here().counters.drop(Drop::kOtherEthertype);
  PortPfc& port = here().pfc;
  port.count_received();
  if (!port.on()) return;
  const uint8_t classes = port.hear(pfc, now);
  for (unsigned c = 0; c < kPfcPriorities; ++c) {
    if ((classes >> c & 1) == 0) continue;
    const uint32_t index = here_ * kPfcPriorities + c;
    events_.push(now, EventKind::kPauseHeard, index);
    if (const Time ends = port.pause_ends(c); ends > now) {
      events_.push(ends, EventKind::kPauseEnds, index);
    }
  }
}

/// A class may have been paused by the real node, or its pause may be over.
void Shard::look_at_pause(uint32_t index, bool frame, Time now) {
  Port& port = ports_[index / kPfcPriorities];
  const unsigned cls = index % kPfcPriorities;
  if (!port.pfc.look(cls, now)) return;
  fabric_->hear_pause(port.nic, cls, port.pfc.is_paused(cls), frame, now);
}

void Shard::tell_pause(uint32_t real, unsigned cls, bool pause, Time due) {
  port_of(real).pfc.tell(cls, pause, due);
}

/// False when the device takes no more now.
bool Shard::send_pfc(Port& port, Time now, TxSink& sink) {
  for (Time due; (due = port.pfc.next_frame()) <= now;) {
    uint8_t* out = sink.reserve(kPfcFrameBytes);
    if (out == nullptr) {
      ++port.counters.tx_busy;
      return false;
    }
    write_pfc(port.pfc.take_frame(now), out);
    ++port.counters.tx_frames;
    port.counters.tx_bytes += kPfcFrameBytes;
    sink.commit(kPfcFrameBytes, due);
  }
  return true;
}

}  // namespace understudy
