// NCCL's collectives as nccl-tests count them: elements of both buffers, bus bandwidth, and the
// call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace understudy {

enum class CollectiveKind {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kSendRecv,  ///< every rank sends to its successor, as nccl-tests' sendrecv_perf
  kAllToAll,
};
enum class ElementType {
  kInt8,
  kUint8,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kHalf,
  kBfloat16,
  kFloat,
  kDouble
};
enum class Reduction { kSum, kProd, kMin, kMax, kAvg };

std::optional<CollectiveKind> parse_collective(std::string_view name);
std::optional<ElementType> parse_element_type(std::string_view name);
std::optional<Reduction> parse_reduction(std::string_view name);
/// Names for messages, separated by commas.
std::string collective_names();
std::string element_type_names();
std::string reduction_names();

std::string_view name_of(CollectiveKind kind);
std::string_view name_of(ElementType type);
std::string_view name_of(Reduction reduction);
uint32_t bytes_of(ElementType type);

/// Whether its result is a reduction of the ranks' values.
bool reduces(CollectiveKind kind);
bool has_root(CollectiveKind kind);
bool runs_in_place(CollectiveKind kind);
/// nccl-tests' factor from algorithm to bus bandwidth.
double bus_factor(CollectiveKind kind, uint32_t ranks);

/// One size of one collective.
struct Shape {
  uint64_t bytes = 0;              ///< of the larger buffer, as printed
  uint64_t count = 0;              ///< elements that the call is given
  uint64_t send = 0, receive = 0;  ///< elements of both buffers
};
/// The largest shape of at most `bytes`, as nccl-tests cut it; nothing if not even one element of
/// each rank fits.
std::optional<Shape> shape_of(CollectiveKind kind, ElementType type, uint64_t bytes,
                              uint32_t ranks);

/// Buffers of one operation. In place one of both lies in the other, as NCCL wants it.
struct OperationBuffers {
  const void* send = nullptr;
  void* receive = nullptr;
};
OperationBuffers buffers_of(CollectiveKind kind, ElementType type, const Shape& shape,
                            uint32_t rank, bool in_place, void* first, void* second);

}  // namespace understudy
