#include "ctrl/traces/pytorch/device_trace.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "ctrl/traces/pytorch/json_items.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

using Json = nlohmann::json;

constexpr const char* kLaunches[] = {"cuLaunchKernel",
                                     "cuLaunchKernelEx",
                                     "cudaLaunchKernel",
                                     "cudaLaunchKernelExC",
                                     "cudaLaunchCooperativeKernel",
                                     "cudaMemcpy",
                                     "cudaMemcpyAsync",
                                     "cudaMemcpyFromSymbol",
                                     "cudaMemcpyToSymbol",
                                     "hipLaunchKernel",
                                     "hipExtLaunchKernel",
                                     "hipExtModuleLaunchKernel",
                                     "hipModuleLaunchKernel",
                                     "hipMemcpyWithStream",
                                     "hipMemcpyAsync"};
constexpr const char* kWaits[] = {"cudaDeviceSynchronize", "cudaStreamSynchronize",
                                  "cudaEventSynchronize",  "hipDeviceSynchronize",
                                  "hipStreamSynchronize",  "hipEventSynchronize"};

template <size_t count>
bool is_one_of(const std::string& name, const char* const (&words)[count]) {
  return std::find(std::begin(words), std::end(words), name) != std::end(words);
}

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<int64_t> whole_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return {};
  if (found->is_number_unsigned() &&
      found->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return {};
  }
  return found->get<int64_t>();
}

std::optional<uint32_t> whole32_of(const Json& object, const char* key) {
  const auto read = whole_of(object, key);
  if (!read || *read < 0 || *read > std::numeric_limits<uint32_t>::max()) return {};
  return static_cast<uint32_t>(*read);
}

/// Microseconds, with a fraction, or written as a string.
Result<int64_t> nanoseconds(const Json& event, const char* key) {
  const auto found = event.find(key);
  if (found == event.end()) return fail(std::string(key) + " is missing");
  constexpr int64_t kMostUs = int64_t{4} << 50;  // 142 years
  if (found->is_number_integer()) {
    const auto us = whole_of(event, key);
    if (us && *us >= -kMostUs && *us <= kMostUs) return *us * 1000;
  } else if (found->is_number()) {
    const double us = found->get<double>();
    if (std::abs(us) <= static_cast<double>(kMostUs)) return std::llround(us * 1000);
  }
  return fail(std::string(key) + " is no time in microseconds");
}

/// Bytes of one element, by the names of c10::ScalarType.
std::optional<uint64_t> element_bytes(const std::string& type) {
  static constexpr std::pair<const char*, uint64_t> kTypes[] = {{"Byte", 1},
                                                                {"Char", 1},
                                                                {"Bool", 1},
                                                                {"Short", 2},
                                                                {"Half", 2},
                                                                {"BFloat16", 2},
                                                                {"Int", 4},
                                                                {"Float", 4},
                                                                {"Long", 8},
                                                                {"Double", 8},
                                                                {"ComplexFloat", 8},
                                                                {"ComplexDouble", 16},
                                                                {"UInt16", 2},
                                                                {"UInt32", 4},
                                                                {"UInt64", 8},
                                                                {"Float8_e4m3fn", 1},
                                                                {"Float8_e5m2", 1},
                                                                {"Float8_e4m3fnuz", 1},
                                                                {"Float8_e5m2fnuz", 1}};
  for (const auto& [name, bytes] : kTypes) {
    if (type == name) return bytes;
  }
  return {};
}

/// A list of ranks, or its text "[0, 1]"; one that was cut off ("[0, 1, ...]") is none.
std::vector<uint32_t> ranks_of(const Json& arguments) {
  const auto found = arguments.find("Process Group Ranks");
  if (found == arguments.end()) return {};
  const Json list =
      found->is_string() ? Json::parse(found->get<std::string>(), nullptr, false) : *found;
  std::vector<uint32_t> ranks;
  if (!list.is_array()) return ranks;
  for (const Json& rank : list) {
    if (!rank.is_number_unsigned() || rank.get<uint64_t>() > std::numeric_limits<uint32_t>::max()) {
      return {};
    }
    ranks.push_back(rank.get<uint32_t>());
  }
  return ranks;
}

