#include "collective_model/schedule/lane.h"

#include <algorithm>

namespace understudy {
namespace {

constexpr uint64_t kCellTailAlign = 16;
constexpr uint32_t kNvlsTailAlign = 16384;
constexpr uint32_t kTreeThreads = 640;      // trees always use all threads
constexpr uint64_t kLL128ThreadBytes = 60;  // that a thread moves at once

}  // namespace

// Source: collectives/device/*.h.
uint64_t stride_round(const Operation& operation) {
  const uint32_t element = element_bytes(operation.type);
  const bool tree = operation.algorithm == Algorithm::kTree;
  const uint64_t threads = tree ? kTreeThreads : threads_of(operation);
  switch (operation.protocol) {
    case Protocol::kLL:
      return threads * 8;
    case Protocol::kLL128: {
      const uint64_t elements = threads * (kLL128ThreadBytes / element);
      if (tree) return elements / 8 * element;
      return (is_pipeline(operation.collective) ? elements : elements / 2) * element;
    }
    default:
      return tree ? (threads - 2 * kWarp) * 8 * (8 / element) * element : threads * 8;
  }
}

Lane make_lane(const Communicator& communicator, const Operation& operation,
               const OperationCut& cut, uint32_t index, uint32_t per_loop) {
  Lane lane;
  lane.channel = cut.first_channel + index;
  const uint64_t ranks = has_rank_parts(operation.collective) ? communicator.ranks() : 1;
  const uint32_t channels = static_cast<uint32_t>(cut.parts.size());
  const ChannelPart part = cut.parts[index];
  switch (cut_rule(communicator.version)) {
    case CutRule::kCells:
      lane.chunking = chunking_of(communicator, operation, part.bytes * ranks, 1);
      lane.chunks = ChunkSeries(part, lane.chunking.chunk_bytes, per_loop,
                                operation.algorithm == Algorithm::kNvls
                                    ? std::min(kNvlsTailAlign, lane.chunking.chunk_bytes)
                                    : kCellTailAlign);
      break;
    case CutRule::kEven:
      lane.chunking = chunking_of(communicator, operation, operation.bytes() * ranks, channels);
      lane.chunks =
          ChunkSeries(part, lane.chunking.chunk_bytes, per_loop, even_alignment(operation));
      break;
    case CutRule::kStrided: {
      lane.chunking = chunking_of(communicator, operation, operation.bytes() * ranks, channels);
      ChunkSeries::Stride stride;
      stride.index = index;
      stride.channels = channels;
      stride.round = stride_round(operation);
      stride.once = operation.algorithm == Algorithm::kTree;
      stride.by_chunk = operation.protocol != Protocol::kSimple;
      lane.chunks = ChunkSeries(part.bytes, lane.chunking.chunk_bytes, per_loop, stride);
      break;
    }
  }
  return lane;
}

Connection lane_connection(const Communicator& communicator, const Lane& lane, uint32_t from,
                           uint32_t to, Direction direction) {
  Connection c;
  c.channel = lane.channel;
  c.from = from;
  c.to = to;
  c.direction = direction;
  c.network = !communicator.local(from, to);
  c.nic = communicator.nic_of(direction == Direction::kSend ? from : to);
  c.protocol = lane.chunking.protocol;
  c.window = lane.chunking.window();
  c.capacity = lane.chunking.capacity();
  c.slice_steps = lane.chunking.slice_steps;
  c.chunk_steps = lane.chunking.chunk_steps;
  return c;
}

Message slice_message(const Lane& lane, const Chunk& chunk, uint32_t slice, uint32_t element) {
  const uint32_t each = lane.chunking.slice_bytes(chunk.bytes, element);
  const uint64_t begin = std::min(uint64_t{slice} * each, uint64_t{chunk.bytes});
  Message message;
  message.data = std::min(each, chunk.bytes - static_cast<uint32_t>(begin));
  message.wire = static_cast<uint32_t>(wire_bytes(lane.chunking.protocol, message.data));
  message.offset = chunk.offset + begin;
  return message;
}

}  // namespace understudy
