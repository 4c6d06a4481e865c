// A collective on the buffers of all ranks, as plainly as it can be said: loops over elements, in
// the order in which NCCL's documents say that ranks are reduced. Of schedules it takes only which
// bytes a channel has and, for rings, which range goes in which step; nothing of what they say
// about values.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "collective_model/schedule/lane.h"
#include "collective_model/schedule/p2p.h"
#include "collective_model/schedule/schedule.h"
#include "collective_model/schedule/tree.h"
#include "dataplane/base/pattern.h"

namespace understudy::plain {

using Bytes = std::vector<uint8_t>;

/// Value of a small float from its fields.
inline double small_float(uint64_t bits, int mantissa_bits, int exponent_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = (bits >> (mantissa_bits + exponent_bits) & 1) != 0 ? -1 : 1;
  const auto exponent = static_cast<int>(bits >> mantissa_bits & ((1u << exponent_bits) - 1));
  const auto mantissa = static_cast<double>(bits & ((1u << mantissa_bits) - 1));
  if (exponent == (1 << exponent_bits) - 1) return sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign *
         std::ldexp(mantissa + std::ldexp(1, mantissa_bits), exponent - bias - mantissa_bits);
}
/// The nearest one, ties to even.
inline uint64_t to_small_float(double v, int mantissa_bits, int exponent_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint64_t sign = uint64_t{std::signbit(v)} << (mantissa_bits + exponent_bits);
  const uint64_t infinite = ((uint64_t{1} << exponent_bits) - 1) << mantissa_bits;
  const double magnitude = std::abs(v);
  if (std::isinf(magnitude)) return sign | infinite;
  if (magnitude == 0) return sign;
  int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  double units = std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent));
  if (units == std::ldexp(2, mantissa_bits)) {
    units /= 2;
    ++exponent;
  }
  if (exponent > bias) return sign | infinite;
  const auto whole = static_cast<uint64_t>(units);
  const uint64_t hidden = uint64_t{1} << mantissa_bits;
  if (whole < hidden) return sign | whole;
  return sign | static_cast<uint64_t>(exponent + bias) << mantissa_bits | (whole - hidden);
}

/// float8, whose largest finite value stands for all beyond. E4M3 has numbers where others have
/// infinity.
inline double tiny_float(uint64_t bits, int mantissa_bits) {
  if (mantissa_bits == 2 || (bits >> 3 & 15) != 15)
    return small_float(bits, mantissa_bits, 7 - mantissa_bits);
  return ((bits & 0x80) != 0 ? -32.0 : 32.0) * static_cast<double>(8 + (bits & 7));
}
/// All finite ones from 0 on, by their bits.
inline std::vector<double> all_tiny_floats(int mantissa_bits) {
  std::vector<double> all;
  const uint64_t largest = mantissa_bits == 3 ? 0x7e : 0x7b;
  for (uint64_t bits = 0; bits <= largest; ++bits) {
    all.push_back(tiny_float(bits, mantissa_bits));
  }
  return all;
}
inline uint64_t to_tiny_float(double v, int mantissa_bits) {
  static const std::vector<double> kAll[] = {all_tiny_floats(2), all_tiny_floats(3)};
  const std::vector<double>& all = kAll[mantissa_bits - 2];
  const uint64_t sign = std::signbit(v) ? 0x80 : 0;
  const double magnitude = std::abs(v);
  const auto above = std::lower_bound(all.begin(), all.end(), magnitude);
  if (above == all.end()) return sign | (all.size() - 1);
  const auto bits = static_cast<uint64_t>(above - all.begin());
  if (bits == 0) return sign;
  // The nearest of both, the even one where they are as near.
  const double up = all[bits] - magnitude, down = magnitude - all[bits - 1];
  const bool takes_upper = up < down || (up == down && bits % 2 == 0);
  return sign | (takes_upper ? bits : bits - 1);
}

