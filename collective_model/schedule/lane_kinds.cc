// Which kinds there are on a channel of a communicator.
#include <algorithm>
#include <memory>

#include "collective_model/nccl/pat_pattern.h"
#include "collective_model/schedule/lane.h"
#include "collective_model/schedule/lane_kind.h"

namespace understudy {
namespace {

constexpr uint64_t kTailAlign = 16;
constexpr DataType kTypes[] = {DataType::kInt8, DataType::kFloat16, DataType::kFloat32,
                               DataType::kFloat64};

/// Chunks that a channel takes in a loop.
uint32_t chunks_per_loop(const Communicator& communicator, const Operation& operation) {
  const bool cut =
      operation.collective == Collective::kAllReduce && operation.algorithm == Algorithm::kRing;
  return cut ? communicator.ranks() : 1;
}

/// One border: kinds of a channel, and what their connections are called.
class Catalogue {
 public:
  Catalogue(const Communicator& communicator, std::span<const uint32_t> real, uint32_t channel)
      : communicator_(communicator), real_(real), channel_(channel) {}

  /// Calls visit(operation, chunking per size, ...) for every shape of an operation.
  template <typename Visit>
  void each_operation(Visit visit) const {
    for (const Collective collective :
         {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
          Collective::kBroadcast, Collective::kReduce}) {
      for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kTree, Algorithm::kPat}) {
        for (const Protocol protocol : {Protocol::kSimple, Protocol::kLL, Protocol::kLL128}) {
          Operation o;
          o.collective = collective;
          o.algorithm = algorithm;
          o.protocol = protocol;
          o.count = 1;
          if (is_pipeline(collective) && algorithm != Algorithm::kRing) continue;
          if (!check_operation(communicator_, o)) continue;
          for (const uint32_t root : roots(collective)) {
            o.root = root;
            visit(o);
          }
        }
      }
    }
  }

  /// The part of a real rank on this channel, for a size of that many bytes.
  std::unique_ptr<RankSchedule> schedule(const Operation& operation, uint64_t bytes,
                                         uint32_t rank) const {
    Operation o = operation;
    o.count = bytes / element_bytes(o.type);
    return rank_schedule(communicator_, o, {channel_, {{0, o.bytes()}}}, rank);
  }
  bool is_real(uint32_t rank) const { return std::ranges::find(real_, rank) != real_.end(); }
  bool crosses(const Connection& c) const {
    return c.network && !is_real(c.direction == Direction::kSend ? c.to : c.from);
  }
  BorderConnection border(const Connection& c) const {
    return {c.channel, c.from, c.to, c.direction == Direction::kReceive};
  }

  /// Ranks that are as good a root: all real ranks receive and send as with `root`.
  std::vector<uint32_t> like(Collective collective, uint32_t root) const {
    const uint32_t n = communicator_.ranks();
    const auto ends = [&](uint32_t r) {
      std::vector<uint32_t> at;
      const uint32_t x = communicator_.ring_position(channel_, r);
      const uint32_t first = collective == Collective::kBroadcast ? x : (x + 1) % n;
      for (const uint32_t rank : real_) {
        const uint32_t place = (communicator_.ring_position(channel_, rank) + n - first) % n;
        at.push_back(place == 0 ? 0 : place + 1 == n ? 2 : 1);
      }
      return at;
    };
    std::vector<uint32_t> found;
    for (uint32_t r = 0; r < n; ++r) {
      if (ends(r) == ends(root)) found.push_back(r);
    }
    return found;
  }

 private:
  /// One root of each place that real ranks may have in a pipeline: its ends and between.
  std::vector<uint32_t> roots(Collective collective) const {
    if (!is_pipeline(collective)) return {0};
    std::vector<uint32_t> found;
    const uint32_t n = communicator_.ranks();
    for (const uint32_t rank : real_) {
      const uint32_t x = communicator_.ring_position(channel_, rank);
      for (const uint32_t at : {x, x + 1, x + 2, x + n - 1}) {
        const uint32_t root = communicator_.ring_rank(channel_, at % n);
        if (std::ranges::find(found, root) == found.end()) found.push_back(root);
      }
    }
    return found;
  }

  const Communicator& communicator_;
  std::span<const uint32_t> real_;
  uint32_t channel_;
};

/// Splits [1, kMostOperationBytes] where key(size) changes. Between two sizes with equal keys all
/// are equal.
template <typename Key>
std::vector<SizeSet::Interval> segments(Key key) {
  std::vector<SizeSet::Interval> all;
  for (uint64_t least = 1; least <= kMostOperationBytes;) {
    const auto value = key(least);
    uint64_t most = least, beyond = kMostOperationBytes + 1;
    while (beyond - most > 1) {
      const uint64_t middle = most + (beyond - most) / 2;
      (key(middle) == value ? most : beyond) = middle;
    }
    all.push_back({least, most == kMostOperationBytes ? SizeSet::kUnbounded : most});
    least = beyond;
  }
  return all;
}

std::vector<uint32_t> thread_counts(CutRule rule, const Operation& operation) {
  if (rule == CutRule::kCells || operation.algorithm == Algorithm::kTree) return {0};
  if (rule == CutRule::kEven && operation.protocol == Protocol::kSimple) return {0};
  const uint32_t most = threads_of(operation);
  return {most, most / 2, most / 4, most / 8};
}

}  // namespace

std::vector<BorderConnection> border_connections(const Communicator& communicator,
                                                 std::span<const uint32_t> real) {
  std::vector<BorderConnection> all;
  for (uint32_t channel = 0; channel < communicator.channels; ++channel) {
    const Catalogue catalogue(communicator, real, channel);
    catalogue.each_operation([&](const Operation& operation) {
      if (operation.protocol != Protocol::kSimple) return;
      for (const uint32_t rank : real) {
        const auto schedule = catalogue.schedule(operation, 1 << 30, rank);
        for (const Connection& c : schedule->connections()) {
          if (!catalogue.crosses(c)) continue;
          const BorderConnection border = catalogue.border(c);
          if (std::ranges::find(all, border) == all.end()) all.push_back(border);
        }
      }
    });
  }
  return all;
}