class DeviceReader {
 public:
  Result<void> key(const std::string& key) const {
    if (key == "nodes") return fail("this is a host trace (it has nodes), not a device trace");
    if (key == "workload_graph") {
      return fail("this is the JSON of Chakra's feeder, not a device trace of PyTorch");
    }
    return {};
  }

  Result<void> other(const std::string& key, const Json& value) {
    if (key != "distributedInfo" || !value.is_object()) return {};
    trace_.rank = whole32_of(value, "rank");
    trace_.ranks = whole32_of(value, "world_size");
    return {};
  }

  Result<void> item(const Json& item) {
    if (!item.is_object()) return fail("an event is not an object");
    if (!item.contains("ph")) return fail("this is no event of a trace: it has no ph");
    if (text_of(item, "ph") != "X") return {};
    const auto taken = take_event(item);
    if (!taken) {
      return fail("event " + std::to_string(count_) + " ('" + text_of(item, "name").substr(0, 60) +
                  "'): " + taken.error().text);
    }
    ++count_;
    return {};
  }

  Result<DeviceTrace> finish(const JsonItemsRead& read) {
    if (!read.has_list) return fail("this is no device trace: it has no list traceEvents");
    const bool runs =
        std::any_of(trace_.events.begin(), trace_.events.end(),
                    [](const DeviceEvent& event) { return event.kind == DeviceEventKind::kCpu; });
    if (!runs) return fail("the trace has no operation of the CPU");
    name_streams();
    sort();
    return std::move(trace_);
  }

 private:
  /// Nothing: it does not count.
  static std::optional<DeviceEventKind> kind_of(const std::string& category,
                                                const std::string& name, bool is_plain) {
    if (is_plain || category == "cpu_op" || category == "user_annotation" ||
        category == "Operator") {
      if (name.find("ProfilerStep") != std::string::npos) return {};
      return DeviceEventKind::kCpu;
    }
    if (category == "cuda_runtime" || category == "cuda_driver" || category == "Runtime") {
      if (is_one_of(name, kLaunches)) return DeviceEventKind::kLaunch;
      if (is_one_of(name, kWaits)) return DeviceEventKind::kWait;
      return {};
    }
    if (category == "kernel" || category == "gpu_memcpy" || category == "Kernel" ||
        category == "Memcpy") {
      return DeviceEventKind::kGpu;
    }
    return {};
  }

  Result<void> take_event(const Json& item) {
    static const Json kNothing = Json::object();
    const std::string category = text_of(item, "cat");
    const auto found = item.find("args");
    const Json& arguments = found != item.end() && found->is_object() ? *found : kNothing;
    DeviceEvent event;
    event.name = text_of(item, "name");
    event.correlation = whole_of(arguments, "correlation");
    if (category == "cuda_sync") {
      if (event.correlation) waited_[*event.correlation] = whole_of(arguments, "stream");
      return {};
    }
    const bool is_plain = category.empty() && text_of(item, "pid") == "CPU functions";
    const auto kind = kind_of(category, event.name, is_plain);
    if (!kind) return {};
    event.kind = *kind;
    event.start_ns = TRY(nanoseconds(item, "ts"));
    event.duration_ns = TRY(nanoseconds(item, "dur"));
    if (event.duration_ns < 0) return fail("dur is less than 0");
    event.thread = whole_of(item, "tid").value_or(0);
    event.external = whole_of(arguments, "External id");
    event.stream = whole_of(arguments, "stream").value_or(0);
    const auto number = whole_of(arguments, "Record function id");
    if (number && *number > 0) {
      event.record_function = static_cast<uint64_t>(*number);
      trace_.numbers_operations = true;
    }
    if (event.kind == DeviceEventKind::kCpu) TRY(take_process(item));
    if (event.kind == DeviceEventKind::kGpu) take_communication(arguments);
    trace_.events.push_back(std::move(event));
    return {};
  }