/// a and b reduced, as bits of the type.
inline uint64_t reduced(DataType type, ReduceOp reduction, uint64_t a, uint64_t b) {
  const auto arithmetic = [&](auto x, auto y) {
    switch (reduction) {
      case ReduceOp::kSum:
        return static_cast<decltype(x)>(x + y);
      case ReduceOp::kProd:
        return static_cast<decltype(x)>(x * y);
      case ReduceOp::kMin:
        return y < x ? y : x;
      default:
        return y > x ? y : x;
    }
  };
  const bool compares = reduction == ReduceOp::kMin || reduction == ReduceOp::kMax;
  switch (type) {
    case DataType::kFloat32:
      return std::bit_cast<uint32_t>(arithmetic(std::bit_cast<float>(static_cast<uint32_t>(a)),
                                                std::bit_cast<float>(static_cast<uint32_t>(b))));
    case DataType::kFloat64:
      return std::bit_cast<uint64_t>(
          arithmetic(std::bit_cast<double>(a), std::bit_cast<double>(b)));
    case DataType::kFloat16:
      return to_small_float(arithmetic(small_float(a, 10, 5), small_float(b, 10, 5)), 10, 5);
    case DataType::kBfloat16:
      return to_small_float(arithmetic(small_float(a, 7, 8), small_float(b, 7, 8)), 7, 8);
    case DataType::kFloat8E4m3:
    case DataType::kFloat8E5m2: {
      const int bits = type == DataType::kFloat8E4m3 ? 3 : 2;
      const uint64_t half =
          to_small_float(arithmetic(tiny_float(a, bits), tiny_float(b, bits)), 10, 5);
      const double v = small_float(half, 10, 5);
      return to_tiny_float(std::isinf(v) ? std::copysign(1e6, v) : v, bits);
    }
    case DataType::kInt8:
      if (compares)
        return static_cast<uint8_t>(arithmetic(static_cast<int8_t>(a), static_cast<int8_t>(b)));
      break;
    case DataType::kInt32:
      if (compares) {
        return static_cast<uint32_t>(arithmetic(static_cast<int32_t>(a), static_cast<int32_t>(b)));
      }
      break;
    case DataType::kInt64:
      if (compares) {
        return static_cast<uint64_t>(arithmetic(static_cast<int64_t>(a), static_cast<int64_t>(b)));
      }
      break;
    default:
      break;
  }
  const uint32_t bits = 8 * element_bytes(type);
  const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  return arithmetic(a, b) & mask;
}

inline uint64_t contribution(DataType type, const Pattern& pattern, uint64_t i) {
  switch (type) {
    case DataType::kFloat32:
      return std::bit_cast<uint32_t>(pattern.at(i));
    case DataType::kFloat64:
      return std::bit_cast<uint64_t>(pattern.double_at(i));
    case DataType::kFloat16:
      return pattern.float16_at(i).bits;
    case DataType::kBfloat16:
      return pattern.bfloat16_at(i).bits;
    case DataType::kFloat8E4m3:
      return pattern.float8_at<3>(i).bits;
    case DataType::kFloat8E5m2:
      return pattern.float8_at<2>(i).bits;
    default:
      return pattern.bits_at(i);
  }
}

/// Of each channel that PAT takes: NCCL's distance between trees, which are joined while chunks are
/// small, then up to eight deep (docs/nccl 3.10).
inline std::vector<std::pair<ChannelPart, uint32_t>> pat_distances(const Communicator& communicator,
                                                                   const Operation& operation) {
  std::vector<std::pair<ChannelPart, uint32_t>> distances;
  if (operation.algorithm != Algorithm::kPat) return distances;
  const auto cut = cut_group(communicator, {&operation, 1});
  const uint32_t n = communicator.ranks();
  for (uint32_t i = 0; cut && i < cut->front().parts.size(); ++i) {
    const ChannelPart part = cut->front().parts[i];
    const uint64_t chunk =
        make_lane(communicator, operation, cut->front(), i, 1).chunking.chunk_bytes;
    uint32_t trees = 1;
    while (chunk / (part.bytes * trees) >= 2 && trees < n / 2) trees *= 2;
    for (uint32_t depth = 8; depth > 1 && trees < n / 2; depth /= 2) trees *= 2;
    distances.emplace_back(part, std::bit_ceil(n) / trees);
  }
  return distances;
}

/// All ranks of one operation.
class Collective {
 public:
  Collective(const Communicator& communicator, const Operation& operation, ReduceOp reduction,
             const std::vector<std::shared_ptr<const RankSchedule>>& ranks,
             const std::vector<uint64_t>& seeds)
      : c_(communicator),
        o_(operation),
        reduction_(reduction),
        ranks_(ranks),
        pat_distances_(pat_distances(communicator, operation)) {
    const uint32_t n = c_.ranks();
    const bool parts = o_.collective == understudy::Collective::kReduceScatter ||
                       o_.collective == understudy::Collective::kAllToAll ||
                       o_.collective == understudy::Collective::kScatter;
    for (uint32_t r = 0; r < n; ++r) {
      uint64_t bytes = o_.bytes() * (parts ? n : 1);
      if (o_.collective == understudy::Collective::kAllToAllV) {
        bytes = 0;
        for (uint32_t to = 0; to < n; ++to) bytes += pair(r, to);
      }
      Bytes input(bytes);
      for (uint64_t i = 0; i * each() < bytes; ++i) {
        put(input, i, contribution(o_.type, Pattern(seeds[r], r), i));
      }
      inputs_.push_back(std::move(input));
    }
  }

