#include "ctrl/traces/pytorch/host_values.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <utility>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMost32 = std::numeric_limits<uint32_t>::max();

std::optional<uint64_t> whole(const Json& value) {
  if (!value.is_number_integer()) return {};
  if (!value.is_number_unsigned() && value.get<int64_t>() < 0) return {};
  return value.get<uint64_t>();
}

std::optional<uint32_t> whole32(const Json& value) {
  const auto read = whole(value);
  if (!read || *read > kMost32) return {};
  return static_cast<uint32_t>(*read);
}

/// A number, or its digits in a string.
std::optional<std::string> name_in(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  const auto read = whole(value);
  if (!read) return {};
  return std::to_string(*read);
}

std::string type_at(const Json* types, size_t i) {
  if (types == nullptr || i >= types->size() || !(*types)[i].is_string()) return "";
  return (*types)[i].get<std::string>();
}

bool has_tensors(const std::string& type) { return type.find("Tensor(") != std::string::npos; }

/// [tensor, storage, offset, elements, bytes of an element, device]
bool looks_like_tensor(const Json& value) {
  constexpr size_t kFields = 6;
  return value.size() >= kFields && value[0].is_number() && value[kFields - 1].is_string();
}

Result<void> append_tensors(const Json& value, std::vector<HostTensor>& to) {
  if (!value.is_array()) return {};  // "<None>" in a list
  if (!looks_like_tensor(value)) {
    for (const Json& part : value) TRY(append_tensors(part, to));
    return {};
  }
  const auto tensor = whole(value[0]), storage = whole(value[1]), elements = whole(value[3]),
             element_bytes = whole(value[4]);
  if (!tensor || !storage || !elements || !element_bytes) {
    return fail("a tensor has ids or sizes that are no whole numbers of 0 or more");
  }
  if (*storage == 0) return {};  // not defined: it has no memory
  constexpr uint64_t kMostBytes = uint64_t{1} << 50;
  if (*element_bytes != 0 && *elements > kMostBytes / *element_bytes) {
    return fail("a tensor has more than 2^50 bytes");
  }
  to.push_back({*tensor, *storage, *elements, *element_bytes});
  return {};
}

