// What a switch does with packets: its classes, its buffer, when it pauses, marks and drops. Plain
// values; shared_buffer.h and network.h act by them.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "dataplane/base/units.h"
#include "dataplane/fabric/priority_map.h"

namespace understudy {

/// Priority flow control of a class (IEEE 802.1Qbb): when an ingress port pauses its peer.
///
/// A packet is charged to the switch's shared pool, or, once its ingress port and class hold more
/// than alpha * (pool - used), to their headroom; from then on all are until the headroom is empty.
/// The peer is paused while the headroom is in use and until the port and class hold no more than
/// `resume_floor`, or `resume_offset` less than the threshold (SONiC's and the HPCC simulator's
/// way).
struct PfcSettings {
  double alpha = 0.125;
  /// Fixed instead: the peer is paused above `xoff` bytes and goes on below `xon`; 0: by alpha.
  uint64_t xoff = 0, xon = 0;
  uint64_t headroom = 0;  ///< bytes for each ingress port and class; beyond it packets are lost
  std::vector<std::pair<Rate, uint64_t>> headroom_by_rate;  ///< instead, for links of these rates
  /// Instead, for each link what may still come after the peer was told to stop: the link's round
  /// trip, a full packet that is just being sent at either end, and the PFC frame.
  bool headroom_by_link = false;
  uint64_t resume_offset = 2496;
  uint64_t resume_floor = 1248;
};

/// Random early marking on the length of an egress queue (rule A6).
struct EcnSettings {
  Rate rate;                    ///< of the links that it holds for; unlimited: all others
  uint64_t kmin = 0, kmax = 0;  ///< bytes
  double pmax = 0;              ///< at kmax; above it every packet is marked
};

struct ClassSettings {
  uint8_t priorities = 0xff;  ///< bit set of those that belong to it
  uint32_t weight = 1;        ///< of its share of a link; 0: strict, before all that have a weight
  std::optional<PfcSettings> pfc;  ///< lossless; without: lossy
  /// Lossy: a queue never grows beyond alpha * (pool - used).
  double egress_alpha = 1;
  std::vector<EcnSettings> ecn;  ///< empty: nothing is marked
};

/// Looks at all queues of switches at whole multiples of `poll`. One that was paused from one look
/// to the next and has packets counts a look; after `polls` of them in a row there is a storm. Then
/// its packets are dropped, or sent in spite of PAUSEs, until it has not been told to pause for
/// `restore`.
struct PfcWatchdog {
  Duration poll = Duration::ms(100);
  uint32_t polls = 2;
  Duration restore = Duration::ms(200);
  bool forward = false;  ///< else they are dropped
};

struct NetworkSettings {
  std::vector<ClassSettings> classes;  ///< every priority in exactly one
  PriorityMap priorities;              ///< of packets that carry a DSCP or a tag
  /// Bytes shared by all ports of a switch, headroom apart; 0: as much as it takes.
  uint64_t buffer = 0;
  bool cut_through = true;  ///< false: a packet is forwarded once it has come in whole
  /// Times that packets take on links are cut to whole multiples of this; zero: exact.
  Duration resolution;
  uint32_t pfc_frame_bytes = 84;      ///< on the wire: 64 and Ethernet's overhead of 20
  uint32_t full_packet_bytes = 4178;  ///< on the wire: what a weight of one sends in its turn
  uint64_t seed = 1;
  bool telemetry = false;  ///< switches write in-band telemetry into packets that ask for it
  /// Routing takes a link out when it has been down for so long, and takes it back when it has been
  /// up for so long. Nothing: routes stay.
  std::optional<Duration> reconverge;
  std::optional<PfcWatchdog> watchdog;  ///< of classes with PFC
};

}  // namespace understudy