  /// Of every rank; and which bytes come from other ranks.
  struct Result {
    Bytes bytes;
    std::vector<bool> moved;
  };
  std::vector<Result> results() {
    using K = understudy::Collective;
    const uint32_t n = c_.ranks();
    std::vector<Result> all(n);
    switch (o_.collective) {
      case K::kAllGather:
      case K::kGather:
      case K::kAllToAll:
      case K::kAllToAllV:
      case K::kScatter:
      case K::kSendRecv:
        for (uint32_t to = 0; to < n; ++to) {
          for (uint32_t from = 0; from < n; ++from) add(all[to], from, to);
        }
        return all;
      case K::kBroadcast:
        for (uint32_t r = 0; r < n; ++r) {
          all[r].bytes = inputs_[o_.root];
          all[r].moved.assign(inputs_[o_.root].size(), r != o_.root);
        }
        return all;
      default:
        break;
    }
    if (o_.collective == K::kReduce) {
      all[o_.root] = whole(reduce_along_ring());
    } else if (o_.algorithm == Algorithm::kTree) {
      const Bytes sum = reduce_trees();
      for (Result& result : all) result = whole(sum);
    } else if (o_.algorithm == Algorithm::kPat) {
      for (uint32_t r = 0; r < n; ++r) all[r] = whole(pat_block(r));
    } else {
      go_round();
      for (uint32_t r = 0; r < n; ++r) {
        Bytes own = buffers_[r];
        if (o_.collective == K::kReduceScatter) {
          own.assign(buffers_[r].begin() + static_cast<ptrdiff_t>(r * o_.bytes()),
                     buffers_[r].begin() + static_cast<ptrdiff_t>((r + 1) * o_.bytes()));
        }
        all[r] = whole(own);
      }
    }
    return all;
  }

 private:
  uint64_t each() const { return element_bytes(o_.type); }
  uint64_t get(const Bytes& from, uint64_t i) const {
    uint64_t v = 0;
    std::memcpy(&v, from.data() + i * each(), each());
    return v;
  }
  void put(Bytes& to, uint64_t i, uint64_t v) const {
    std::memcpy(to.data() + i * each(), &v, each());
  }
  static Result whole(const Bytes& bytes) { return {bytes, std::vector<bool>(bytes.size(), true)}; }
  uint64_t pair(uint32_t from, uint32_t to) const {
    const uint64_t bytes = o_.pair_bytes[uint64_t{from} * c_.ranks() + to];
    return bytes == kNoPair ? 0 : bytes;
  }
  /// Reduces elements [first, end) of `other` into `into`.
  void reduce(Bytes& into, const Bytes& other, uint64_t first, uint64_t end) const {
    for (uint64_t i = first; i < end; ++i) {
      put(into, i, reduced(o_.type, reduction_, get(into, i), get(other, i)));
    }
  }
  /// What is only moved: what `from` has for `to` is put behind what those before it had.
  void add(Result& result, uint32_t from, uint32_t to) const {
    using K = understudy::Collective;
    uint64_t begin = 0, bytes = o_.bytes();
    if (o_.collective == K::kSendRecv && to != (from + 1) % c_.ranks()) return;
    if (o_.collective == K::kGather && to != o_.root) return;
    if (o_.collective == K::kScatter && from != o_.root) return;
    if (o_.collective == K::kAllToAll || o_.collective == K::kScatter) begin = to * o_.bytes();
    if (o_.collective == K::kAllToAllV) {
      for (uint32_t r = 0; r < to; ++r) begin += pair(from, r);
      bytes = pair(from, to);
    }
    for (uint64_t i = 0; i < bytes; ++i) {
      result.bytes.push_back(inputs_[from][begin + i]);
      result.moved.push_back(from != to);
    }
  }
  /// Elements of each channel's messages, of the first connection of rank 0 on it that carries all.
  void each_range(const std::function<void(uint32_t channel, uint64_t first, uint64_t end)>& visit,
                  uint32_t rank) const {
    std::vector<bool> seen(64, false);
    const RankSchedule& own = *ranks_[rank];
    for (uint32_t c = 0; c < own.connections().size(); ++c) {
      const Connection& connection = own.connections()[c];
      if (seen[connection.channel]) continue;
      seen[connection.channel] = true;
      for (uint64_t k = 0; k < connection.messages; ++k) {
        const Message m = own.message(c, k);
        visit(connection.channel, m.offset / each(), (m.offset + m.data) / each());
      }
    }
  }
  /// The rank behind the root begins, each adds its own, the root is the last one.
  Bytes reduce_along_ring() const {
    Bytes sum(inputs_[0].size());
    each_range(
        [&](uint32_t channel, uint64_t first, uint64_t end) {
          const uint32_t n = c_.ranks(), at = c_.ring_position(channel, o_.root);
          Bytes part = inputs_[c_.ring_rank(channel, (at + 1) % n)];
          for (uint32_t i = 2; i <= n; ++i) {
            reduce(part, inputs_[c_.ring_rank(channel, (at + i) % n)], first, end);
          }
          for (uint64_t i = first; i < end; ++i) put(sum, i, get(part, i));
        },
        o_.root);
    return sum;
  }
  /// A rank's own, then what comes from below, child by child.
  Bytes subtree(uint32_t channel, uint32_t rank, uint64_t first, uint64_t end) const {
    Bytes sum = inputs_[rank];
    for (const uint32_t child : tree_place(c_, channel, rank).down) {
      reduce(sum, subtree(channel, child, first, end), first, end);
    }
    return sum;
  }
  Bytes reduce_trees() const {
    Bytes sum(inputs_[0].size());
    each_range(
        [&](uint32_t channel, uint64_t first, uint64_t end) {
          uint32_t root = 0;
          while (tree_place(c_, channel, root).up) ++root;
          const Bytes part = subtree(channel, root, first, end);
          for (uint64_t i = first; i < end; ++i) put(sum, i, get(part, i));
        },
        0);
    return sum;
  }
  /// All-reduce and reduce-scatter: in each step every rank sends a range of its buffer to the next
  /// one, which reduces it into its own up to the step in which all have, then takes it as it is.
  void go_round() {
    buffers_ = inputs_;
    const uint32_t n = c_.ranks();
    const bool scatter = o_.collective == understudy::Collective::kReduceScatter;
    const uint32_t steps = scatter ? n - 1 : 2 * (n - 1);
    if (steps == 0) return;  // one rank
    for (uint32_t c = 0; c < ranks_[0]->connections().size(); ++c) {
      const Connection& connection = ranks_[0]->connections()[c];
      if (connection.direction != Direction::kSend) continue;
      const uint64_t slices = connection.chunk_steps / connection.slice_steps;
      for (uint64_t k = 0; k < connection.messages; ++k) {
        std::vector<Bytes> sent;
        for (uint32_t r = 0; r < n; ++r) {
          const Message m = ranks_[r]->message(c, k);
          const auto from = buffers_[r].begin() + static_cast<ptrdiff_t>(m.offset);
          sent.emplace_back(from, from + m.data);
        }
        for (uint32_t r = 0; r < n; ++r) {
          Bytes& to = buffers_[ranks_[r]->connections()[c].to];
          const uint64_t first = ranks_[r]->message(c, k).offset / each();
          const bool reduces = k / slices % steps < n - 1;
          for (uint64_t i = 0; i < sent[r].size() / each(); ++i) {
            const uint64_t value = get(sent[r], i);
            put(to, first + i,
                reduces ? reduced(o_.type, reduction_, get(to, first + i), value) : value);
          }
        }
      }
    }
  }
  /// Block `r` after a reduce-scatter by PAT, whose phases are those of docs/nccl 3.14: each piece is
  /// reduced into the one from which its lowest bit is taken, at the rank that far ahead. Piece s
  /// of rank x is block x + s.
  Bytes pat_block(uint32_t r) const;

