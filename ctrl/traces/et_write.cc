#include "ctrl/traces/et_write.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <limits>
#include <utility>

#include "ctrl/traces/et_attributes.h"
#include "ctrl/traces/et_file.h"
#include "dataplane/base/assert.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

namespace io = google::protobuf::io;

template <typename Message>
void append(std::string& to, const Message& message) {
  const std::string bytes = message.SerializeAsString();
  {
    io::StringOutputStream stream(&to);
    io::CodedOutputStream coded(&stream);
    coded.WriteVarint32(static_cast<uint32_t>(bytes.size()));
  }
  to += bytes;
}

et::Attribute& add(et::Node& to, const char* name) {
  et::Attribute& attribute = *to.add_attributes();
  attribute.set_name(name);
  return attribute;
}

template <typename To, typename From>
Result<To> fitting(const char* name, From value) {
  if (value <= static_cast<From>(std::numeric_limits<To>::max())) return static_cast<To>(value);
  return fail(std::string(name) + " " + std::to_string(value) + " is too large for its type");
}

Result<void> add_signed(et::Node& to, const char* name, uint64_t value) {
  add(to, name).set_int64_value(TRY(fitting<int64_t>(name, value)));
  return {};
}
Result<void> add_small(et::Node& to, const char* name, uint32_t value) {
  add(to, name).set_int32_value(TRY(fitting<int32_t>(name, value)));
  return {};
}

Result<void> add_attributes(const TraceNode& node, et::Node& to) {
  add(to, "is_cpu_op").set_bool_value(node.on_cpu);
  if (node.more_ns > 0) add(to, kDurationNs).set_uint64_value(node.duration_ns());
  if (node.operations > 0) TRY(add_signed(to, "num_ops", node.operations));
  if (node.tensor_bytes > 0) add(to, "tensor_size").set_uint64_value(node.tensor_bytes);
  if (node.collective) {
    add(to, "comm_type").set_int64_value(static_cast<int64_t>(*node.collective));
  }
  if (node.bytes) TRY(add_signed(to, "comm_size", *node.bytes));
  if (node.source) TRY(add_small(to, "comm_src", *node.source));
  if (node.destination) TRY(add_small(to, "comm_dst", *node.destination));
  if (node.tag > 0 || node.kind == TraceNodeKind::kSend || node.kind == TraceNodeKind::kReceive) {
    TRY(add_small(to, "comm_tag", node.tag));
  }
  if (!node.group.empty()) add(to, "pg_name").set_string_value(node.group);
  if (!node.dimensions.empty()) {
    auto& list = *add(to, "involved_dim").mutable_bool_list();
    for (const bool part : node.dimensions) list.add_values(part);
  }
  return {};
}

/// In the type that the attribute has.
void set(et::Attribute& attribute, uint64_t value) {
  switch (attribute.value_case()) {
    case et::Attribute::kInt32Value:
      return attribute.set_int32_value(static_cast<int32_t>(value));
    case et::Attribute::kUint32Value:
      return attribute.set_uint32_value(static_cast<uint32_t>(value));
    case et::Attribute::kSint32Value:
      return attribute.set_sint32_value(static_cast<int32_t>(value));
    case et::Attribute::kFixed32Value:
      return attribute.set_fixed32_value(static_cast<uint32_t>(value));
    case et::Attribute::kSfixed32Value:
      return attribute.set_sfixed32_value(static_cast<int32_t>(value));
    case et::Attribute::kUint64Value:
      return attribute.set_uint64_value(value);
    default:
      return attribute.set_int64_value(static_cast<int64_t>(value));
  }
}

void change_attributes(const TraceNode& changed, et::Node& node) {
  for (et::Attribute& attribute : *node.mutable_attributes()) {
    if (attribute.name() == "comm_src") set(attribute, *changed.source);
    if (attribute.name() == "comm_dst") set(attribute, *changed.destination);
    if (attribute.name() == "comm_size") set(attribute, *changed.bytes);
    if (attribute.name() == "pg_name") attribute.set_string_value(changed.group);
  }
}

bool same_ends(const TraceNode& a, const TraceNode& b) {
  return a.source == b.source && a.destination == b.destination && a.group == b.group &&
         a.bytes == b.bytes;
}

}  // namespace

Result<std::string> write_et(const TraceGraph& graph, uint64_t more) {
  et::Metadata metadata;
  metadata.set_version("0.0.4");
  std::string file;
  append(file, metadata);
  const std::vector<TraceNodeParents> nodes = graph.parts();
  for (const auto& [node, data, control] : nodes) {
    et::Node to;
    to.set_id(node.id + more);
    to.set_name(node.name);
    to.set_type(static_cast<int32_t>(node.kind));
    for (const uint64_t id : control) to.add_control_parents(id + more);
    for (const uint64_t id : data) to.add_data_parents(id + more);
    to.set_duration_us(node.duration_us);
    const auto added = add_attributes(node, to);
    if (!added) return fail(title_of(node) + ": " + added.error().text);
    append(file, to);
  }
  return file;
}

Result<std::string> rewrite_et(std::span<const uint8_t> bytes,
                               const std::function<void(TraceNode&)>& change) {
  std::string file;
  io::CodedInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  bool first = true;
  uint32_t length = 0;
  while (static_cast<size_t>(stream.CurrentPosition()) < bytes.size()) {
    const bool there = stream.ReadVarint32(&length);
    ASSERT_INVARIANT(there);
    const uint8_t* const at = bytes.data() + stream.CurrentPosition();
    stream.Skip(static_cast<int>(length));
    if (std::exchange(first, false)) {
      et::Metadata metadata;
      ASSERT_INVARIANT(metadata.ParseFromArray(at, static_cast<int>(length)));
      append(file, metadata);
      continue;
    }
    et::Node node;
    ASSERT_INVARIANT(node.ParseFromArray(at, static_cast<int>(length)));
    TraceNode before;
    before.id = node.id();
    before.name = node.name();
    before.kind = static_cast<TraceNodeKind>(node.type());
    TRY(take_attributes(node, before));
    TraceNode after = before;
    change(after);
    if (!same_ends(before, after)) change_attributes(after, node);
    append(file, node);
  }
  return file;
}

}  // namespace understudy
