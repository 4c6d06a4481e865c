#include "tools/allreduce_node/values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "dataplane/base/pattern.h"
#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

template <class T>
constexpr bool kSmall = std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>;

template <class T>
double to_double(T value) {
  if constexpr (kSmall<T>) {
    return static_cast<double>(value.value());
  } else {
    return static_cast<double>(value);
  }
}

template <class T>
T from_double(double value) {
  if constexpr (kSmall<T>) {
    return T::of(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

/// What emulated ranks contribute.
template <class T>
T of_pattern(const Pattern& pattern, uint64_t element) {
  if constexpr (std::is_same_v<T, float>) {
    return pattern.at(element);
  } else if constexpr (std::is_same_v<T, double>) {
    return pattern.double_at(element);
  } else if constexpr (std::is_same_v<T, Float16>) {
    return pattern.float16_at(element);
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    return pattern.bfloat16_at(element);
  } else {
    return static_cast<T>(pattern.bits_at(element));
  }
}

/// Calls `use` with a value of the host's type of the elements.
template <class Use>
auto with_type(ElementType type, Use use) {
  switch (type) {
    case ElementType::kInt8:
      return use(int8_t{});
    case ElementType::kUint8:
      return use(uint8_t{});
    case ElementType::kInt32:
      return use(int32_t{});
    case ElementType::kUint32:
      return use(uint32_t{});
    case ElementType::kInt64:
      return use(int64_t{});
    case ElementType::kUint64:
      return use(uint64_t{});
    case ElementType::kHalf:
      return use(Float16{});
    case ElementType::kBfloat16:
      return use(Bfloat16{});
    case ElementType::kDouble:
      return use(double{});
    case ElementType::kFloat:
      break;
  }
  return use(float{});
}

/// Relative error of one rounding; 0 of whole numbers.
double rounding_of(ElementType type) {
  switch (type) {
    case ElementType::kHalf:
      return 0x1p-11;
    case ElementType::kBfloat16:
      return 0x1p-8;
    case ElementType::kFloat:
      return 0x1p-24;
    case ElementType::kDouble:
      return 0x1p-53;
    default:
      return 0;
  }
}

/// Whole numbers wrap around in NCCL as in C.
template <class T>
T reduced(Reduction reduction, T a, T b) {
  using Unsigned = std::make_unsigned_t<T>;
  const uint64_t x = static_cast<Unsigned>(a), y = static_cast<Unsigned>(b);
  switch (reduction) {
    case Reduction::kMin:
      return std::min(a, b);
    case Reduction::kMax:
      return std::max(a, b);
    case Reduction::kProd:
      return static_cast<T>(x * y);
    default:
      return static_cast<T>(x + y);
  }
}

/// Too large a value for the type is infinite.
template <class T>
bool equal(T got, double expected, double slack) {
  if (std::abs(to_double(got) - expected) <= slack) return true;
  if constexpr (std::is_same_v<T, Float16>) {
    return std::isinf(to_double(got)) && std::abs(expected) + slack >= 65504 &&
           std::signbit(to_double(got)) == std::signbit(expected);
  }
  return false;
}

}  // namespace

RankValues::RankValues(const NodeOptions& options)
    : options_(options), seeds_(options.ranks, options.job_seed.value_or(options.input_seed)) {
  for (const uint32_t rank : options.real) seeds_[rank] = options.input_seed;
}

template <class T>
T RankValues::value(uint32_t rank, uint64_t element) const {
  if (options_.type == ElementType::kFloat || options_.job_seed) {
    return of_pattern<T>(Pattern(seeds_[rank], rank), element);
  }
  const uint64_t drawn = splitmix64(seeds_[rank] ^ uint64_t{rank} << 40 ^ element);
  return from_double<T>(
      static_cast<double>(options_.reduction == Reduction::kProd ? 1 + drawn % 2 : drawn % 5));
}

std::vector<uint8_t> RankValues::input(uint32_t rank, const Shape& shape) const {
  std::vector<uint8_t> bytes(shape.send * bytes_of(options_.type));
  with_type(options_.type, [&]<class T>(T) {
    for (uint64_t i = 0; i < shape.send; ++i) {
      const T element = value<T>(rank, i);
      std::memcpy(&bytes[i * sizeof element], &element, sizeof element);
    }
  });
  return bytes;
}

bool RankValues::is_reduced(uint32_t rank, const Shape& shape, uint64_t& i,
                            uint32_t& origin) const {
  switch (options_.kind) {
    case CollectiveKind::kAllGather:
      origin = static_cast<uint32_t>(i / shape.count);
      i %= shape.count;
      return false;
    case CollectiveKind::kBroadcast:
      origin = options_.root;
      return false;
    case CollectiveKind::kSendRecv:
      origin = (rank + options_.ranks - 1) % options_.ranks;
      return false;
    case CollectiveKind::kAllToAll:
      origin = static_cast<uint32_t>(i / shape.count);
      i = rank * shape.count + i % shape.count;
      return false;
    case CollectiveKind::kReduceScatter:
      i += rank * shape.count;
      return true;
    default:
      return true;
  }
}

template <class T>
T RankValues::whole(uint64_t i) const {
  T result = value<T>(0, i);
  for (uint32_t r = 1; r < options_.ranks; ++r) {
    result = reduced(options_.reduction, result, value<T>(r, i));
  }
  return options_.reduction == Reduction::kAvg ? static_cast<T>(to_double(result) / options_.ranks)
                                               : result;
}

template <class T>
double RankValues::real(uint64_t i, double& slack) const {
  double result = to_double(value<T>(0, i)), magnitude = std::abs(result);
  for (uint32_t r = 1; r < options_.ranks; ++r) {
    const double v = to_double(value<T>(r, i));
    magnitude =
        options_.reduction == Reduction::kProd ? magnitude * std::abs(v) : magnitude + std::abs(v);
    switch (options_.reduction) {
      case Reduction::kSum:
      case Reduction::kAvg:
        result += v;
        break;
      case Reduction::kProd:
        result *= v;
        break;
      case Reduction::kMin:
        result = std::min(result, v);
        break;
      case Reduction::kMax:
        result = std::max(result, v);
        break;
    }
  }
  const double steps = options_.ranks;  // roundings, one each, and one of the average's factor
  switch (options_.reduction) {
    case Reduction::kMin:
    case Reduction::kMax:
      break;
    case Reduction::kAvg:
      slack = (2 * steps + 1) * rounding_of(options_.type) * magnitude / steps;
      result /= steps;
      break;
    case Reduction::kSum:
    case Reduction::kProd:
      slack = steps * rounding_of(options_.type) * magnitude;
      break;
  }
  if constexpr (std::is_same_v<T, Float16>) slack += steps * 0x1p-25;  // of its smallest values
  return result;
}

RankValues::Difference RankValues::check(uint32_t rank, const Shape& shape,
                                         std::span<const uint8_t> result) const {
  Difference difference;
  with_type(options_.type, [&]<class T>(T) {
    for (uint64_t i = 0; i < shape.receive; ++i) {
      T got;
      std::memcpy(&got, &result[i * sizeof got], sizeof got);
      uint64_t at = i;
      uint32_t origin = 0;
      const bool is_sum = is_reduced(rank, shape, at, origin);
      double slack = 0, right = 0;
      bool same = false;
      if constexpr (std::is_integral_v<T>) {
        const T exact = is_sum ? whole<T>(at) : value<T>(origin, at);
        right = to_double(exact);
        same = got == exact;
      } else {
        right = is_sum ? real<T>(at, slack) : to_double(value<T>(origin, at));
        same = equal(got, right, slack);
      }
      if (same) continue;
      if (difference.wrong++ == 0) {
        difference.first = format_text("element %llu is %.9g, expected %.9g",
                                       static_cast<unsigned long long>(i), to_double(got), right);
      }
    }
  });
  return difference;
}

}  // namespace understudy