  const Communicator c_;
  const Operation o_;
  const ReduceOp reduction_;
  const std::vector<std::shared_ptr<const RankSchedule>>& ranks_;
  const std::vector<std::pair<ChannelPart, uint32_t>> pat_distances_;
  std::vector<Bytes> inputs_, buffers_;
};

inline Bytes Collective::pat_block(uint32_t r) const {
  const uint32_t n = c_.ranks();
  const uint64_t count = o_.count;
  Bytes block(o_.bytes());
  for (const auto& [part, distance] : pat_distances_) {
    const uint32_t trees = std::bit_ceil(n) / distance;
    // Of a piece: who has it (the rank whose piece it is) and its elements of block `r`.
    std::vector<Bytes> piece(n);
    for (uint32_t s = 0; s < n; ++s) {
      const Bytes& input = inputs_[(r + n - s) % n];
      piece[s].assign(input.begin() + static_cast<ptrdiff_t>(r * count * each()),
                      input.begin() + static_cast<ptrdiff_t>((r + 1) * count * each()));
    }
    const auto pass = [&](uint32_t s) {
      if (s >= n) return;
      const uint32_t target = s - (s & (~s + 1));
      reduce(piece[target], piece[s], 0, count);
    };
    for (uint32_t u = distance - 1; u > 1; --u) {
      for (uint32_t a = 0; a < trees; ++a) pass(a * distance + u);
    }
    for (uint32_t scale = 1; scale < trees; scale *= 2) {
      for (uint32_t a = scale; a < trees; a += 2 * scale) pass(a * distance + 1);
      for (uint32_t a = scale; a < trees; a += 2 * scale) pass(a * distance);
    }
    pass(1);
    for (uint64_t i = part.offset / each(); i < (part.offset + part.bytes) / each(); ++i) {
      put(block, i, get(piece[0], i));
    }
  }
  return block;
}

}  // namespace understudy::plain