  Result<void> take_process(const Json& item) {
    const auto process = whole_of(item, "pid");
    if (!process || *process < 0) return {};
    const auto number = static_cast<uint64_t>(*process);
    if (trace_.process && *trace_.process != number) {
      return fail("it is of process " + std::to_string(number) + ", others of process " +
                  std::to_string(*trace_.process) + ": the trace is of several processes");
    }
    trace_.process = number;
    return {};
  }

  void take_communication(const Json& arguments) {
    DeviceCommunication made;
    made.collective = text_of(arguments, "Collective name");
    made.group = text_of(arguments, "Process Group Name");
    made.ranks = ranks_of(arguments);
    const auto elements = whole_of(arguments, "In msg nelems");
    const auto each = element_bytes(text_of(arguments, "dtype"));
    constexpr int64_t kMost = int64_t{1} << 48;
    if (elements && *elements >= 0 && *elements <= kMost && each) {
      made.bytes = static_cast<uint64_t>(*elements) * *each;
    }
    if (made.collective.empty() && made.group.empty() && !made.bytes) return;
    made.event = static_cast<uint32_t>(trace_.events.size());
    trace_.communications.push_back(std::move(made));
  }

  /// Which stream a call waits for, from the event of category cuda_sync of the same correlation.
  void name_streams() {
    for (DeviceEvent& event : trace_.events) {
      if (event.kind != DeviceEventKind::kWait) continue;
      event.stream = -2;
      if (event.name.find("Device") != std::string::npos) {
        event.stream = -1;
      } else if (event.correlation) {
        const auto known = waited_.find(*event.correlation);
        if (known != waited_.end() && known->second) event.stream = *known->second;
      }
    }
  }

  void sort() {
    const auto& events = trace_.events;
    std::vector<uint32_t> order(events.size()), place(events.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&events](uint32_t a, uint32_t b) {
      return std::pair(events[a].start_ns, -events[a].duration_ns) <
             std::pair(events[b].start_ns, -events[b].duration_ns);
    });
    std::vector<DeviceEvent> sorted;
    sorted.reserve(order.size());
    for (const uint32_t i : order) {
      place[i] = static_cast<uint32_t>(sorted.size());
      sorted.push_back(std::move(trace_.events[i]));
    }
    trace_.events = std::move(sorted);
    for (auto& communication : trace_.communications) {
      communication.event = place[communication.event];
    }
    std::sort(trace_.communications.begin(), trace_.communications.end(),
              [](const auto& a, const auto& b) { return a.event < b.event; });
  }

  DeviceTrace trace_;
  std::map<int64_t, std::optional<int64_t>> waited_;  ///< streams by correlation
  uint64_t count_ = 0;
};

}  // namespace

const DeviceCommunication* DeviceTrace::communication_of(uint32_t event) const {
  const auto found =
      std::lower_bound(communications.begin(), communications.end(), event,
                       [](const auto& one, uint32_t wanted) { return one.event < wanted; });
  return found != communications.end() && found->event == event ? &*found : nullptr;
}

Result<DeviceTrace> read_device_trace(std::istream& file, const std::string& name) {
  DeviceReader reader;
  const JsonItemsSink sink = {
      [&](const std::string& key) { return reader.key(key); },
      [&](Json&& item, uint64_t /*byte*/) { return reader.item(item); },
      [&](const std::string& key, Json&& value) { return reader.other(key, value); }};
  auto trace = reader.finish(TRY(read_json_items(file, name, "traceEvents", sink)));
  if (!trace) return fail(name + ": " + trace.error().text);
  return trace;
}

}  // namespace understudy
