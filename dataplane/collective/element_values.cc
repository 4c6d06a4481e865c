#include "dataplane/collective/element_values.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "dataplane/base/assert.h"

namespace understudy {
namespace {

template <typename T>
T element(const Pattern& pattern, uint64_t i) {
  if constexpr (std::is_same_v<T, float>) {
    return pattern.at(i);
  } else if constexpr (std::is_same_v<T, double>) {
    return pattern.double_at(i);
  } else if constexpr (std::is_same_v<T, Float16>) {
    return pattern.float16_at(i);
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    return pattern.bfloat16_at(i);
  } else if constexpr (std::is_same_v<T, Float8E4m3>) {
    return pattern.float8_at<3>(i);
  } else if constexpr (std::is_same_v<T, Float8E5m2>) {
    return pattern.float8_at<2>(i);
  } else {
    return static_cast<T>(pattern.bits_at(i));
  }
}

/// Calls use.template operator()<T>() with the host's type of the elements.
template <typename Use>
auto with_type(DataType type, Use use) {
  switch (type) {
    case DataType::kInt8:
      return use.template operator()<int8_t>();
    case DataType::kInt32:
      return use.template operator()<int32_t>();
    case DataType::kUint32:
      return use.template operator()<uint32_t>();
    case DataType::kInt64:
      return use.template operator()<int64_t>();
    case DataType::kUint64:
      return use.template operator()<uint64_t>();
    case DataType::kFloat16:
      return use.template operator()<Float16>();
    case DataType::kFloat32:
      return use.template operator()<float>();
    case DataType::kFloat64:
      return use.template operator()<double>();
    case DataType::kBfloat16:
      return use.template operator()<Bfloat16>();
    case DataType::kFloat8E4m3:
      return use.template operator()<Float8E4m3>();
    case DataType::kFloat8E5m2:
      return use.template operator()<Float8E5m2>();
    case DataType::kUint8:
      break;
  }
  return use.template operator()<uint8_t>();
}

/// One step. Floating-point values are finite or infinite: no reduction of contributions makes
/// another one.
template <ReduceOp kReduction, typename T>
T reduced(T a, T b) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>) {
    // The 24 bits of a float are enough for the sum or product to be rounded right by rounding twice.
    return T::of(reduced<kReduction, float>(a.value(), b.value()));
  } else if constexpr (std::is_same_v<T, Float8E4m3> || std::is_same_v<T, Float8E5m2>) {
    // NCCL reduces them as float16.
    return T::of(Float16::of(reduced<kReduction, float>(a.value(), b.value())).value());
  } else if constexpr (kReduction == ReduceOp::kMin) {
    return std::min(a, b);
  } else if constexpr (kReduction == ReduceOp::kMax) {
    return std::max(a, b);
  } else if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;  // the same digits, without overflow
    const uint64_t x = static_cast<Unsigned>(a), y = static_cast<Unsigned>(b);
    return static_cast<T>(kReduction == ReduceOp::kSum ? x + y : x * y);
  } else {
    return kReduction == ReduceOp::kSum ? a + b : a * b;
  }
}

template <typename T>
T load(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <ReduceOp kReduction, typename T, typename Other>
void reduce_all(std::span<uint8_t> values, Other other) {
  constexpr size_t kAtOnce = 128;  // in registers and the nearest cache
  T some[kAtOnce];
  constexpr size_t kSize = sizeof(T);
  const size_t count = values.size() / kSize;
  DEBUG_ASSERT_INVARIANT(count * kSize == values.size());
  for (size_t first = 0; first < count; first += kAtOnce) {
    const size_t here = std::min(kAtOnce, count - first);
    uint8_t* at = values.data() + first * kSize;
    std::memcpy(some, at, here * kSize);
    for (size_t i = 0; i < here; ++i) some[i] = reduced<kReduction, T>(some[i], other(first + i));
    std::memcpy(at, some, here * kSize);
  }
}

/// `other`.template operator()<T>(i): element i of what is reduced into `values`.
template <typename Other>
void reduce_typed(const ElementRule& rule, std::span<uint8_t> values, Other other) {
  with_type(rule.type, [&]<typename T>() {
    const auto typed = [other](size_t i) { return other.template operator()<T>(i); };
    switch (rule.reduction) {
      case ReduceOp::kSum:
        return reduce_all<ReduceOp::kSum, T>(values, typed);
      case ReduceOp::kProd:
        return reduce_all<ReduceOp::kProd, T>(values, typed);
      case ReduceOp::kMin:
        return reduce_all<ReduceOp::kMin, T>(values, typed);
      case ReduceOp::kMax:
        return reduce_all<ReduceOp::kMax, T>(values, typed);
    }
  });
}

}  // namespace

void fill_pattern(DataType type, const Pattern& pattern, uint64_t from, std::span<uint8_t> out) {
  // A copy: nothing that is written is taken for its key.
  with_type(type, [&, own = pattern]<typename T>() {
    uint64_t i = from / sizeof(T);
    size_t done = 0;
    const auto part = [&](size_t skip) {
      const T value = element<T>(own, i++);
      uint8_t bytes[sizeof value];
      std::memcpy(bytes, &value, sizeof value);
      const size_t count = std::min(sizeof value - skip, out.size() - done);
      std::memcpy(out.data() + done, bytes + skip, count);
      done += count;
    };
    if (from % sizeof(T) != 0 && !out.empty()) part(from % sizeof(T));
    for (; done + sizeof(T) <= out.size(); done += sizeof(T)) {
      const T value = element<T>(own, i++);
      std::memcpy(out.data() + done, &value, sizeof value);
    }
    if (done < out.size()) part(0);
  });
}

void reduce_pattern(const ElementRule& rule, const Pattern& pattern, uint64_t from,
                    std::span<uint8_t> values) {
  reduce_typed(rule, values,
               [&]<typename T>(size_t i) { return element<T>(pattern, from / sizeof(T) + i); });
}

void reduce_values(const ElementRule& rule, const uint8_t* other, std::span<uint8_t> values) {
  reduce_typed(rule, values, [&]<typename T>(size_t i) { return load<T>(other + i * sizeof(T)); });
}

uint64_t count_different(DataType type, std::span<const uint8_t> a, std::span<const uint8_t> b) {
  DEBUG_ASSERT_INVARIANT(a.size() == b.size());
  if (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0) return 0;
  const size_t each = element_bytes(type);
  uint64_t different = 0;
  for (size_t i = 0; i < a.size(); i += each) {
    const size_t bytes = std::min(each, a.size() - i);
    different += std::memcmp(a.data() + i, b.data() + i, bytes) != 0 ? 1 : 0;
  }
  return different;
}

}  // namespace understudy
