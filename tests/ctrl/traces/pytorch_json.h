// PyTorch's traces as tests write them.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "ctrl/traces/pytorch/device_trace.h"
#include "ctrl/traces/pytorch/host_trace.h"

namespace understudy {

/// A node in the form of schema 1.0.1; `more` are further keys, each with a comma before it.
inline std::string host_node(uint64_t id, uint64_t parent, const std::string& name,
                             const std::string& more = "") {
  return "{\"id\": " + std::to_string(id) + ", \"parent\": " + std::to_string(parent) +
         ", \"name\": \"" + name + "\", \"rf_id\": " + std::to_string(id) + ", \"tid\": 1" + more +
         "}";
}

inline std::string host_inputs(const std::string& values, const std::string& types) {
  return ", \"inputs\": " + values + ", \"input_types\": " + types;
}

/// With the roots of a process (1) and of its only thread (2).
inline std::string host_json(const std::vector<std::string>& nodes,
                             const std::string& schema = "1.0.1") {
  std::string text = "{\"schema\": \"" + schema + "\", \"pid\": 7, \"nodes\": [" +
                     host_node(2, 1, "[pytorch|profiler|execution_graph|thread]");
  for (const std::string& node : nodes) text += ",\n" + node;
  return text + ",\n" + host_node(1, 1, "[pytorch|profiler|execution_graph|process]") +
         "], \"finish_ts\": 5}";
}

/// Kineto's, in microseconds; `args` are the contents of that object.
inline std::string device_event(const std::string& category, const std::string& name, double ts,
                                double dur, int thread, const std::string& args = "") {
  std::ostringstream text;
  text.precision(17);
  text << "{\"ph\": \"X\", \"cat\": \"" << category << "\", \"name\": \"" << name
       << "\", \"pid\": 7, \"tid\": " << thread << ", \"ts\": " << ts << ", \"dur\": " << dur
       << ", \"args\": {" << args << "}}";
  return text.str();
}

/// An operation on the CPU with the number of its node and an external id.
inline std::string device_operation(uint64_t number, const std::string& name, double ts, double dur,
                                    int thread = 1) {
  return device_event("cpu_op", name, ts, dur, thread,
                      "\"Record function id\": " + std::to_string(number) +
                          ", \"External id\": " + std::to_string(number + 1000));
}

inline std::string device_json(const std::vector<std::string>& events) {
  std::string text = "{\"schemaVersion\": 1, \"traceEvents\": [";
  for (size_t i = 0; i < events.size(); ++i) text += (i == 0 ? "" : ",\n") + events[i];
  return text + "]}";
}

inline Result<HostTrace> host_of(const std::string& json) {
  std::istringstream file(json);
  return read_host_trace(file, "host.json");
}

inline Result<DeviceTrace> device_of(const std::string& json) {
  std::istringstream file(json);
  return read_device_trace(file, "device.json");
}

}  // namespace understudy
