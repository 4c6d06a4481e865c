#include "tools/allreduce_node/collective.h"

#include <algorithm>
#include <array>

namespace understudy {
namespace {

template <class T>
struct Named {
  std::string_view name;
  T value;
};

constexpr std::array<Named<CollectiveKind>, 7> kCollectives{{
    {"all_reduce", CollectiveKind::kAllReduce},
    {"all_gather", CollectiveKind::kAllGather},
    {"reduce_scatter", CollectiveKind::kReduceScatter},
    {"broadcast", CollectiveKind::kBroadcast},
    {"reduce", CollectiveKind::kReduce},
    {"send_recv", CollectiveKind::kSendRecv},
    {"all_to_all", CollectiveKind::kAllToAll},
}};

constexpr std::array<Named<Reduction>, 5> kReductions{{
    {"sum", Reduction::kSum},
    {"prod", Reduction::kProd},
    {"min", Reduction::kMin},
    {"max", Reduction::kMax},
    {"avg", Reduction::kAvg},
}};

struct TypeRow {
  std::string_view name;
  ElementType value;
  uint32_t bytes;
};
constexpr std::array<TypeRow, 10> kTypes{{
    {"int8", ElementType::kInt8, 1},
    {"uint8", ElementType::kUint8, 1},
    {"int32", ElementType::kInt32, 4},
    {"uint32", ElementType::kUint32, 4},
    {"int64", ElementType::kInt64, 8},
    {"uint64", ElementType::kUint64, 8},
    {"half", ElementType::kHalf, 2},
    {"bfloat16", ElementType::kBfloat16, 2},
    {"float", ElementType::kFloat, 4},
    {"double", ElementType::kDouble, 8},
}};

template <class Rows, class T>
const auto& row_of(const Rows& rows, T value) {
  return *std::ranges::find_if(rows, [value](const auto& row) { return row.value == value; });
}

template <class T, class Rows>
std::optional<T> parse(const Rows& rows, std::string_view name) {
  const auto found =
      std::ranges::find_if(rows, [name](const auto& row) { return row.name == name; });
  if (found == rows.end()) return std::nullopt;
  return found->value;
}

template <class Rows>
std::string names(const Rows& rows) {
  std::string all;
  for (const auto& row : rows) all += (all.empty() ? "" : ", ") + std::string(row.name);
  return all;
}

}  // namespace

std::optional<CollectiveKind> parse_collective(std::string_view name) {
  return parse<CollectiveKind>(kCollectives, name);
}
std::optional<ElementType> parse_element_type(std::string_view name) {
  return parse<ElementType>(kTypes, name);
}
std::optional<Reduction> parse_reduction(std::string_view name) {
  return parse<Reduction>(kReductions, name);
}
std::string collective_names() { return names(kCollectives); }
std::string element_type_names() { return names(kTypes); }
std::string reduction_names() { return names(kReductions); }
std::string_view name_of(CollectiveKind kind) { return row_of(kCollectives, kind).name; }
std::string_view name_of(ElementType type) { return row_of(kTypes, type).name; }
std::string_view name_of(Reduction reduction) { return row_of(kReductions, reduction).name; }
uint32_t bytes_of(ElementType type) { return row_of(kTypes, type).bytes; }

bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter ||
         kind == CollectiveKind::kReduce;
}
bool has_root(CollectiveKind kind) {
  return kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kReduce;
}
bool runs_in_place(CollectiveKind kind) {
  return kind != CollectiveKind::kSendRecv && kind != CollectiveKind::kAllToAll;
}

double bus_factor(CollectiveKind kind, uint32_t ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return 2 * others;
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll:
      return others;
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kReduce:
    case CollectiveKind::kSendRecv:
      return 1;
  }
  return 1;
}

std::optional<Shape> shape_of(CollectiveKind kind, ElementType type, uint64_t bytes,
                              uint32_t ranks) {
  const uint64_t width = bytes_of(type);
  uint64_t elements = bytes / width;
  const bool split = kind == CollectiveKind::kAllGather || kind == CollectiveKind::kReduceScatter ||
                     kind == CollectiveKind::kAllToAll;
  if (split) elements -= elements % ranks;
  if (elements == 0) return std::nullopt;
  const uint64_t share = elements / ranks;
  switch (kind) {
    case CollectiveKind::kAllGather:
      return Shape{elements * width, share, share, elements};
    case CollectiveKind::kReduceScatter:
      return Shape{elements * width, share, elements, share};
    case CollectiveKind::kAllToAll:
      return Shape{elements * width, share, elements, elements};
    default:
      return Shape{elements * width, elements, elements, elements};
  }
}

OperationBuffers buffers_of(CollectiveKind kind, ElementType type, const Shape& shape,
                            uint32_t rank, bool in_place, void* first, void* second) {
  if (!in_place) return {first, second};
  const uint64_t own = rank * shape.count * bytes_of(type);
  char* whole = static_cast<char*>(first);
  if (kind == CollectiveKind::kAllGather) return {whole + own, whole};
  if (kind == CollectiveKind::kReduceScatter) return {whole, whole + own};
  return {whole, whole};
}

}  // namespace understudy