/// All in values `first` up to `end`.
Result<std::vector<HostTensor>> tensors_between(const HostValues& values, size_t first,
                                                size_t end) {
  std::vector<HostTensor> all;
  for (size_t i = first; i < std::min(end, values.inputs->size()); ++i) {
    const auto some = TRY(tensors_of((*values.inputs)[i], type_at(values.input_types, i)));
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

void take_bytes(const std::vector<HostTensor>& tensors, HostCall& call) {
  if (tensors.empty()) return;
  call.first_tensor = tensors.front();
  uint64_t bytes = 0;
  for (const HostTensor& tensor : tensors) bytes += tensor.bytes();
  call.bytes = bytes;
}

const Json* attribute(const HostValues& values, const char* name) {
  const auto found = values.attributes.find(name);
  return found == values.attributes.end() ? nullptr : found->second;
}

/// Operations that take what they write before what they read: (outputs, inputs, group, ..).
bool outputs_first(const HostCall& call) {
  if (call.kind != TraceNodeKind::kCollective) return false;
  switch (*call.collective) {
    case TraceCollective::kAllGather:
    case TraceCollective::kGather:
    case TraceCollective::kScatter:
    case TraceCollective::kAllToAll:
    case TraceCollective::kReduceScatter:
      return true;
    default:
      return false;
  }
}

/// c10d::send(tensors, group, rank, tag): arguments by torch/csrc/distributed/c10d/Ops.cpp.
Result<void> take_operation(const HostValues& values, HostCall& call) {
  const size_t first = outputs_first(call) ? 1 : 0;
  take_bytes(TRY(tensors_between(values, first, first + 1)), call);
  if (call.kind == TraceNodeKind::kCollective || values.inputs->size() < 4) return {};
  call.peer = whole32((*values.inputs)[2]);
  call.tag = whole32((*values.inputs)[3]).value_or(0);
  return {};
}

void take_group(const Json& value, HostCall& call) {
  if (value.is_array() && !value.empty()) {  // <name, description>, from 1.0.3 on
    call.group = name_in(value[0]).value_or("");
  } else if (value.is_string()) {
    const auto text = value.get<std::string>();
    if (!text.starts_with("<")) call.group = text;
  } else {
    call.group_handle = whole(value).value_or(0);
  }
}

/// (tensors, sequence, group, rank, name, splits of input and output, [first and step of ranks,]
/// ranks): torch/csrc/distributed/c10d/ParamCommsUtils.hpp.
Result<void> take_record(const HostValues& values, HostCall& call) {
  const Json& inputs = *values.inputs;
  size_t at = 0;  // of the name, which follows the rank; a group's name may stand before that
  while (at < inputs.size() &&
         !(inputs[at].is_string() && at >= 2 && inputs[at - 1].is_number_integer())) {
    ++at;
  }
  std::string name;
  if (at < inputs.size()) name = inputs[at].get<std::string>();
  if (const Json* told = attribute(values, "collective_name"); told && told->is_string()) {
    name = told->get<std::string>();
  }
  const auto what = communication_of(name);
  call.is_none = !what;
  if (!what) return {};
  call.kind = what->kind;
  call.collective = what->collective;
  take_bytes(TRY(tensors_between(values, 0, at)), call);
  if (at < inputs.size()) {
    take_group(inputs[at - 2], call);
    const auto rank = whole32(inputs[at - 1]);
    (call.kind == TraceNodeKind::kCollective ? call.rank : call.peer) = rank;
    constexpr size_t kFirst = 3, kStep = 4, kSize = 5;
    if (at + kSize < inputs.size()) {
      const auto first = whole32(inputs[at + kFirst]), step = whole32(inputs[at + kStep]),
                 size = whole32(inputs[at + kSize]);
      if (first && step && size) call.ranks = {*first, *step, *size};
    }
  }
  if (const Json* told = attribute(values, "pg_name"); told && told->is_string()) {
    call.group = told->get<std::string>();
  }
  return {};
}

std::vector<uint32_t> ranks_in(const Json& list) {
  std::vector<uint32_t> ranks;
  if (!list.is_array()) return ranks;
  for (const Json& rank : list) {
    const auto read = whole32(rank);
    if (!read) return {};
    ranks.push_back(*read);
  }
  return ranks;
}

}  // namespace

Result<std::vector<HostTensor>> tensors_of(const Json& value, const std::string& type) {
  std::vector<HostTensor> tensors;
  if (!has_tensors(type)) return tensors;
  if (type.starts_with("Tensor(") && !(value.is_array() && looks_like_tensor(value))) {
    return fail("a value of type " + type.substr(0, 60) + " is no tensor");
  }
  TRY(append_tensors(value, tensors));
  return tensors;
}

Result<void> take_tensors(const HostValues& values, HostNode& node) {
  const auto take = [](const Json& list, const Json* types, uint64_t& bytes,
                       uint32_t& count) -> Result<void> {
    for (size_t i = 0; i < list.size(); ++i) {
      const auto tensors = TRY(tensors_of(list[i], type_at(types, i)));
      for (const HostTensor& tensor : tensors) {
        bytes += tensor.bytes();
        ++count;
      }
    }
    return {};
  };
  TRY(take(*values.inputs, values.input_types, node.input_bytes, node.input_tensors));
  return take(*values.outputs, values.output_types, node.output_bytes, node.output_tensors);
}

std::optional<CommunicationName> communication_of(const std::string& name) {
  const size_t colon = name.rfind(':');
  std::string plain;
  for (const char c : name.substr(colon == std::string::npos ? 0 : colon + 1)) {
    if (c == ' ' || c == '(' || c == '<') break;
    if (c == '_' || c == '-') continue;
    plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  // Longer words before those that are parts of them.
  static const std::vector<std::pair<const char*, CommunicationName>> kWords = [] {
    using Collective = TraceCollective;
    std::vector<std::pair<const char*, CommunicationName>> words;
    for (const auto& [word, collective] : {std::pair{"allreduce", Collective::kAllReduce},
                                           {"allgather", Collective::kAllGather},
                                           {"reducescatter", Collective::kReduceScatter},
                                           {"alltoall", Collective::kAllToAll},
                                           {"broadcast", Collective::kBroadcast},
                                           {"barrier", Collective::kBarrier},
                                           {"gather", Collective::kGather},
                                           {"scatter", Collective::kScatter},
                                           {"reduce", Collective::kReduce}}) {
      words.emplace_back(word, CommunicationName{TraceNodeKind::kCollective, collective});
    }
    words.emplace_back("send", CommunicationName{TraceNodeKind::kSend, {}});
    words.emplace_back("recv", CommunicationName{TraceNodeKind::kReceive, {}});
    return words;
  }();
  for (const auto& [word, what] : kWords) {
    if (plain.find(word) != std::string::npos) return what;
  }
  return {};
}

Result<std::optional<HostCall>> call_of(const HostNode& node, const HostValues& values) {
  HostCall call;
  if (node.kind == HostNodeKind::kRecord) {
    TRY(take_record(values, call));
    return std::optional(call);
  }
  const auto what = communication_of(node.name);
  if (!what) return std::optional<HostCall>();
  call.kind = what->kind;
  call.collective = what->collective;
  if (node.kind == HostNodeKind::kOperation) {
    TRY(take_operation(values, call));
  } else {
    take_bytes(TRY(tensors_between(values, 0, values.inputs->size())), call);
  }
  return std::optional(call);
}

std::vector<HostGroup> groups_of(const HostValues& values) {
  std::vector<HostGroup> groups;
  for (const Json& value : *values.inputs) {
    if (!value.is_string()) continue;
    const Json list = Json::parse(value.get<std::string>(), nullptr, false);
    if (!list.is_array()) continue;
    for (const Json& one : list) {
      if (!one.is_object() || !one.contains("pg_name")) continue;
      HostGroup group;
      group.name = name_in(one["pg_name"]).value_or("");
      if (one.contains("pg_desc") && one["pg_desc"].is_string()) {
        group.description = one["pg_desc"].get<std::string>();
      }
      if (one.contains("backend_id")) group.handle = whole(one["backend_id"]).value_or(0);
      if (one.contains("ranks")) group.ranks = ranks_in(one["ranks"]);
      for (const char* key : {"group_size", "pg_size"}) {
        if (!group.size && one.contains(key)) group.size = whole32(one[key]);
      }
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

}  // namespace understudy
