#include "ctrl/traces/et_attributes.h"

#include <limits>
#include <optional>

#include "ctrl/traces/et_file.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

const char* type_of(const et::Attribute& attribute) {
  switch (attribute.value_case()) {
    case et::Attribute::kDoubleValue:
      return "a double";
    case et::Attribute::kFloatValue:
      return "a float";
    case et::Attribute::kStringValue:
      return "a string";
    case et::Attribute::kBytesValue:
      return "bytes";
    case et::Attribute::kBoolValue:
      return "a bool";
    case et::Attribute::kInt32Value:
    case et::Attribute::kInt64Value:
    case et::Attribute::kUint32Value:
    case et::Attribute::kUint64Value:
    case et::Attribute::kSint32Value:
    case et::Attribute::kSint64Value:
    case et::Attribute::kFixed32Value:
    case et::Attribute::kFixed64Value:
    case et::Attribute::kSfixed32Value:
    case et::Attribute::kSfixed64Value:
      return "an integer";
    case et::Attribute::VALUE_NOT_SET:
      return "without a value";
    default:
      return "a list";
  }
}

/// Negative ones and those above int64 apart.
struct Integer {
  bool negative = false;
  uint64_t value = 0;
};

std::optional<Integer> integer_of(const et::Attribute& a) {
  const auto with_sign = [](int64_t v) { return Integer{v < 0, static_cast<uint64_t>(v)}; };
  switch (a.value_case()) {
    case et::Attribute::kInt32Value:
      return with_sign(a.int32_value());
    case et::Attribute::kInt64Value:
      return with_sign(a.int64_value());
    case et::Attribute::kSint32Value:
      return with_sign(a.sint32_value());
    case et::Attribute::kSint64Value:
      return with_sign(a.sint64_value());
    case et::Attribute::kSfixed32Value:
      return with_sign(a.sfixed32_value());
    case et::Attribute::kSfixed64Value:
      return with_sign(a.sfixed64_value());
    case et::Attribute::kUint32Value:
      return Integer{false, a.uint32_value()};
    case et::Attribute::kUint64Value:
      return Integer{false, a.uint64_value()};
    case et::Attribute::kFixed32Value:
      return Integer{false, a.fixed32_value()};
    case et::Attribute::kFixed64Value:
      return Integer{false, a.fixed64_value()};
    case et::Attribute::kBoolValue:
      return Integer{false, a.bool_value() ? 1u : 0u};
    default:
      return std::nullopt;
  }
}

template <typename T>
Result<T> number(const et::Attribute& attribute) {
  const auto integer = integer_of(attribute);
  if (!integer) return fail(attribute.name() + " is " + type_of(attribute) + ", not an integer");
  if (integer->negative) return fail(attribute.name() + " is less than 0");
  if (integer->value > std::numeric_limits<T>::max())
    return fail(attribute.name() + " is too large");
  return static_cast<T>(integer->value);
}

Result<void> take(const et::Attribute& attribute, TraceNode& node) {
  const std::string& name = attribute.name();
  if (name == "is_cpu_op") {
    node.on_cpu = TRY(number<uint64_t>(attribute)) != 0;
  } else if (name == kDurationNs) {
    node.set_duration_ns(TRY(number<uint64_t>(attribute)));
  } else if (name == "num_ops") {
    node.operations = TRY(number<uint64_t>(attribute));
  } else if (name == "tensor_size") {
    node.tensor_bytes = TRY(number<uint64_t>(attribute));
  } else if (name == "comm_type") {
    const auto type = TRY(number<uint64_t>(attribute));
    if (type >= kTraceCollectives) return fail("comm_type is " + std::to_string(type));
    node.collective = static_cast<TraceCollective>(type);
  } else if (name == "comm_size") {
    node.bytes = TRY(number<uint64_t>(attribute));
  } else if (name == "comm_src") {
    node.source = TRY(number<uint32_t>(attribute));
  } else if (name == "comm_dst") {
    node.destination = TRY(number<uint32_t>(attribute));
  } else if (name == "comm_tag") {
    node.tag = TRY(number<uint32_t>(attribute));
  } else if (name == "pg_name") {
    if (attribute.value_case() != et::Attribute::kStringValue) {
      return fail(name + " is " + type_of(attribute) + ", not a string");
    }
    node.group = attribute.string_value();
  } else if (name == "involved_dim") {
    if (attribute.value_case() != et::Attribute::kBoolList) {
      return fail(name + " is " + type_of(attribute) + ", not a list of bools");
    }
    const auto& values = attribute.bool_list().values();
    if (values.empty()) return fail(name + " is empty");
    node.dimensions.assign(values.begin(), values.end());
  }
  return {};
}

}  // namespace

Result<void> take_attributes(const et::Node& from, TraceNode& node) {
  for (const et::Attribute& attribute : from.attributes()) TRY(take(attribute, node));
  return {};
}

}  // namespace understudy
