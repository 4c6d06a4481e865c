#include "ctrl/traces/astra_json.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

using Json = nlohmann::json;

/// A file's object, key by key.
class Object {
 public:
  Object(Json json, const std::string& name) : json_(std::move(json)), name_(name) {}

  static Result<Object> parse(const std::string& text, const std::string& name) {
    try {
      Json json = Json::parse(text);
      if (!json.is_object()) return fail(name + ": this is no JSON object");
      return Object(std::move(json), name);
    } catch (const Json::parse_error& error) {
      return fail(name + ": at byte " + std::to_string(error.byte) + ": this is not JSON");
    } catch (const Json::out_of_range&) {
      return fail(name + ": a number is too large");
    }
  }

  tl::unexpected<Error> wrong(const std::string& key, const std::string& what) const {
    return fail(name_ + ": " + key + " " + what);
  }
  const Json& json() const { return json_; }

  /// Of numbers that are whole; `otherwise` without the key.
  Result<uint64_t> whole(const char* key, uint64_t otherwise, uint64_t least, uint64_t most) const {
    if (!json_.contains(key)) return otherwise;
    const double value = TRY(real(key, 0));
    if (value != std::floor(value) || value < static_cast<double>(least) ||
        value > static_cast<double>(most)) {
      return wrong(key, "is not a whole number from " + std::to_string(least) + " to " +
                            std::to_string(most));
    }
    return static_cast<uint64_t>(value);
  }
  Result<double> real(const char* key, double otherwise) const {
    const auto found = json_.find(key);
    if (found == json_.end()) return otherwise;
    if (!found->is_number() || !(found->get<double>() >= 0)) {
      return wrong(key, "is not a number of 0 or more");
    }
    return found->get<double>();
  }
  Result<std::string> text(const char* key, const char* otherwise) const {
    const auto found = json_.find(key);
    if (found == json_.end()) return std::string(otherwise);
    if (!found->is_string()) return wrong(key, "is not a string");
    return found->get<std::string>();
  }
  Result<bool> flag(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) return false;
    if (found->is_boolean()) return found->get<bool>();
    return TRY(real(key, 0)) != 0;
  }
  /// Every key is one of `known`.
  Result<void> only(const std::vector<std::string>& known) const {
    for (const auto& [key, value] : json_.items()) {
      bool found = false;
      for (const std::string& one : known) found |= one == key;
      if (!found) return wrong("the key '" + key + "'", "is not known");
    }
    return {};
  }

 private:
  Json json_;
  const std::string& name_;
};

const std::map<std::string, TraceCollective> kImplementations = {
    {"all-reduce-implementation", TraceCollective::kAllReduce},
    {"all-gather-implementation", TraceCollective::kAllGather},
    {"reduce-scatter-implementation", TraceCollective::kReduceScatter},
    {"all-to-all-implementation", TraceCollective::kAllToAll}};

Result<std::vector<std::string>> list_of_words(const Object& object, const std::string& key) {
  const Json& list = object.json()[key];
  if (!list.is_array()) return object.wrong(key, "is not a list");
  std::vector<std::string> words;
  for (const Json& word : list) {
    if (!word.is_string()) return object.wrong(key, "has a value that is no string");
    words.push_back(word.get<std::string>());
  }
  return words;
}

/// Settings that would change times.
Result<void> check_covered(const Object& object) {
  const std::string policy = TRY(object.text("scheduling-policy", "LIFO"));
  if (policy != "LIFO" && policy != "FIFO" && policy != "EXPLICIT") {
    return object.wrong("scheduling-policy", "'" + policy + "' is not known");
  }
  const std::string optimization = TRY(object.text("collective-optimization", "baseline"));
  if (optimization != "baseline" && optimization != "localBWAware") {
    return object.wrong("collective-optimization", "'" + optimization + "' is not known");
  }
  // As many chunks of one dimension at once would share its links.
  const auto chunks = TRY(object.whole("active-chunks-per-dimension", 1, 1, 1 << 20));
  if (chunks != 1) return object.wrong("active-chunks-per-dimension", "above 1 is not covered");
  if (TRY(object.flag("boost-mode"))) return object.wrong("boost-mode", "is not covered");
  if (TRY(object.flag("model-shared-bus"))) {
    return object.wrong("model-shared-bus", "is not covered");
  }
  return {};
}

}  // namespace

