#include "dataplane/engine/send/pause_frames.h"

#include "dataplane/wire/pfc.h"

namespace understudy {

void PauseFrames::receive(std::span<const uint8_t> frame, Time now) {
  PfcFrame pfc;
  RealPort& here = ports_.here();
  if (frame.size() < kPfcHeaderBytes) return here.counters.drop(Drop::kTruncated);
  if (!parse_pfc(frame, pfc)) return here.counters.drop(Drop::kOtherEthertype);
  PortPfc& port = here.pfc;
  port.count_received();
  if (!port.on()) return;
  const uint8_t classes = port.hear(pfc, now);
  for (unsigned c = 0; c < kPfcPriorities; ++c) {
    if ((classes >> c & 1) == 0) continue;
    events_.push(now, EventKind::kPauseHeard, event_index(c));
    if (const Time ends = port.pause_ends(c); ends > now) {
      events_.push(ends, EventKind::kPauseEnds, event_index(c));
    }
  }
}

bool PauseFrames::send_due(RealPort& port, Time now, TxSink& sink) {
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
