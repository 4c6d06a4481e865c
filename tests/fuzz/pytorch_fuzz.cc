// libFuzzer target: any bytes are a host trace of PyTorch, and after the first zero byte a device trace
// of the same process. What is read of them is joined to an execution trace without a cycle, or refused
// with words.
#include <sstream>
#include <string>

#include "ctrl/traces/feeder_json.h"
#include "ctrl/traces/feeder_json_write.h"
#include "ctrl/traces/pytorch/host_stats.h"
#include "ctrl/traces/pytorch/rank_graph.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace understudy;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const size_t zero = bytes.find('\0');
  RankTraces rank;
  std::istringstream host_file(bytes.substr(0, zero));
  auto host = read_host_trace(host_file, "host.json");
  if (!host) must(host.error().text.starts_with("host.json: "));
  std::istringstream device_file(zero == std::string::npos ? "" : bytes.substr(zero + 1));
  auto device = read_device_trace(device_file, "device.json");
  if (!device) must(device.error().text.starts_with("device.json: "));
  if (!host) return 0;
  must(host->parents.size() == host->nodes.size());
  must(!stats_text(*host).empty() && !stats_json(*host).empty());
  rank.host = *std::move(host);
  rank.communications = communications_of(rank.host);
  const size_t nodes = rank.host.nodes.size() + rank.communications.size();
  size_t kernels = 0;
  if (device) {
    auto joined = join_traces(rank.host, *device);
    if (joined) {
      kernels = joined->kernels.size();
      rank.joined = *std::move(joined);
      rank.device = *std::move(device);
    } else {
      must(!joined.error().text.empty());
    }
  }
  const auto made = graph_of_rank(rank);
  if (!made) {
    must(!made.error().text.empty());
    return 0;
  }
  must(made->graph.nodes().size() <= nodes + kernels && made->graph.dangling().empty());
  std::ostringstream text;
  write_feeder_json(made->graph, text);
  const auto again = read_feeder_json(text.str(), "again.json");
  must(again && again->nodes().size() == made->graph.nodes().size());
  must(again->data().parents == made->graph.data().parents);
  return 0;
}
