// What a shard counts. Every drop has a reason.
#pragma once

#include <array>
#include <cstdint>

#include "dataplane/base/histogram.h"
#include "dataplane/fabric/link.h"
#include "dataplane/fabric/wire_faults.h"
#include "dataplane/rc/types.h"

namespace understudy {

enum class Drop : uint8_t {
  kTruncated,
  kTooLong,  ///< longer than a packet's buffer, or a datagram longer than its path MTU
  kBadIp,
  kBadTver,
  kBadOpcode,
  kBadPad,
  kBadIcrc,
  kUnknownQpn,
  kWrongAddress,
  kWrongPkey,
  kWrongVlan,
  kOtherEthertype,
  kNotForUs,
  kNoBuffer,
  kHostRingFull,
  kFault,  ///< by the configuration's will
  kWrongQkey,
  kControlBusy,  ///< a notice that control had no room for
  kQueueFull,    ///< of a link in the fabric
  kLinkLoss,     ///< by the loss that a link of the fabric has
  kLinkDown,     ///< a link of the fabric was down, or paused by a storm; or no other led there
  kNoNeighbour,  ///< of the host, to a real node that has not answered who asked for its MAC
  kCount
};
const char* drop_name(Drop reason);
/// What the fabric's loss of a packet counts as.
Drop drop_of(PacketLoss why);

struct ShardCounters {
  uint64_t rx_frames = 0, rx_bytes = 0, tx_frames = 0, tx_bytes = 0;
  uint64_t rx_roce = 0, tx_roce = 0;
  uint64_t ce_marked = 0;     ///< RoCE packets that came with ECN 11
  uint64_t ce_delivered = 0;  ///< that reached a queue pair so, or marked by the fabric
  uint64_t ce_sent = 0;       ///< to the real node, marked by the fabric
  uint64_t cnp_sent = 0;
  uint64_t cnp_suppressed = 0;  ///< marks that no CNP answered, for one had just been sent
  uint64_t cnp_received = 0;    ///< that reached a queue pair
  uint64_t neighbour_answers = 0;
  uint64_t to_host = 0, from_host = 0;
  uint64_t tx_busy = 0;  ///< polls at which the device took no more
  std::array<uint64_t, static_cast<size_t>(Drop::kCount)> drops{};
  RcCounters rc{};
  Histogram lateness;  ///< actual minus scheduled departure, RoCE frames

  void drop(Drop reason, uint64_t packets = 1) { drops[static_cast<size_t>(reason)] += packets; }
};

}  // namespace understudy