std::vector<LaneKind> lane_kinds(const Communicator& communicator, std::span<const uint32_t> real,
                                 std::span<const BorderConnection> connections, uint32_t channel) {
  const Catalogue catalogue(communicator, real, channel);
  const CutRule rule = cut_rule(communicator.version);
  std::vector<LaneKind> kinds;
  const auto add = [&](const Operation& operation, uint32_t channels, SizeSet::Interval sizes,
                       uint32_t type_bits) {
    const uint64_t largest = std::min(sizes.most, kMostOperationBytes);
    LaneKind kind;
    kind.collective = operation.collective;
    kind.algorithm = operation.algorithm;
    if (is_pipeline(operation.collective)) {
      kind.roots = catalogue.like(operation.collective, operation.root);
    }
    kind.ranks = communicator.ranks();
    const uint64_t parts = has_rank_parts(operation.collective) ? kind.ranks : 1;
    kind.chunking = chunking_of(communicator, operation, largest * parts, channels);
    kind.element = kind.chunking.slices() == 1 ? 1 : operation.element();
    const uint32_t chunks = chunks_per_loop(communicator, operation);
    kind.places = chunks;
    kind.sizes =
        rule == CutRule::kEven ? SizeSet(1, SizeSet::kUnbounded) : SizeSet(sizes.least, sizes.most);
    if (rule == CutRule::kStrided) {
      const bool by_chunk = operation.protocol != Protocol::kSimple;
      kind.channels = channels;
      kind.places = chunks * channels;
      kind.first_place = by_chunk ? channel : channel * chunks;
      kind.place_step = by_chunk ? channels : 1;
      kind.align = stride_round(operation);
      kind.once = operation.algorithm == Algorithm::kTree;
    } else if (chunks > 1) {
      kind.align = rule == CutRule::kEven ? even_alignment(operation) : kTailAlign;
    }
    kind.loop_bytes = uint64_t{kind.places} * kind.chunking.chunk_bytes;
    std::optional<PatPattern> pattern;
    if (kind.algorithm == Algorithm::kPat) {
      pattern.emplace(kind.collective == Collective::kAllGather, kind.ranks, largest,
                      kind.chunking.chunk_bytes, communicator.version >= kPatGapsSince);
    }
    for (const uint32_t rank : real) {
      const auto schedule = catalogue.schedule(operation, std::max<uint64_t>(largest, 64), rank);
      const std::vector<Connection>& own = schedule->connections();
      for (uint32_t c = 0; c < own.size(); ++c) {
        if (!catalogue.crosses(own[c])) continue;
        LaneKind::Way way;
        const auto at = std::ranges::find(connections, catalogue.border(own[c]));
        way.connection = static_cast<uint32_t>(at - connections.begin());
        way.receives = own[c].direction == Direction::kReceive;
        way.ring_position = communicator.ring_position(channel, own[c].from);
        way.per_loop = kind.chunking.slices();
        if (pattern) {
          // Connections of distance 2^d stand at 2d and 2d + 1.
          for (const PatPattern::Group& g : pattern->messages(c / 2))
            way.pieces.push_back(g.pieces);
          way.per_loop = way.pieces.size();
        } else if (kind.algorithm == Algorithm::kRing && !is_pipeline(kind.collective)) {
          const uint32_t rounds = kind.collective == Collective::kAllReduce ? 2 : 1;
          way.per_loop *= uint64_t{rounds} * (kind.ranks - 1);
        }
        if (way.receives && !pattern) {
          for (const Wait& wait : schedule->waits(c, 0)) {
            way.credits_lead |= wait.moment == Wait::Moment::kDone &&
                                own[wait.connection].direction == Direction::kSend &&
                                catalogue.crosses(own[wait.connection]);
          }
        }
        if (way.per_loop != 0) kind.ways.push_back(std::move(way));
      }
    }
    if (kind.ways.empty()) return;
    const auto same = std::ranges::find_if(
        kinds, [&](const LaneKind& other) { return kind.same_geometry(other); });
    if (same == kinds.end()) {
      kind.elements = type_bits;
      kinds.push_back(std::move(kind));
    } else {
      same->elements |= type_bits;
    }
  };
  catalogue.each_operation([&](Operation operation) {
    for (const DataType type : kTypes) {
      operation.type = type;
      operation.threads = 0;
      const uint32_t bit = element_bytes(type);  // sizes of elements are their own bits
      for (const uint32_t threads : thread_counts(rule, operation)) {
        operation.threads = threads;
        const uint32_t first = rule == CutRule::kCells ? 1 : channel + 1;
        const uint32_t last = rule == CutRule::kCells ? 1 : communicator.channels;
        for (uint32_t channels = first; channels <= last; ++channels) {
          const uint64_t parts = has_rank_parts(operation.collective) ? communicator.ranks() : 1;
          const auto key = [&](uint64_t size) {
            const uint32_t chunk =
                chunking_of(communicator, operation, size * parts, channels).chunk_bytes;
            uint32_t trees = 1;
            if (operation.algorithm == Algorithm::kPat) {
              while (trees < communicator.ranks() / 2 && chunk / (size * trees) >= 2) trees *= 2;
            }
            return std::pair(chunk, trees);
          };
          for (const SizeSet::Interval& sizes : segments(key)) add(operation, channels, sizes, bit);
        }
      }
    }
  });
  return kinds;
}

}  // namespace understudy
