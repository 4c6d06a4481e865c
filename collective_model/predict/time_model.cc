#include "collective_model/predict/time_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "collective_model/nccl/channel_cut.h"
#include "collective_model/nccl/chunking.h"

namespace understudy {
namespace {

constexpr uint64_t kRingWorkers = 512;  ///< threads of a ring's channel that move data

/// Bytes on the wire per byte of data: LL carries 8 of 16, LL128 120 of 128.
double expansion(Protocol p) {
  return p == Protocol::kLL ? 2 : p == Protocol::kLL128 ? 128.0 / 120 : 1;
}

/// Data bytes of a step of the connection's buffer.
uint64_t step_bytes(const OperationShape& shape) {
  constexpr uint64_t kSteps = Chunking::kBufferSteps;
  if (shape.protocol == Protocol::kLL) return shape.ll_buffer / kSteps / 2;
  if (shape.protocol == Protocol::kLL128) return shape.ll128_buffer / kSteps / 16 * 15;
  return shape.buffer / kSteps;
}

/// Simple's threads that move data: one warp synchronises a ring, four a tree.
uint64_t workers(const OperationShape& shape) {
  if (shape.protocol != Protocol::kSimple) return shape.threads;
  const uint64_t idle = shape.algorithm == Algorithm::kTree ? 4 * kWarp : kWarp;
  return std::max<uint64_t>(shape.threads > idle ? shape.threads - idle : 0, kWarp);
}

/// Passes that the busiest warp makes over a slice. Simple: warps take hunks of `unroll` times 512
/// bytes in turn, and what is left in pieces of 512, the first of them the warp whose turn it is.
double rounds(const OperationShape& shape, uint64_t bytes, uint64_t threads) {
  if (bytes == 0) return 0;
  const uint64_t warps = std::max<uint64_t>(threads / kWarp, 1);
  const uint64_t hunk = (shape.gpu == GpuGeneration::kVolta ? 4 : 8) * uint64_t{512};
  const uint64_t hunks = bytes / hunk, pieces = ceil_div(bytes % hunk, 512);
  const uint64_t full = hunks / warps, begun = hunks % warps;
  uint64_t most = full + (begun > 0 ? 1 : 0);
  if (pieces > warps - begun && begun > 0) {
    most = full + 2;  // the last pieces fall to warps that have had their turn
  } else if (pieces > 0) {
    most = full + 1;
  }
  return static_cast<double>(most);
}

/// Costs of one operation's steps, in microseconds.
class Costs {
 public:
  Costs(const OperationShape& shape, const ChunkPlan& cut, const Calibration& calibration,
        const NetworkCost& network)
      : shape_(shape),
        cut_(cut),
        cost_(calibration.of(shape.protocol)),
        tail_(calibration.tail),
        drift_(calibration.drift),
        link_(calibration.link),
        network_(network),
        channels_(static_cast<double>(cut.channels)) {}

  const ChunkPlan& cut() const { return cut_; }

