// What may run on one channel of a communicator, as the connections between real ranks and emulated
// ones show it: a kind of operation (collective, algorithm, protocol, size of an element) whose
// size is not known, and which sizes an observed message leaves.
//
// The size of a kind is what its channel's chunks are cut from: since 2.20 the bytes of the
// channel's part (of what one rank contributes, where every rank has a part), before that those of
// the whole buffer.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collective_model/nccl/chunking.h"
#include "collective_model/nccl/communicator.h"
#include "collective_model/nccl/operation.h"
#include "collective_model/schedule/schedule.h"
#include "collective_model/schedule/size_set.h"

namespace understudy {

/// A type of that many bytes: 1, 2, 4 or 8.
constexpr DataType type_of_bytes(uint32_t bytes) {
  return bytes == 1   ? DataType::kInt8
         : bytes == 2 ? DataType::kFloat16
         : bytes == 4 ? DataType::kFloat32
                      : DataType::kFloat64;
}

/// A network connection of collectives between a real rank and an emulated one.
struct BorderConnection {
  uint32_t channel = 0;
  uint32_t from = 0, to = 0;  ///< ranks
  bool to_real = false;       ///< the receiver is the real one
  constexpr bool operator==(const BorderConnection&) const = default;
};

class LaneKind {
 public:
  /// How a kind uses one connection.
  struct Way {
    uint32_t connection = 0;  ///< position in the list of all
    uint64_t per_loop = 1;    ///< messages
    bool receives = false;    ///< the real rank
    /// A credit is granted together with an earlier message of a real rank, so that those of an
    /// operation run ahead of what real ranks send.
    bool credits_lead = false;
    uint32_t ring_position = 0;         ///< of the sender
    std::vector<uint32_t> pieces = {};  ///< PAT: chunks in each message of a loop
    constexpr bool operator==(const Way&) const = default;
  };

  Collective collective = Collective::kAllReduce;
  Algorithm algorithm = Algorithm::kRing;
  Chunking chunking;
  uint32_t element = 1;              ///< bytes, as slices are cut by
  std::vector<uint32_t> roots = {};  ///< ranks that look alike as roots; empty: it has none
  uint32_t ranks = 2;
  uint32_t channels = 1;  ///< that the size is of: before 2.20 all of the operation's
  uint32_t places = 1;    ///< chunks of a loop over all ranks and channels that share the size
  uint32_t first_place = 0, place_step = 1;  ///< of this channel's chunk k: first + k * step
  uint64_t align = 0;       ///< the last loop's chunks are cut again in whole ones; 0: they are not
  bool once = false;        ///< only in an operation of one loop, and without limit
  uint64_t loop_bytes = 0;  ///< of all places
  SizeSet sizes;            ///< that this kind exists for
  std::vector<Way> ways;
  uint32_t elements = 0;  ///< sum of the sizes of elements (1, 2, 4, 8) that look alike

  Protocol protocol() const { return chunking.protocol; }
  const Way* way(uint32_t connection) const {
    for (const Way& w : ways) {
      if (w.connection == connection) return &w;
    }
    return nullptr;
  }
  /// A real rank sends, and one receives.
  bool both_ways() const {
    bool sends = false, receives = false;
    for (const Way& w : ways) (w.receives ? receives : sends) = true;
    return sends && receives;
  }
  /// Inside an operation credits of real ranks run ahead of what they send: where it has gone as
  /// far on all ways, it has ended.
  bool credits_lead() const {
    bool receives = false, lead = true;
    for (const Way& w : ways) {
      receives |= w.receives;
      lead &= !w.receives || w.credits_lead;
    }
    return receives && lead;
  }
  /// Looks the same on the wire, whatever its size is.
  bool same_geometry(const LaneKind& other) const;

  /// Bytes on the wire of message `k` of a way for a size; nothing if it has not as many.
  std::optional<uint32_t> wire(const Way& way, uint64_t k, uint64_t size) const;
  /// The same if it is the same for all these sizes that have that message.
  std::optional<uint32_t> wire(const Way& way, uint64_t k, const SizeSet& sizes) const;
  /// Messages on a way for a size.
  uint64_t messages(const Way& way, uint64_t size) const {
    return ceil_div(size, loop_bytes) * way.per_loop;
  }

  /// Sizes for which a way has a message `k`.
  SizeSet with_message(const Way& way, uint64_t k) const {
    return {k / way.per_loop * loop_bytes + 1, SizeSet::kUnbounded};
  }
  /// Sizes for which a way has exactly `count` messages.
  SizeSet with_messages(const Way& way, uint64_t count) const {
    if (count == 0 || count % way.per_loop != 0) return {};
    const uint64_t loops = count / way.per_loop;
    return {(loops - 1) * loop_bytes + 1, loops * loop_bytes};
  }
  /// Sizes for which credits of a way offer `capacity` bytes.
  SizeSet with_capacity(uint32_t capacity) const;
  /// Sizes for which message `k` of a way takes `wire` bytes, `before` being those of the one
  /// before it on the same way.
  SizeSet with_wire(const Way& way, uint64_t k, uint32_t wire, uint32_t before) const;

 private:
  uint64_t cut(uint64_t size, uint64_t loop) const;
  uint32_t chunk_bytes(uint64_t size, uint64_t loop, uint32_t place) const;
  SizeSet with_chunk(uint64_t loop, uint32_t place, uint64_t least, uint64_t most) const;
  uint32_t place(const Way& way, uint64_t k) const;
};

/// Connections of collectives between real ranks and emulated ones, of all channels.
std::vector<BorderConnection> border_connections(const Communicator& communicator,
                                                 std::span<const uint32_t> real);

/// All kinds on `channel`. `connections`: of border_connections().
std::vector<LaneKind> lane_kinds(const Communicator& communicator, std::span<const uint32_t> real,
                                 std::span<const BorderConnection> connections, uint32_t channel);

}  // namespace understudy
