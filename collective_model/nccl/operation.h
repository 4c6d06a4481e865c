// What a communicator is asked to do: the words of NCCL's interface as plain values.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace understudy {

enum class Collective : uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kSendRecv,  ///< every rank sends to its successor, as nccl-tests' sendrecv_perf
  kAllToAll,
  kAllToAllV,
  kGather,
  kScatter,
};
enum class Algorithm : uint8_t {
  kRing,
  kTree,
  kPat,
  kNvls,           ///< reduced and spread by the NVSwitches of one node
  kNvlsTree,       ///< the same in each node, and a tree between nodes
  kCollnetDirect,  ///< reduced by the network's switches (SHARP); every GPU talks to all heads ...
  kCollnetChain,   ///< ... or a chain of them leads to each head
};
enum class Protocol : uint8_t { kSimple, kLL, kLL128 };
enum class DataType : uint8_t {
  kInt8,
  kUint8,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kFloat16,
  kFloat32,
  kFloat64,
  kBfloat16,
  kFloat8E4m3,
  kFloat8E5m2,
};

/// How values are reduced.
enum class ReduceOp : uint8_t { kSum, kProd, kMin, kMax };

/// Bytes of one element.
constexpr uint32_t element_bytes(DataType type) {
  switch (type) {
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return 2;
    case DataType::kInt32:
    case DataType::kUint32:
    case DataType::kFloat32:
      return 4;
    case DataType::kInt64:
    case DataType::kUint64:
    case DataType::kFloat64:
      return 8;
    default:
      return 1;
  }
}

/// A release 2.<minor> of NCCL; schedules are known for 2.18 to 2.31, costs and choices for 2.8 to
/// 2.30. 2.31: as its public source was in June 2026, before the release.
struct NcclVersion {
  static constexpr uint32_t kOldest = 18;
  static constexpr uint32_t kNewest = 31;
  static constexpr uint32_t kNewestWithCosts = 30;
  uint32_t minor = 28;
  constexpr auto operator<=>(const NcclVersion&) const = default;
};

/// One call of a collective, with what the tuner chose for it.
struct Operation {
  Collective collective = Collective::kAllReduce;
  Algorithm algorithm = Algorithm::kRing;
  Protocol protocol = Protocol::kSimple;
  DataType type = DataType::kFloat32;
  /// Elements: of the whole buffer (all-reduce, broadcast, reduce, send/recv), else of what one
  /// rank has for another, or contributes.
  uint64_t count = 0;
  uint32_t root = 0;
  uint32_t channels = 0;  ///< most that it may use; 0: all of the communicator
  uint32_t threads = 0;   ///< of a block; 0: 640 for LL128, else 512. Matters up to 2.21 only
  /// Of all-to-all-v: bytes that rank a has for rank b, at a * ranks + b.
  std::vector<uint64_t> pair_bytes = {};

  /// Bytes of an element as NCCL counts it: what is only moved is moved as bytes.
  uint32_t element() const {
    return collective == Collective::kAllGather || collective == Collective::kBroadcast
               ? 1
               : element_bytes(type);
  }
  uint64_t bytes() const { return count * element_bytes(type); }
};

/// Carried out by send/recv between pairs of ranks.
constexpr bool is_p2p(Collective collective) {
  return collective == Collective::kSendRecv || collective == Collective::kAllToAll ||
         collective == Collective::kAllToAllV || collective == Collective::kGather ||
         collective == Collective::kScatter;
}

/// A node's switches reduce and spread what its GPUs have.
constexpr bool is_nvls(Algorithm algorithm) {
  return algorithm == Algorithm::kNvls || algorithm == Algorithm::kNvlsTree;
}

/// The network's switches reduce.
constexpr bool is_collnet(Algorithm algorithm) {
  return algorithm == Algorithm::kCollnetDirect || algorithm == Algorithm::kCollnetChain;
}

/// Ranks' contributions are reduced; else they are only moved.
constexpr bool reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter ||
         collective == Collective::kReduce;
}

/// Each rank has a part of the whole buffer.
constexpr bool has_rank_parts(Collective collective) {
  return collective == Collective::kAllGather || collective == Collective::kReduceScatter;
}

/// One rank's buffer goes along the ring, or is reduced along it.
constexpr bool is_pipeline(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kReduce;
}

/// Each rank hears of all others before it is done, and so is one operation ahead of them at most.
constexpr bool needs_all_ranks(Collective collective) {
  return !is_pipeline(collective) && collective != Collective::kSendRecv &&
         collective != Collective::kGather && collective != Collective::kScatter;
}

/// One rank has what all get, or gets what all have.
constexpr bool has_root(Collective collective) {
  return is_pipeline(collective) || collective == Collective::kGather ||
         collective == Collective::kScatter;
}

/// Largest buffer of an operation: numbers of messages and offsets stay far from their types' ends.
inline constexpr uint64_t kMostOperationBytes = uint64_t{1} << 44;

inline constexpr uint32_t kWarp = 32;  ///< threads

/// A value and how configurations spell it.
template <typename T>
using Named = std::pair<std::string_view, T>;

inline constexpr Named<Collective> kCollectiveNames[] = {
    {"all_reduce", Collective::kAllReduce},
    {"all_gather", Collective::kAllGather},
    {"reduce_scatter", Collective::kReduceScatter},
    {"broadcast", Collective::kBroadcast},
    {"reduce", Collective::kReduce},
    {"send_recv", Collective::kSendRecv},
    {"all_to_all", Collective::kAllToAll},
    {"all_to_all_v", Collective::kAllToAllV},
    {"gather", Collective::kGather},
    {"scatter", Collective::kScatter},
};
/// Without a value: chosen by NCCL's cost model.
inline constexpr Named<std::optional<Algorithm>> kAlgorithmNames[] = {
    {"ring", Algorithm::kRing},
    {"tree", Algorithm::kTree},
    {"pat", Algorithm::kPat},
    {"nvls", Algorithm::kNvls},
    {"nvls-tree", Algorithm::kNvlsTree},
    {"collnet-direct", Algorithm::kCollnetDirect},
    {"collnet-chain", Algorithm::kCollnetChain},
    {"auto", std::nullopt},
};
inline constexpr Named<std::optional<Protocol>> kProtocolNames[] = {
    {"simple", Protocol::kSimple},
    {"ll", Protocol::kLL},
    {"ll128", Protocol::kLL128},
    {"auto", std::nullopt},
};
inline constexpr Named<ReduceOp> kReduceOpNames[] = {
    {"sum", ReduceOp::kSum},
    {"prod", ReduceOp::kProd},
    {"min", ReduceOp::kMin},
    {"max", ReduceOp::kMax},
};
inline constexpr Named<DataType> kDataTypeNames[] = {
    {"int8", DataType::kInt8},
    {"uint8", DataType::kUint8},
    {"int32", DataType::kInt32},
    {"uint32", DataType::kUint32},
    {"int64", DataType::kInt64},
    {"uint64", DataType::kUint64},
    {"float16", DataType::kFloat16},
    {"float32", DataType::kFloat32},
    {"float64", DataType::kFloat64},
    {"bfloat16", DataType::kBfloat16},
    {"float8e4m3", DataType::kFloat8E4m3},
    {"float8e5m2", DataType::kFloat8E5m2},
};

/// The name that `names` has for a value.
template <typename T, size_t N>
constexpr std::string_view name_of(const Named<T> (&names)[N], std::type_identity_t<T> value) {
  for (const auto& [name, known] : names) {
    if (known == value) return name;
  }
  return "?";
}

}  // namespace understudy
