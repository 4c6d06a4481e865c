// What nodes of a host trace were given and give back: tensors, communications, communicators.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ctrl/traces/pytorch/host_trace.h"

namespace understudy {

/// A node's lists, and what its attributes say of a communication (from schema 1.1.0 on).
struct HostValues {
  const nlohmann::json* inputs = nullptr;  ///< lists of values and their types
  const nlohmann::json* input_types = nullptr;
  const nlohmann::json* outputs = nullptr;
  const nlohmann::json* output_types = nullptr;
  std::map<std::string, const nlohmann::json*> attributes;
};

/// Tensors in a value of a given type, in lists of lists too. Those without memory are left out. An
/// error says what is no tensor.
Result<std::vector<HostTensor>> tensors_of(const nlohmann::json& value, const std::string& type);

/// Counts and bytes of all tensors.
Result<void> take_tensors(const HostValues& values, HostNode& node);

/// Of a name as c10d::allreduce_, nccl:_all_gather_base, ncclDevKernel_AllReduce_Sum_f32: what it does.
/// Nothing: no communication.
struct CommunicationName {
  TraceNodeKind kind = TraceNodeKind::kCollective;
  std::optional<TraceCollective> collective;
};
std::optional<CommunicationName> communication_of(const std::string& name);

/// Of a kOperation, kRecord or kMark; nothing if such a node is no communication at all.
Result<std::optional<HostCall>> call_of(const HostNode& node, const HostValues& values);

/// Of a kProcessGroups. PyTorch cuts long texts off: then there are none.
std::vector<HostGroup> groups_of(const HostValues& values);

}  // namespace understudy