  /// GPU work on one slice by `threads`.
  double work(uint64_t bytes, uint64_t threads) const {
    if (bytes == 0) return 0;
    const double t = cost_.rate > 0 ? static_cast<double>(bytes) / (1000 * cost_.rate) : 0;
    switch (shape_.protocol) {
      case Protocol::kLL:
        return std::max(t, cost_.round);
      case Protocol::kLL128:
        if (cost_.pass <= 0) return std::max(t, cost_.round);
        // Each warp takes a piece of 1,920 bytes in a pass.
        return t + cost_.pass * static_cast<double>(ceil_div(bytes, threads / kWarp * 1920));
      default:
        return t + cost_.round * rounds(shape_, bytes, threads);
    }
  }
  /// Of a message between nodes, when all channels send one.
  double wire(double bytes) const {
    if (network_.rate <= 0) return 0;
    return on_wire(bytes) * channels_ / network_.rate;
  }
  /// When the channels send one after another.
  double wire_alone(double bytes) const {
    return network_.alone_rate > 0 ? on_wire(bytes) / network_.alone_rate : wire(bytes);
  }
  /// And inside a node, until it is there.
  double pass_inside(double bytes) const { return inside_wire(bytes) + inside(); }
  double inside_wire(double bytes) const {
    return network_.inside_rate > 0 ? on_links(bytes) / network_.inside_rate : 0;
  }
  /// From a message's end until the next one may take its place in the buffer.
  double round_trip() const {
    if (!knows_credits()) return 0;
    return between() - network_.latency + network_.farthest + credit();
  }
  double round_trip_inside() const {
    return network_.inside_rate > 0 ? 2 * network_.inside_latency + cost_.latency : 0;
  }
  double inside() const { return cost_.latency + cost_.step + network_.inside_latency; }
  double between() const {
    return cost_.latency + cost_.step + cost_.network_latency + network_.latency;
  }
  double credit() const {
    return knows_credits() ? network_.farthest + network_.credit_wire : network_.latency;
  }
  bool knows_credits() const { return network_.farthest > 0; }
  double tail() const { return tail_; }
  /// What remains of a loop's tail `steps` steps later, when the channels have drifted apart.
  double tail_after(double steps) const { return drift_ > 0 ? std::exp(-steps / drift_) : 1; }
  /// What NVLinks take for `bytes` of a channel's data. Where a hop reads across them, each 128 bytes
  /// are asked for by 16 that travel against the data, where another ring sends its own.
  double on_nvlink(double bytes) const {
    if (link_ <= 0) return 0;
    const double asked = shape_.bridged ? 144.0 / 128 : 1;
    return bytes * expansion(shape_.protocol) * asked / (1000 * link_);
  }
  double step() const { return cost_.step; }
  double pass() const { return follows_passes() ? cost_.pass : cost_.round; }
  /// The next GPU follows a pass behind, not a chunk.
  bool follows_passes() const { return shape_.protocol == Protocol::kLL128 && cost_.pass > 0; }

 private:
  /// Bytes with the protocol's flags.
  double on_links(double bytes) const {
    if (network_.mtu == 0) return bytes * expansion(shape_.protocol);
    return static_cast<double>(wire_bytes(shape_.protocol, static_cast<uint64_t>(bytes)));
  }
  double on_wire(double bytes) const {
    const double sent = on_links(bytes);
    if (network_.mtu == 0) return sent * network_.wire_per_byte + network_.wire_per_message;
    const double packets = std::max(std::ceil(sent / network_.mtu), 1.0);
    const double last = sent - (packets - 1) * network_.mtu + network_.overhead;
    return sent + packets * network_.overhead + std::max(network_.least_packet - last, 0.0) +
           network_.wire_per_message;
  }

