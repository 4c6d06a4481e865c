#include "collective_model/nccl/chunking.h"

#include <bit>

#include "collective_model/nccl/channel_cut.h"

namespace understudy {
namespace {

/// Data bytes in whole units that the protocol moves.
constexpr uint32_t grain(Protocol protocol) {
  return protocol == Protocol::kLL ? 16 : protocol == Protocol::kLL128 ? 1920 : 512;
}

/// Halves chunks above `least` while an operation has less than `per_chunk` of them per channel.
template <typename Number>
void halve(uint32_t& chunk, uint64_t bytes, uint32_t channels, Number per_chunk, uint32_t least) {
  const auto whole_chunks = [&] { return bytes / (uint64_t{channels} * chunk); };
  while (static_cast<Number>(whole_chunks()) < per_chunk && chunk > least) chunk /= 2;
}

uint32_t log2_floor(uint32_t n) { return static_cast<uint32_t>(std::bit_width(n)) - 1; }

void tune_tree(const Communicator& c, Protocol protocol, uint64_t bytes, uint32_t channels,
               uint32_t& chunk) {
  if (protocol == Protocol::kLL128) {
    // In float as NCCL has it: the comparison may be a matter of its rounding.
    const float gpus = static_cast<float>(c.gpus);
    const float steps =
        static_cast<float>(1 + log2_floor(c.nodes) + 0.1 * static_cast<double>(gpus));
    halve(chunk, bytes, channels, steps * 64 / gpus, 131072);
    halve(chunk, bytes, channels, steps * 16 / gpus, 32768);
  } else if (protocol == Protocol::kSimple && c.version < NcclVersion{20}) {
    const uint64_t depth = c.gpus - 1 + log2_floor(c.nodes);
    halve(chunk, bytes, channels, depth * 8, 131072);
    halve(chunk, bytes, channels, depth * 4, 65536);
    halve(chunk, bytes, channels, depth, 32768);
  }
}

/// CollNet's chunks on `channels` channels, of which direct has a chunk of each head at a time.
void tune_collnet(const Communicator& c, Algorithm algorithm, uint64_t bytes, uint32_t channels,
                  uint32_t& chunk) {
  if (algorithm == Algorithm::kCollnetDirect) {
    const uint64_t depth = c.gpus > 1 || c.heads() > 1 ? 2 : 1;
    halve(chunk, bytes, channels * c.heads(), depth * 64, 131072);
    halve(chunk, bytes, channels * c.heads(), depth * 8, 32768);
    return;
  }
  const uint64_t depth = c.gpus;
  chunk = std::min(chunk, 262144u);
  halve(chunk, bytes, channels, depth * 64, 131072);
  halve(chunk, bytes, channels, depth * 8, 65536);
  halve(chunk, bytes, channels, depth, 32768);
}

/// NVLS' chunks, of which each head takes one at a time; `bytes` of all heads on `channels`.
uint32_t nvls_chunk(const Communicator& c, bool tree, uint64_t bytes, uint32_t channels) {
  const uint64_t heads = uint64_t{channels} * c.heads();
  uint32_t chunk = 131072;  // NCCL_NVLS_CHUNKSIZE
  // Chunks above `least` become so long where there are fewer than `loops` loops.
  const auto limit = [&](uint64_t loops, uint32_t least) {
    if (bytes < loops * heads * chunk && chunk > least) chunk = least;
  };
  if (!tree) {
    limit(64, 65536);
    limit(8, 32768);
    limit(2, 16384);
    return chunk;
  }
  if (c.nodes >= 4) chunk = 65536;  // NCCL_NVLSTREE_MAX_CHUNKSIZE
  limit(4, 65536);
  limit(1, 32768);
  return chunk;
}

}  // namespace

Chunking chunking_of(const Communicator& communicator, const Operation& operation, uint64_t bytes,
                     uint32_t channels) {
  const bool slices =
      operation.protocol == Protocol::kSimple && operation.algorithm == Algorithm::kRing &&
      operation.collective != Collective::kBroadcast && operation.collective != Collective::kReduce;
  Chunking chunking;
  chunking.protocol = operation.protocol;
  chunking.step_bytes = communicator.buffers.step(operation.protocol);
  chunking.chunk_steps = slices ? 4 : 1;
  chunking.slice_steps = slices ? 2 : 1;
  uint32_t chunk = chunking.step_bytes * chunking.chunk_steps;
  if (is_collnet(operation.algorithm)) {
    tune_collnet(communicator, operation.algorithm, bytes, channels, chunk);
  }
  if (is_nvls(operation.algorithm)) {
    const bool tree = operation.algorithm == Algorithm::kNvlsTree;
    chunk = std::min(chunk, nvls_chunk(communicator, tree, bytes, channels));
    chunking.step_bytes = chunk;
  }
  if (operation.protocol == Protocol::kLL) chunk /= 2;
  // Before 2.20 a tree's LL128 chunk was tuned as bytes on the wire.
  const bool tune_wire =
      communicator.version < NcclVersion{20} && operation.algorithm == Algorithm::kTree;
  if (tune_wire) tune_tree(communicator, operation.protocol, bytes, channels, chunk);
  if (operation.protocol == Protocol::kLL128) chunk = chunk / 16 * 15;
  if (operation.algorithm == Algorithm::kTree && !tune_wire) {
    tune_tree(communicator, operation.protocol, bytes, channels, chunk);
  }
  if (operation.algorithm == Algorithm::kPat) {
    const uint64_t factor = operation.collective == Collective::kAllGather ? 32 : 16;
    while (uint64_t{chunk} * channels * factor > bytes && chunk > 65536) chunk /= 2;
  }
  if (cut_rule(communicator.version) == CutRule::kCells) {
    chunk = chunk / grain(operation.protocol) * grain(operation.protocol);
  }
  chunking.chunk_bytes = chunk;
  return chunking;
}

}  // namespace understudy
