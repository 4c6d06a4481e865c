#include "ctrl/peers/ring/node_job.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "ctrl/peers/ring/message_fields.h"

namespace understudy {
namespace {

using nlohmann::json;

constexpr uint32_t kMostNodes = 1 << 20;
constexpr uint32_t kMostGpus = 1024;
constexpr uint32_t kMostChannels = 64;
constexpr uint32_t kMostBuffer = 1 << 30;
constexpr uint64_t kMostPicoseconds = uint64_t{1} << 50;
constexpr uint32_t kMostWindow = 256;  ///< slots of the memory for credits

json to_json(const Communicator& c) {
  return {{"nodes", c.nodes},
          {"gpus", c.gpus},
          {"first_nic", c.first_nic},
          {"nics", c.nics},
          {"nic_stride", c.nic_stride},
          {"nic_gigabytes", c.nic_gigabytes},
          {"channels", c.channels},
          {"search_channels", c.search_channels},
          {"nccl", c.version.minor},
          {"simple", c.buffers.simple},
          {"ll", c.buffers.ll},
          {"ll128", c.buffers.ll128},
          {"p2p_chunk", c.buffers.p2p_chunk},
          {"orders", c.orders},
          {"channels_per_peer", c.channels_per_peer}};
}

json to_json(const Operation& o) {
  return {{"collective", name_of(kCollectiveNames, o.collective)},
          {"algorithm", name_of(kAlgorithmNames, o.algorithm)},
          {"protocol", name_of(kProtocolNames, o.protocol)},
          {"data_type", name_of(kDataTypeNames, o.type)},
          {"count", o.count},
          {"root", o.root},
          {"channels", o.channels},
          {"threads", o.threads},
          {"pair_bytes", o.pair_bytes}};
}

json to_json(const NodeJobMessage::Kind& kind) {
  json operations = json::array();
  for (const Operation& operation : kind.operations) operations.push_back(to_json(operation));
  return {{"bytes", kind.bytes}, {"operations", std::move(operations)}};
}

std::vector<std::string> texts_of(const std::vector<IpAddress>& addresses) {
  std::vector<std::string> texts;
  texts.reserve(addresses.size());
  for (const IpAddress& address : addresses) texts.push_back(address.text());
  return texts;
}

json to_json(const NodeJobMessage::Link& link) {
  return {{"rank", link.rank},
          {"peer_rank", link.peer_rank},
          {"channel", link.channel},
          {"index", link.index},
          {"client_sends", link.client_sends},
          {"slots", link.slots},
          {"slot_bytes", link.slot_bytes},
          {"local", texts_of(link.local)},
          {"remote", texts_of(link.remote)}};
}

json to_json(const EntryStep& step) {
  const auto ps = [](Duration time) { return static_cast<uint64_t>(time.ps()); };
  return {{"beside_ps", ps(step.beside)},
          {"waits", step.waits},
          {"compute_ps", ps(step.compute)},
          {"delay_ps", ps(step.delay)},
          {"period_ps", ps(step.period)}};
}

EntryStep read_step(MessageFields& f) {
  constexpr uint64_t kMostTime = uint64_t{1} << 60;  // ten days
  const auto time = [&](const char* key) {
    return Duration::ps(f.number<int64_t>(key, 0, kMostTime));
  };
  EntryStep step;
  step.beside = time("beside_ps");
  step.waits = f.yes_or_no("waits");
  step.compute = time("compute_ps");
  step.delay = time("delay_ps");
  step.period = time("period_ps");
  return step;
}

Communicator read_communicator(MessageFields& f) {
  Communicator c;
  c.nodes = f.number<uint32_t>("nodes", 1, kMostNodes);
  c.gpus = f.number<uint32_t>("gpus", 1, kMostGpus);
  c.first_nic = f.number<uint32_t>("first_nic", 0, kMostGpus);
  c.nics = f.number<uint32_t>("nics", 1, kMostGpus);
  c.nic_stride = f.number<uint32_t>("nic_stride", 0, kMostGpus);
  c.nic_gigabytes = f.number<uint32_t>("nic_gigabytes", 0, UINT32_MAX);
  c.channels = f.number<uint32_t>("channels", 1, kMostChannels);
  c.search_channels = f.number<uint32_t>("search_channels", 0, kMostChannels);
  c.version.minor = f.number<uint32_t>("nccl", NcclVersion::kOldest, NcclVersion::kNewest);
  c.buffers.simple = f.number<uint32_t>("simple", 8, kMostBuffer);
  c.buffers.ll = f.number<uint32_t>("ll", 8, kMostBuffer);
  c.buffers.ll128 = f.number<uint32_t>("ll128", 8, kMostBuffer);
  c.buffers.p2p_chunk = f.number<uint32_t>("p2p_chunk", 1, kMostBuffer);
  c.channels_per_peer = f.number<uint32_t>("channels_per_peer", 0, kMostChannels);
  c.orders = f.lists<uint32_t>("orders", c.gpus - 1);
  for (const std::vector<uint32_t>& order : c.orders) {
    if (order.size() != c.gpus) f.complain("orders", "must name each GPU of a node");
  }
  return c;
}

Operation read_operation(MessageFields& f, uint64_t ranks) {
  Operation o;
  o.collective = f.word("collective", kCollectiveNames);
  const std::optional<Algorithm> algorithm = f.word("algorithm", kAlgorithmNames);
  const std::optional<Protocol> protocol = f.word("protocol", kProtocolNames);
  if (!algorithm || !protocol) f.complain("algorithm", "and protocol must be told");
  o.algorithm = algorithm.value_or(Algorithm::kRing);
  o.protocol = protocol.value_or(Protocol::kSimple);
  o.type = f.word("data_type", kDataTypeNames);
  o.count = f.number<uint64_t>("count", 0, kMostOperationBytes);
  o.root = f.number<uint32_t>("root", 0, ranks - 1);
  o.channels = f.number<uint32_t>("channels", 0, kMostChannels);
  o.threads = f.number<uint32_t>("threads", 0, 1024);
  o.pair_bytes = f.numbers<uint64_t>("pair_bytes", UINT64_MAX);
  if (!o.pair_bytes.empty() && o.pair_bytes.size() != ranks * ranks) {
    f.complain("pair_bytes", "must name each pair of ranks");
  }
  return o;
}

NodeJobMessage::Kind read_kind(MessageFields& f, uint64_t ranks) {
  NodeJobMessage::Kind kind;
  kind.bytes = f.number<uint64_t>("bytes", 0, UINT64_MAX);
  f.objects("operations", "an operation",
            [&](MessageFields& inner) { kind.operations.push_back(read_operation(inner, ranks)); });
  if (f.error().empty() && kind.operations.empty()) f.complain("operations", "holds none");
  return kind;
}

NodeJobMessage::Link read_link(MessageFields& f, uint32_t last_rank) {
  NodeJobMessage::Link link;
  link.rank = f.number<uint32_t>("rank", 0, last_rank);
  link.peer_rank = f.number<uint32_t>("peer_rank", 0, last_rank);
  link.channel = f.number<uint32_t>("channel", 0, kMostChannels - 1);
  link.index = f.number<uint8_t>("index", 0, 1);
  link.client_sends = f.yes_or_no("client_sends");
  link.slots = f.number<uint32_t>("slots", 1, kMostWindow);
  link.slot_bytes = f.number<uint32_t>("slot_bytes", 0, kMostBuffer);
  link.local = f.addresses("local");
  link.remote = f.addresses("remote");
  if (f.error().empty() && (link.local.empty() || link.local.size() != link.remote.size())) {
    f.complain("remote", "must name as many addresses as local, and one at least");
  }
  return link;
}

}  // namespace

json node_job_to_json(const NodeJobMessage& m) {
  json kinds = json::array(), links = json::array(), steps = json::array();
  for (const EntryStep& step : m.steps.first) steps.push_back(to_json(step));
  for (const NodeJobMessage::Kind& kind : m.kinds) kinds.push_back(to_json(kind));
  for (const NodeJobMessage::Link& link : m.links) links.push_back(to_json(link));
  return {{"name", m.name},
          {"communicator", to_json(m.communicator)},
          {"node", m.node},
          {"kinds", std::move(kinds)},
          {"warmup", m.warmup},
          {"iterations", m.iterations},
          {"by_iteration", m.by_iteration},
          {"reduction", name_of(kReduceOpNames, m.reduction)},
          {"exact", m.exact},
          {"seed", m.seed},
          {"program_ranks", m.program_ranks},
          {"links", std::move(links)},
          {"credit_devices", m.credit_devices},
          {"inside_bits_per_second", m.inside_rate.bps()},
          {"inside_latency_ps", static_cast<uint64_t>(m.inside_latency.ps())},
          {"steps", std::move(steps)},
          {"steps_per_iteration", m.steps.per_iteration},
          {"mtu", m.mtu},
          {"traffic_class", m.traffic_class}};
}

NodeJobMessage read_node_job(MessageFields& f) {
  NodeJobMessage m;
  m.name = f.text("name");
  f.object("communicator",
           [&](MessageFields& inner) { m.communicator = read_communicator(inner); });
  if (!f.error().empty()) return m;
  const uint64_t ranks = uint64_t{m.communicator.nodes} * m.communicator.gpus;
  if (ranks > kMostNodes) f.complain("communicator", "has too many ranks");
  m.node = f.number<uint32_t>("node", 0, m.communicator.nodes - 1);
  f.objects("kinds", "a kind",
            [&](MessageFields& inner) { m.kinds.push_back(read_kind(inner, ranks)); });
  m.warmup = f.number<uint32_t>("warmup", 0, UINT32_MAX);
  m.iterations = f.number<uint32_t>("iterations", 1, UINT32_MAX);
  m.by_iteration = f.yes_or_no("by_iteration");
  m.reduction = f.word("reduction", kReduceOpNames);
  m.exact = f.yes_or_no("exact");
  m.seed = f.number<uint64_t>("seed", 0, UINT64_MAX);
  m.program_ranks = f.numbers<uint32_t>("program_ranks", ranks - 1);
  f.objects("links", "a link", [&](MessageFields& inner) {
    m.links.push_back(read_link(inner, static_cast<uint32_t>(ranks - 1)));
  });
  m.credit_devices = f.number<uint32_t>("credit_devices", 4, 8);
  for (const NodeJobMessage::Link& link : m.links) {
    if (link.local.size() > m.credit_devices) f.complain("links", "have more devices than credits");
  }
  m.inside_rate =
      Rate::bits_per_second(f.number<uint64_t>("inside_bits_per_second", 0, UINT64_MAX));
  m.inside_latency = Duration::ps(f.number<int64_t>("inside_latency_ps", 0, kMostPicoseconds));
  if (f.has("steps")) {
    f.objects("steps", "a step",
              [&](MessageFields& inner) { m.steps.first.push_back(read_step(inner)); });
    m.steps.per_iteration = f.number<uint32_t>("steps_per_iteration", 1, UINT32_MAX);
    if (f.error().empty() && m.steps.first.size() % m.steps.per_iteration != 0) {
      f.complain("steps", "must be those of whole iterations");
    }
  }
  m.mtu = f.number<uint32_t>("mtu", 256, 4096);
  m.traffic_class = f.number<uint8_t>("traffic_class", 0, 255);
  if (f.error().empty() && m.kinds.empty()) f.complain("kinds", "holds none");
  return m;
}

}  // namespace understudy
