// A train: packets of one WRITE that have come together, one behind the other, and that nobody
// tells apart before the last is there. It is one packet of the pool, one place in the queues of
// both links and one event at the end; on the links each of its packets takes the time that it
// takes alone.
#pragma once

#include "dataplane/engine/state/packet_pool.h"
#include "dataplane/fabric/link.h"

namespace understudy {

inline constexpr uint32_t kMostInTrain = 32;

/// When the heads and tails of a train's packets come in at its next link, kMostInTrain at most. In
/// the buffer of the train, whose payload is not kept.
inline LinkExit* train_times(PacketPool& pool, uint32_t train) {
  static_assert(kMostInTrain * sizeof(LinkExit) <= kPacketBufferBytes &&
                kPacketBufferBytes % alignof(LinkExit) == 0);
  return reinterpret_cast<LinkExit*>(pool.buffer(train));
}

/// How many packets of what `packet` stands for have arrived in front of its link.
inline uint32_t arrived_packets(PacketPool& pool, uint32_t packet, Time now) {
  const Packet& p = pool[packet];
  if (p.kind != PacketKind::kTrain) return p.due <= now ? 1 : 0;
  const LinkExit* const times = train_times(pool, packet);
  uint32_t n = 0;
  while (n <= p.before && times[n].head <= now) ++n;
  return n;
}

}  // namespace understudy