  const OperationShape& shape_;
  const ChunkPlan& cut_;
  const ProtocolCost& cost_;
  double tail_, drift_, link_;
  const NetworkCost& network_;
  double channels_;  ///< that share the NICs
};

/// First slice of a chunk: Simple's all-reduce, all-gather and reduce-scatter make two.
uint64_t first_slice(const OperationShape& shape, uint64_t chunk) {
  if (shape.protocol != Protocol::kSimple || is_pipeline(shape.collective)) return chunk;
  const uint64_t least = step_bytes(shape) * 2 / 32;
  const uint64_t half =
      ceil_div(ceil_div(chunk, shape.element), uint64_t{16} * 2) * 16 * shape.element;
  return std::min(chunk, std::max(half, least));
}

/// Messages of a ring of all ranks that a connection's buffer has room for.
double window(const OperationShape& shape) {
  Chunking chunking;
  if (shape.protocol != Protocol::kSimple) chunking.chunk_steps = chunking.slice_steps = 1;
  return chunking.window();
}

struct RingLoop {
  double time = 0;  ///< us without its tail
  double tail = 0;  ///< us while all channels are in step
};

/// One loop of a ring of `steps` steps.
RingLoop ring_loop(const OperationShape& shape, const Costs& costs, uint64_t chunk, double steps) {
  const double n = shape.communicator.ranks, m = shape.communicator.nodes;
  const uint64_t threads = workers(shape);
  const uint64_t s1 = first_slice(shape, chunk), s2 = chunk - s1;
  const bool two = shape.protocol == Protocol::kSimple;
  const auto first = static_cast<double>(s1), second = static_cast<double>(s2);
  const double g1 = costs.work(s1, threads);
  const double g = g1 + costs.work(s2, threads);
  const double inner = costs.inside_wire(first) + (two ? costs.inside_wire(second) : 0);
  const double messages = two ? 2 : 1;
  double hop = (costs.follows_passes() ? costs.pass() : g1) + costs.pass_inside(first);
  double links = std::max(g, n > m ? inner : 0), window_time = 0, last = costs.inside();
  // Messages with the same place in the buffer wait for one another; the longer ones count.
  const double places = messages / window(shape);
  const double longer = std::max(first, second);
  if (n > m) window_time = places * (costs.inside_wire(longer) + costs.round_trip_inside());
  if (m > 1) {
    const double whole = costs.wire(first) + (two ? costs.wire(second) : 0);
    links = std::max(links, whole);
    window_time = std::max(window_time, places * (costs.wire_alone(longer) + costs.round_trip()));
    const double crossing = g1 + costs.wire_alone(first) + costs.between();
    hop = ((n - m) * hop + m * crossing) / n;
    last = ((n - m) * last + m * costs.between()) / n;
  }
  const double nvlink = n > m ? costs.on_nvlink(static_cast<double>(chunk)) : 0;
  links = std::max(links, nvlink);
  const double step = std::max({links, window_time, hop, std::max(g, nvlink) + costs.step()});
  return {(steps - 1) * step + links + last, costs.tail() * std::max(g - nvlink, 0.0)};
}

/// Until the first credits have come, which ranks have to wait for that are nearer to a connection
/// between nodes than these.
double first_credits(const OperationShape& shape, const Costs& costs) {
  const CommunicatorSize& c = shape.communicator;
  if (c.nodes < 2 || !costs.knows_credits()) return 0;
  const ChunkPlan& cut = costs.cut();
  const uint64_t chunk = cut.loops > 0 ? cut.chunk : cut.last;
  const double hop = costs.pass_inside(static_cast<double>(first_slice(shape, chunk)));
  double sum = 0;
  for (uint32_t place = 0; place < c.gpus_per_node(); ++place) {
    sum += std::max(0.0, costs.credit() - place * hop);
  }
  return sum / c.gpus_per_node();
}

double ring_time(const OperationShape& shape, const Costs& costs) {
  const double n = shape.communicator.ranks;
  const ChunkPlan& cut = costs.cut();
  const double steps = shape.collective == Collective::kAllReduce ? 2 * (n - 1) : n - 1;
  double t = first_credits(shape, costs);
  const auto loops = static_cast<double>(cut.loops);
  if (cut.loops > 0) {
    const RingLoop loop = ring_loop(shape, costs, cut.chunk, steps);
    const double kept = costs.tail_after(steps);
    const double tails = kept < 1 ? (1 - std::pow(kept, loops)) / (1 - kept) : loops;
    t += loops * loop.time + tails * loop.tail;
  }
  if (cut.last > 0) {
    const RingLoop loop = ring_loop(shape, costs, cut.last, steps);
    t += loop.time + costs.tail_after(loops * steps) * loop.tail;
  }
  return t;
}

/// Messages that the busiest node's NICs send for two chunks, one of each tree.
double tree_sends(uint32_t nodes) { return nodes <= 1 ? 0 : nodes == 2 ? 2 : nodes == 3 ? 3 : 4; }

double tree_time(const OperationShape& shape, const Costs& costs) {
  const CommunicatorSize& c = shape.communicator;
  const ChunkPlan& cut = costs.cut();
  // Half of the threads send up, half down, at the same time.
  const uint64_t threads = std::max<uint64_t>(workers(shape) / 2, kWarp);
  const uint64_t chunk = cut.loops > 0 ? cut.chunk : cut.last;
  const double g = costs.work(chunk, threads);
  const double both = 2 * costs.work(chunk, workers(shape));
  const double inside = 2.0 * (c.gpus_per_node() - 1);
  const double depth = std::bit_width(c.nodes - 1);  // of nodes: 0 for one
  const double w = c.nodes > 1 ? costs.wire(static_cast<double>(chunk)) : 0;
  const double chunks = static_cast<double>(cut.part) / static_cast<double>(chunk);
  const double others = std::max(chunks - 1, 0.0);  // behind the first one
  // Simple passes a chunk on when it has all of it, LL and LL128 line by line.
  const bool lines = shape.protocol != Protocol::kSimple;
  const double pass = lines ? costs.pass() : g;
  // On the way up and down each level but the root's has two chunks, of half of the channels, on
  // one link: two children send to their parent at once.
  const double levels = 2 * (c.nodes > 1 ? 2 * depth - 1 : 0);
  const double first = levels * w / std::min<double>(2, static_cast<double>(cut.channels));
  return inside * (pass + costs.inside()) + 2 * depth * (pass + costs.between()) + first +
         std::max((lines ? chunks : others) * both, others * tree_sends(c.nodes) / 2 * w) +
         costs.tail() * pass;
}

/// Broadcast and reduce: chunks follow one another around the ring.
double pipeline_time(const OperationShape& shape, const Costs& costs) {
  const CommunicatorSize& c = shape.communicator;
  const ChunkPlan& cut = costs.cut();
  const uint64_t chunk = cut.loops > 0 ? cut.chunk : cut.last;
  const double g = costs.work(chunk, workers(shape));
  const double w = c.nodes > 1 ? costs.wire(static_cast<double>(chunk)) : 0;
  const double crossings = c.nodes - 1, hops = c.ranks - 1;
  const double chunks = static_cast<double>(cut.part) / static_cast<double>(chunk);
  return (hops - crossings) * (g + costs.inside()) + crossings * (g + w + costs.between()) +
         std::max(chunks - 1, 0.0) * std::max(g, w) + costs.tail() * g;
}

/// log2(n) rounds of latency; every part but the own one is sent once.
double pat_time(const OperationShape& shape, const Costs& costs) {
  const double n = shape.communicator.ranks;
  const double part = static_cast<double>(costs.cut().part);
  const double work = costs.work(static_cast<uint64_t>(part), workers(shape));
  const double rounds_of_latency =
      static_cast<double>(std::bit_width(shape.communicator.ranks - 1));
  return rounds_of_latency * costs.between() + (n - 1) * std::max(work, costs.wire(part));
}

/// NVLS and CollNet direct: each loop's chunks go to the heads, between nodes, and back.
double heads_time(const OperationShape& shape, const Costs& costs) {
  const ChunkPlan& cut = costs.cut();
  const CommunicatorSize& c = shape.communicator;
  const uint64_t chunk = cut.loops > 0 ? cut.chunk : cut.last;
  const double heads = shape.heads, bytes = static_cast<double>(chunk);
  const double loops = static_cast<double>(cut.part) / (static_cast<double>(chunk) * heads);
  double work = costs.work(chunk, workers(shape)) * head_shares(shape);
  if (is_nvls(shape.algorithm)) {
    // The switches reduce: what a channel's threads can do is no bound, the GPU's link is.
    const double all = std::max(shape.link_channels, shape.channels);
    work = costs.work(chunk, kRingWorkers) * head_shares(shape) / nvls_efficiency(shape.gpu) *
           static_cast<double>(cut.channels) / all;
  }
  const double step = std::max(work, costs.inside_wire(bytes));
  double between = 0, latency = 2 * costs.inside() + 2 * step;
  if (c.nodes > 1) {
    const double sent = costs.wire(bytes) * heads;  // by all heads of a node
    const bool tree = shape.algorithm == Algorithm::kNvlsTree;
    const double hops = tree ? 2.0 * std::bit_width(c.nodes - 1) : 2;
    between = tree ? sent * tree_sends(c.nodes) / 2 : sent;
    latency += hops * (sent + costs.between());
  }
  return latency + std::max(loops - 1, 0.0) * std::max(step, between) + costs.tail() * work;
}

/// CollNet's chain: along a node's GPUs, to the network's switches, and back.
double chain_time(const OperationShape& shape, const Costs& costs) {
  const ChunkPlan& cut = costs.cut();
  const uint64_t chunk = cut.loops > 0 ? cut.chunk : cut.last;
  const double work = costs.work(chunk, workers(shape));
  const double bytes = static_cast<double>(chunk), wire = costs.wire(bytes);
  const double hops = 2.0 * (shape.communicator.gpus_per_node() - 1);
  const double chunks = static_cast<double>(cut.part) / bytes;
  const double inside = work + costs.pass_inside(bytes);
  return hops * inside + 2 * (wire + costs.between()) +
         std::max(chunks - 1, 0.0) * std::max({2 * work, wire, costs.inside_wire(bytes)}) +
         costs.tail() * work;
}

double point_to_point_time(const OperationShape& shape, const Costs& costs) {
  const CommunicatorSize& c = shape.communicator;
  const double n = c.ranks, size = static_cast<double>(shape.bytes);
  const double own = shape.collective == Collective::kSendRecv ? size : size * (n - 1) / n;
  const auto per_channel = static_cast<uint64_t>(own / shape.channels);
  const double work = costs.work(per_channel, workers(shape));
  const double wire = bytes_between_nodes(shape) / expansion(shape.protocol) / shape.channels;
  // Between nodes the first message waits for its credit, which crosses the network before.
  double latency = c.nodes > 1 ? costs.credit() + costs.between() : costs.inside();
  if (c.nodes > 1 && shape.pxn) latency += costs.inside();
  return latency + std::max(work, costs.wire(wire));
}

/// By the constants that all numbers of GPUs share.
double common_time(const OperationShape& shape, const ChunkPlan& cut,
                   const Calibration& calibration, const NetworkCost& network) {
  if (shape.bytes == 0 || shape.communicator.ranks < 2) return calibration.launch;
  const Costs costs(shape, cut, calibration, network);
  double t = calibration.launch;
  if (function_name(shape.collective).empty()) {
    t += point_to_point_time(shape, costs);
  } else if (shape.algorithm == Algorithm::kTree) {
    t += tree_time(shape, costs);
  } else if (shape.algorithm == Algorithm::kCollnetChain) {
    t += chain_time(shape, costs);
  } else if (is_nvls(shape.algorithm) || is_collnet(shape.algorithm)) {
    t += heads_time(shape, costs);
  } else if (shape.algorithm == Algorithm::kPat) {
    t += pat_time(shape, costs);
  } else if (is_pipeline(shape.collective)) {
    t += pipeline_time(shape, costs);
  } else {
    t += ring_time(shape, costs);
  }
  return t;
}

bool belongs(const OwnCost& own, const OperationShape& shape) {
  return own.ranks == shape.communicator.ranks && shape.communicator.nodes == 1 &&
         own.collective == shape.collective && own.algorithm == shape.algorithm &&
         own.protocol == shape.protocol && own.version == shape.version && own.gpu == shape.gpu &&
         own.from <= shape.bytes;
}

const OwnCost* own_cost(const OperationShape& shape, const Calibration& calibration) {
  const auto own = std::ranges::find_if(calibration.own,
                                        [&](const OwnCost& cost) { return belongs(cost, shape); });
  return own == calibration.own.end() ? nullptr : &*own;
}

}  // namespace

ChunkPlan cut_chunks(const OperationShape& shape) {
  const CommunicatorSize& c = shape.communicator;
  Communicator communicator;
  communicator.nodes = c.nodes;
  communicator.gpus = c.gpus_per_node();
  communicator.nics = shape.heads;
  communicator.channels = shape.channels;
  communicator.version = shape.version;
  communicator.buffers.simple = shape.buffer;
  communicator.buffers.ll = shape.ll_buffer;
  communicator.buffers.ll128 = shape.ll128_buffer;
  Operation operation;
  operation.collective = shape.collective;
  operation.algorithm = shape.algorithm;
  operation.protocol = shape.protocol;
  operation.type = DataType::kInt8;  // bytes
  operation.threads = shape.threads;
  // Of one rank's part where every rank has its own.
  const bool parts = has_rank_parts(shape.collective);
  operation.count = parts ? ceil_div(shape.bytes, c.ranks) : shape.bytes;

  ChunkPlan plan;
  const bool strided = cut_rule(shape.version) == CutRule::kStrided;
  plan.part = strided ? ceil_div(operation.count, shape.channels) : operation.count;
  plan.channels = strided ? shape.channels : 1;
  if (!strided) {
    if (const auto cut = cut_group(communicator, {&operation, 1}); cut && !cut->empty()) {
      plan.part = 0;
      for (const ChannelPart& part : cut->front().parts)
        plan.part = std::max(plan.part, part.bytes);
      plan.channels = std::max<uint64_t>(cut->front().parts.size(), 1);
    }
  }
  // What the chunk is tuned to: since 2.22 the channel's part, before the operation.
  const bool cells = cut_rule(shape.version) == CutRule::kCells;
  const uint64_t tuned = cells ? plan.part * (parts ? c.ranks : 1) : shape.bytes;
  plan.chunk = chunking_of(communicator, operation, tuned, cells ? 1 : shape.channels).chunk_bytes;
  // Each loop of a ring's all-reduce has a chunk of every rank.
  const bool all =
      shape.algorithm == Algorithm::kRing && shape.collective == Collective::kAllReduce;
  const bool heads = is_nvls(shape.algorithm) || shape.algorithm == Algorithm::kCollnetDirect;
  const uint64_t ways = all ? c.ranks : heads ? communicator.heads() : 1;
  plan.loops = plan.part / (plan.chunk * ways);
  const uint64_t rest = plan.part - plan.loops * plan.chunk * ways;
  if (rest == 0) return plan;
  // Strided loops have chunks of whole passes of Simple's threads. So have those of LL and LL128,
  // but as many steps as that lengthens are left without data.
  const bool passes = strided && shape.protocol == Protocol::kSimple;
  const uint64_t grain = passes ? workers(shape) * 8 : 16;
  plan.last = std::min(round_up(ceil_div(rest, ways), grain), std::max(plan.chunk, grain));
  return plan;
}

double operation_time(const OperationShape& shape, const Calibration& calibration,
                      const NetworkCost& network) {
  return operation_time(shape, cut_chunks(shape), calibration, network);
}

double operation_time(const OperationShape& shape, const ChunkPlan& cut,
                      const Calibration& calibration, const NetworkCost& network) {
  const double t = common_time(shape, cut, calibration, network);
  const OwnCost* own = own_cost(shape, calibration);
  return own == nullptr ? t : std::max(own->scale * t + own->offset, 0.0);
}

double head_shares(const OperationShape& shape) {
  return is_nvls(shape.algorithm)
             ? shape.heads + 1.0
             : (shape.communicator.gpus_per_node() - 1.0) + (shape.heads - 1.0);
}

double bytes_between_nodes(const OperationShape& shape) {
  const CommunicatorSize& c = shape.communicator;
  if (c.nodes < 2) return 0;
  const double n = c.ranks, m = c.nodes, ppn = c.gpus_per_node();
  const double size = static_cast<double>(shape.bytes) * expansion(shape.protocol);
  switch (shape.collective) {
    case Collective::kAllReduce:
      if (is_collnet(shape.algorithm)) return size;  // the network reduces
      if (shape.algorithm == Algorithm::kTree || shape.algorithm == Algorithm::kNvlsTree) {
        return size * tree_sends(c.nodes) / 2;
      }
      return size * 2 * (n - 1) / n;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return size * (n - 1) / n;
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kSendRecv:
      return size;
    case Collective::kGather:
    case Collective::kScatter:
      return size * (n - ppn) / n;
    case Collective::kAllToAll:
    case Collective::kAllToAllV:
      return size * ppn * (m - 1) / m;
  }
  return 0;
}

double bus_factor(Collective collective, uint32_t ranks) {
  const double n = ranks;
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * (n - 1) / n;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
    case Collective::kAllToAllV:
    case Collective::kGather:
    case Collective::kScatter:
      return (n - 1) / n;
    default:
      return 1;
  }
}

}  // namespace understudy
