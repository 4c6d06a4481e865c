// How long an operation takes, in closed form: any size and number of ranks in constant time.
//
// A ring moves chunks of c bytes in J steps a loop. Each step costs a GPU the work of its slices,
//   g(s) = round * rounds(s) + s / rate
// where all threads of a channel pass over the slice in rounds (what is left over takes a round of
// its own), and the next GPU sees it a latency later. Between nodes a chunk takes its time on the
// wire besides, w(c). Steps of different slices overlap, so a loop takes
//   (J - 1) * max(g of all slices, w(c), mean over the ring's hops of g(s1) + w(s1) + latency)
//   + max(g of all slices, w(c)) + latency + tail * g
// Later loops have less of a tail: exp(-steps / drift) of it, as the channels drift apart and fill
// each other's pauses.
// A calibration may also have what each step costs besides, and what NVLinks let through of a
// channel, l(c): then g is max(g, l(c)) + step, and only what of g exceeds l(c) has a tail.
// Without GPU costs and with one GPU per node this is the closed form of the exact ring. A
// connection's buffer has room for W messages (chunking.h), whose credits come back when they are
// used. So a step takes no less than the messages of a chunk times (w + latency + credit) / W: what
// bounds rings with several GPUs in a node, whose hops inside it are short.
// A tree passes chunks up and down: its depth once, and then a chunk per period of the busiest end.
// NVLS and CollNet pass a loop's chunks, one of each head, to the heads and back: a loop per period of
// the GPU's link or of the node's NICs, and their latencies once.
// Collectives of point-to-point messages are bound by the busiest NIC or GPU.
#pragma once

#include <cstdint>
#include <optional>

#include "collective_model/nccl/operation.h"
#include "collective_model/predict/calibration.h"
#include "collective_model/tuner/tuning.h"

namespace understudy {

/// One operation and how NCCL carries it out.
struct OperationShape {
  Collective collective = Collective::kAllReduce;
  Algorithm algorithm = Algorithm::kRing;
  Protocol protocol = Protocol::kSimple;
  CommunicatorSize communicator;
  uint64_t bytes = 0;  ///< as nccl-tests count them: of the larger of both buffers
  uint32_t element = 4;
  uint32_t channels = 1, threads = 544;
  NcclVersion version;
  GpuGeneration gpu = GpuGeneration::kAmpere;
  uint32_t heads = 1;  ///< of a node, that NVLS or CollNet direct reduces by
  bool pxn = false;    ///< messages between nodes are copied inside the sender's node first
  /// NVLS: those of a ring, which together move what a GPU's link does. 0: `channels`.
  uint32_t link_channels = 0;
  bool bridged = false;  ///< some of the ring's hops read across NVLinks (NcclGraph)
  uint32_t buffer = 4u << 20, ll_buffer = 512u << 10, ll128_buffer = 4'915'200;
};

/// The network between the nodes, for this operation.
struct NetworkCost {
  double rate = 0;           ///< bytes per us of one node's NICs together, each way; 0: unlimited
  double latency = 0;        ///< us one way, of a ring the mean of its connections between nodes
  double wire_per_byte = 1;  ///< bytes on the wire per byte of a full message
  /// Bytes that each message takes of its links besides: its own headers, the acknowledgement and
  /// credit of another.
  double wire_per_message = 0;
  /// Payload and headers of a packet: a message takes whole packets. 0: wire_per_byte says it all.
  uint32_t mtu = 0, overhead = 0;
  double least_packet = 0;  ///< bytes on the wire that any packet takes at least, with an mtu
  /// us one way, of the farthest pair of neighbours, and what a credit takes on its links. With them
  /// a connection has no more messages under way than its buffer has room for, and the first ones
  /// wait for their credits. 0: credits are always there.
  double farthest = 0, credit_wire = 0;
  /// Bytes per us of a connection while no other one of its links sends. Channels that are held up
  /// by something else than the links send one after another. 0: as if all sent.
  double alone_rate = 0;
  /// Ways inside nodes, where no calibration has measured them: bytes per us of one connection when
  /// all send (0: no time), us one way.
  double inside_rate = 0, inside_latency = 0;
};

/// How a channel's part is cut: `loops` loops of `chunk` bytes and one of `last` (0: none).
struct ChunkPlan {
  uint64_t part = 0;      ///< bytes of the largest channel's part
  uint64_t channels = 1;  ///< that have a part
  uint64_t loops = 0, chunk = 0, last = 0;
};
/// By the version's rule (channel_cut.h, chunking.h).
ChunkPlan cut_chunks(const OperationShape& shape);

/// Microseconds.
double operation_time(const OperationShape& shape, const Calibration& calibration,
                      const NetworkCost& network);

/// The same of an operation whose cut is known.
double operation_time(const OperationShape& shape, const ChunkPlan& cut,
                      const Calibration& calibration, const NetworkCost& network);

/// NVLS and CollNet direct: shares of a head's link, of a chunk each, that a loop takes in each
/// direction. Through the node's switch its own data, and its result once; else data to the other
/// heads, and its result to each other GPU.
double head_shares(const OperationShape& shape);

/// Bytes that the busiest node sends to others, protocol's flags included, headers not.
double bytes_between_nodes(const OperationShape& shape);

/// nccl-tests' factor from algorithm to bus bandwidth.
double bus_factor(Collective collective, uint32_t ranks);

}  // namespace understudy
