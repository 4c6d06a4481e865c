#include "tools/allreduce_node/values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "dataplane/base/pattern.h"
#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

struct Half {
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};

/// Finite values only, which is all that is ever put in.
double to_double(Half h) {
  const int exponent = h.bits >> 10 & 31, mantissa = h.bits & 1023;
  const double magnitude = exponent == 31  ? HUGE_VAL
                           : exponent == 0 ? std::ldexp(mantissa, -24)
                                           : std::ldexp(mantissa + 1024, exponent - 25);
  return (h.bits & 0x8000) != 0 ? -magnitude : magnitude;
}
double to_double(Bfloat16 b) { return std::bit_cast<float>(static_cast<uint32_t>(b.bits) << 16); }
template <class T>
double to_double(T value) {
  return static_cast<double>(value);
}

template <class T>
T from_double(double value) {
  if constexpr (std::is_same_v<T, Half>) {
    // Whole numbers up to 1024, which the type holds exactly.
    if (value == 0) return {0};
    const int exponent = std::ilogb(value);
    const auto mantissa = static_cast<uint16_t>(std::ldexp(value, 10 - exponent));
    return {static_cast<uint16_t>((exponent + 15) << 10 | (mantissa & 1023))};
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    return {static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16)};
  } else {
    return static_cast<T>(value);
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
      return use(Half{});
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
bool equal(T got, double expected, double slack) {
  if constexpr (std::is_integral_v<T>) {
    return got == static_cast<T>(static_cast<int64_t>(expected));
  } else {
    return std::abs(to_double(got) - expected) <= slack;
  }
}

}  // namespace

RankValues::RankValues(const NodeOptions& options)
    : options_(options), seeds_(options.ranks, options.job_seed.value_or(options.input_seed)) {
  for (const uint32_t rank : options.real) seeds_[rank] = options.input_seed;
}

double RankValues::value(uint32_t rank, uint64_t element) const {
  if (options_.type == ElementType::kFloat) return Pattern(seeds_[rank], rank).at(element);
  const uint64_t drawn = splitmix64(seeds_[rank] ^ uint64_t{rank} << 40 ^ element);
  return static_cast<double>(options_.reduction == Reduction::kProd ? 1 + drawn % 2 : drawn % 5);
}

std::vector<uint8_t> RankValues::input(uint32_t rank, const Shape& shape) const {
  std::vector<uint8_t> bytes(shape.send * bytes_of(options_.type));
  with_type(options_.type, [&]<class T>(T) {
    for (uint64_t i = 0; i < shape.send; ++i) {
      const T element = from_double<T>(value(rank, i));
      std::memcpy(&bytes[i * sizeof element], &element, sizeof element);
    }
  });
  return bytes;
}

double RankValues::expected(uint32_t rank, const Shape& shape, uint64_t i, double& slack) const {
  slack = 0;
  switch (options_.kind) {
    case CollectiveKind::kAllGather:
      return value(static_cast<uint32_t>(i / shape.count), i % shape.count);
    case CollectiveKind::kBroadcast:
      return value(options_.root, i);
    case CollectiveKind::kSendRecv:
      return value((rank + options_.ranks - 1) % options_.ranks, i);
    case CollectiveKind::kAllToAll:
      return value(static_cast<uint32_t>(i / shape.count), rank * shape.count + i % shape.count);
    case CollectiveKind::kReduceScatter:
      i += rank * shape.count;
      break;
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduce:
      break;
  }
  double result = value(0, i), magnitude = std::abs(result);
  for (uint32_t r = 1; r < options_.ranks; ++r) {
    const double v = value(r, i);
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
  return result;
}

RankValues::Difference RankValues::check(uint32_t rank, const Shape& shape,
                                         std::span<const uint8_t> result) const {
  Difference difference;
  with_type(options_.type, [&]<class T>(T) {
    for (uint64_t i = 0; i < shape.receive; ++i) {
      T got;
      std::memcpy(&got, &result[i * sizeof got], sizeof got);
      double slack = 0;
      const double right = expected(rank, shape, i, slack);
      if (equal(got, right, slack)) continue;
      if (difference.wrong++ == 0) {
        difference.first = format_text("element %llu is %.9g, expected %.9g",
                                       static_cast<unsigned long long>(i), to_double(got), right);
      }
    }
  });
  return difference;
}

}  // namespace understudy