Result<TraceSystem> read_astra_system(const std::string& text, const std::string& name) {
  const Object object = TRY(Object::parse(text, name));
  std::vector<std::string> known = {
      "scheduling-policy", "endpoint-delay", "active-chunks-per-dimension",
      "preferred-dataset-splits", "collective-optimization", "local-mem-bw", "boost-mode",
      "model-shared-bus", "roofline-enabled", "peak-perf", "replay-only",
      // Without effect on times here: logs, and parameters of the shared bus.
      "trace-enabled", "track-local-mem", "local-mem-trace-filename", "local-reduction-delay", "L",
      "o", "g", "G"};
  for (const auto& [key, collective] : kImplementations) known.push_back(key);
  TRY(object.only(known));
  TRY(check_covered(object));
  TraceSystem system;
  constexpr uint64_t kMost = 1'000'000'000;
  system.endpoint_ns = static_cast<int64_t>(TRY(object.whole("endpoint-delay", 10, 1, kMost)));
  system.splits = TRY(object.whole("preferred-dataset-splits", 0, 1, 1 << 20));
  system.memory_gb_s = TRY(object.real("local-mem-bw", 0));
  system.peak_tflops = TRY(object.real("peak-perf", 0));
  system.reduces_by_parts =
      TRY(object.text("collective-optimization", "baseline")) == "localBWAware";
  system.roofline = TRY(object.flag("roofline-enabled"));
  system.replay = TRY(object.flag("replay-only"));
  if (system.roofline && !(system.memory_gb_s > 0 && system.peak_tflops > 0)) {
    return object.wrong("roofline-enabled", "needs local-mem-bw and peak-perf");
  }
  for (const auto& [key, collective] : kImplementations) {
    if (!object.json().contains(key)) continue;
    system.algorithms[collective] = TRY(list_of_words(object, key));
  }
  return system;
}

Result<TraceMemory> read_astra_memory(const std::string& text, const std::string& name) {
  const Object object = TRY(Object::parse(text, name));
  TRY(object.only(
      {"memory-type", "remote-mem-latency", "remote-mem-bw", "num-nodes", "num-npus-per-node"}));
  const std::map<std::string, TraceMemory::Kind> kinds = {
      {"NO_MEMORY_EXPANSION", TraceMemory::Kind::kNone},
      {"PER_NPU_MEMORY_EXPANSION", TraceMemory::Kind::kPerRank},
      {"PER_NODE_MEMORY_EXPANSION", TraceMemory::Kind::kPerNode},
      {"MEMORY_POOL", TraceMemory::Kind::kPool}};
  const std::string type = TRY(object.text("memory-type", ""));
  const auto kind = kinds.find(type);
  if (kind == kinds.end()) return object.wrong("memory-type", "'" + type + "' is not known");
  TraceMemory memory;
  memory.kind = kind->second;
  if (memory.kind == TraceMemory::Kind::kNone) return memory;
  constexpr uint64_t kMost = 1'000'000'000'000;
  memory.latency_ns = static_cast<int64_t>(TRY(object.whole("remote-mem-latency", 0, 0, kMost)));
  memory.bytes_per_ns = TRY(object.real("remote-mem-bw", 0));
  if (!(memory.bytes_per_ns > 0)) return object.wrong("remote-mem-bw", "is needed, above 0");
  if (memory.kind != TraceMemory::Kind::kPerNode) return memory;
  constexpr uint64_t kMostNodes = 1 << 20;
  for (const char* key : {"num-nodes", "num-npus-per-node"}) {
    if (!object.json().contains(key)) return object.wrong(key, "is needed");
  }
  memory.nodes = static_cast<uint32_t>(TRY(object.whole("num-nodes", 0, 1, kMostNodes)));
  memory.ranks_per_node =
      static_cast<uint32_t>(TRY(object.whole("num-npus-per-node", 0, 1, kMostNodes)));
  return memory;
}

Result<std::map<uint32_t, std::vector<uint32_t>>> read_astra_groups(const std::string& text,
                                                                    const std::string& name) {
  const Object object = TRY(Object::parse(text, name));
  std::map<uint32_t, std::vector<uint32_t>> groups;
  for (const auto& [key, list] : object.json().items()) {
    uint32_t number = 0;
    const char* end = key.data() + key.size();
    const auto [at, error] = std::from_chars(key.data(), end, number);
    if (error != std::errc() || at != end || number == 0) {
      return object.wrong("the group '" + key + "'", "has no number above 0");
    }
    std::vector<uint32_t> ranks;
    if (!list.is_array()) return object.wrong("the group " + key, "is not a list of ranks");
    for (const Json& rank : list) {
      if (!rank.is_number_unsigned() ||
          rank.get<uint64_t>() > std::numeric_limits<uint32_t>::max()) {
        return object.wrong("the group " + key, "has a rank that is no number");
      }
      ranks.push_back(rank.get<uint32_t>());
    }
    if (!groups.emplace(number, std::move(ranks)).second) {
      return object.wrong("the group " + key, "occurs twice");
    }
  }
  return groups;
}

}  // namespace understudy
