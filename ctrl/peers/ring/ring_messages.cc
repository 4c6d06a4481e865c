#include "ctrl/peers/ring/ring_messages.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "ctrl/peers/ring/message_fields.h"
#include "dataplane/base/big_endian.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

using nlohmann::json;

constexpr const char* kClientSendsText = "client_sends";
constexpr const char* kPeerSendsText = "peer_sends";
constexpr const char* kNeighbourText = "neighbour";
constexpr const char* kWholeNodeText = "node";
constexpr uint32_t kMaxRanks = 1 << 20;
constexpr uint32_t kMaxChannels = 64;
constexpr uint64_t kMaxBytes = uint64_t{1} << 40;

json to_json(const RingHelloMessage& m) {
  return {{"version", m.version},
          {"job", m.job},
          {"address", m.address.text()},
          {"plays", m.whole_node ? kWholeNodeText : kNeighbourText}};
}

json to_json(const RingJobMessage& m) {
  json operations = json::array();
  for (const auto& o : m.operations) {
    operations.push_back({{"bytes", o.bytes}, {"warmup", o.warmup}, {"iterations", o.iterations}});
  }
  return {{"name", m.name},
          {"ranks", m.ranks},
          {"client_rank", m.client_rank},
          {"peer_rank", m.peer_rank},
          {"real_ranks", m.real_ranks},
          {"channels", m.channels},
          {"element", "float32"},
          {"operations", std::move(operations)},
          {"step_bytes", m.cutting.step_bytes},
          {"chunk_steps", m.cutting.chunk_steps},
          {"slice_steps", m.cutting.slice_steps},
          {"min_slice_bytes", m.cutting.min_slice_bytes},
          {"mtu", m.mtu},
          {"seed", m.seed},
          {"payload", m.exact ? "exact" : "synthetic"},
          {"data_traffic_class", m.data_traffic_class},
          {"control_traffic_class", m.control_traffic_class}};
}

json to_json(const NodeJobMessage& m) { return node_job_to_json(m); }

json to_json(const RingLinkEnd& m) {
  json object = {
      {"channel", m.channel},
      {"direction", m.direction == RingDirection::kClientSends ? kClientSendsText : kPeerSendsText},
      {"qpn", m.qpn},
      {"psn", m.psn.value()},
      {"mtu", m.mtu},
      {"gid", m.gid.text()},
      {"fifo_address", m.fifo_address},
      {"fifo_rkey", m.fifo_rkey}};
  if (m.of) {
    object["rank"] = m.of->client_rank;
    object["peer_rank"] = m.of->peer_rank;
    object["index"] = m.of->index;
  }
  for (const RingLinkEnd::More& more : m.more) {
    object["more"].push_back(
        {{"qpn", more.qpn}, {"gid", more.gid.text()}, {"fifo_rkey", more.fifo_rkey}});
  }
  return object;
}

json to_json(const RingReadyMessage&) { return json::object(); }

json to_json(const RingResultMessage& m) {
  json object = {{"operation", m.operation}, {"bytes", m.bytes}, {"times_ns", m.times_ns}};
  object["wrong"] = m.wrong ? json(*m.wrong) : json(nullptr);
  if (m.rank) object["rank"] = *m.rank;
  return object;
}

json to_json(const RingDoneMessage&) { return json::object(); }

json to_json(const RingErrorMessage& m) { return {{"text", m.text}}; }

RingHelloMessage read_hello(MessageFields& f) {
  RingHelloMessage m;
  m.version = f.number<uint32_t>("version", 0, UINT32_MAX);
  m.job = f.text("job");
  m.address = f.address("address");
  // Earlier versions, which are told apart by their number, had no such field.
  if (f.has("plays")) m.whole_node = !f.either("plays", kNeighbourText, kWholeNodeText);
  return m;
}

RingJobMessage::Operation read_operation(const json& object, MessageFields& outer) {
  RingJobMessage::Operation o;
  if (!object.is_object()) {
    outer.complain("operations", "must hold objects");
    return o;
  }
  MessageFields f(object, "an operation");
  o.bytes = f.number<uint64_t>("bytes", 4, kMaxBytes);
  o.warmup = f.number<uint32_t>("warmup", 0, UINT32_MAX);
  o.iterations = f.number<uint32_t>("iterations", 1, UINT32_MAX);
  if (o.bytes % 4 != 0) f.complain("bytes", "must be a multiple of 4");
  if (!f.error().empty()) outer.complain("operations", "is wrong: " + f.error());
  return o;
}

RingJobMessage read_job(MessageFields& f) {
  RingJobMessage m;
  m.name = f.text("name");
  m.ranks = f.number<uint32_t>("ranks", 2, kMaxRanks);
  const uint64_t last_rank = m.ranks == 0 ? 0 : m.ranks - 1;
  m.client_rank = f.number<uint32_t>("client_rank", 0, last_rank);
  m.peer_rank = f.number<uint32_t>("peer_rank", 0, last_rank);
  m.real_ranks = f.numbers<uint32_t>("real_ranks", last_rank);
  m.channels = f.number<uint32_t>("channels", 1, kMaxChannels);
  if (f.text("element") != "float32") f.complain("element", "must be \"float32\"");
  if (const json* list = f.array("operations")) {
    for (const json& object : *list) m.operations.push_back(read_operation(object, f));
  }
  m.cutting.step_bytes = f.number<uint32_t>("step_bytes", 64, 1u << 28);
  m.cutting.chunk_steps = f.number<uint32_t>("chunk_steps", 1, kRingSteps);
  m.cutting.slice_steps = f.number<uint32_t>("slice_steps", 1, kRingSteps);
  m.cutting.min_slice_bytes = f.number<uint32_t>("min_slice_bytes", 4, 1u << 28);
  if (f.error().empty() && (m.cutting.step_bytes % 64 != 0 || m.cutting.min_slice_bytes % 4 != 0)) {
    f.complain("step_bytes", "must be a multiple of 64, min_slice_bytes one of 4");
  }
  if (f.error().empty() && (kRingSteps % m.cutting.slice_steps != 0 ||
                            m.cutting.chunk_steps % m.cutting.slice_steps != 0)) {
    f.complain("slice_steps", "must divide chunk_steps and 8");
  }
  m.mtu = f.number<uint32_t>("mtu", 256, 4096);
  m.seed = f.number<uint64_t>("seed", 0, UINT64_MAX);
  m.exact = f.either("payload", "exact", "synthetic");
  m.data_traffic_class = f.number<uint8_t>("data_traffic_class", 0, 255);
  m.control_traffic_class = f.number<uint8_t>("control_traffic_class", 0, 255);
  return m;
}

RingLinkEnd read_link_end(MessageFields& f) {
  RingLinkEnd m;
  m.channel = f.number<uint32_t>("channel", 0, kMaxChannels - 1);
  m.direction = f.either("direction", kClientSendsText, kPeerSendsText)
                    ? RingDirection::kClientSends
                    : RingDirection::kPeerSends;
  m.qpn = f.number<Qpn>("qpn", 2, kQpnMask);
  m.psn = Psn(f.number<uint32_t>("psn", 0, Psn::kMask));
  m.mtu = f.number<uint32_t>("mtu", 256, 4096);
  m.gid = f.address("gid");
  m.fifo_address = f.number<uint64_t>("fifo_address", 0, UINT64_MAX);
  m.fifo_rkey = f.number<Rkey>("fifo_rkey", 0, UINT32_MAX);
  if (f.has("more")) {
    f.objects("more", "a queue pair", [&](MessageFields& inner) {
      m.more.push_back({.qpn = inner.number<Qpn>("qpn", 2, kQpnMask),
                        .gid = inner.address("gid"),
                        .fifo_rkey = inner.number<Rkey>("fifo_rkey", 0, UINT32_MAX)});
    });
  }
  if (!f.has("rank")) return m;
  m.of = RingLinkEnd::Ranks{f.number<uint32_t>("rank", 0, kMaxRanks - 1),
                            f.number<uint32_t>("peer_rank", 0, kMaxRanks - 1),
                            f.number<uint8_t>("index", 0, 1)};
  return m;
}

RingResultMessage read_result(MessageFields& f) {
  RingResultMessage m;
  m.operation = f.number<uint32_t>("operation", 0, UINT32_MAX);
  m.bytes = f.number<uint64_t>("bytes", 0, kMaxBytes);
  m.times_ns = f.numbers<uint64_t>("times_ns", UINT64_MAX);
  const json* wrong = f.find("wrong");
  if (wrong != nullptr && !wrong->is_null()) m.wrong = f.number<uint64_t>("wrong", 0, UINT64_MAX);
  if (f.has("rank")) m.rank = f.number<uint32_t>("rank", 0, kMaxRanks - 1);
  return m;
}

Result<RingOobMessage> read_by_type(const std::string& type, MessageFields& f) {
  if (type == "hello") return read_hello(f);
  if (type == "job") return read_job(f);
  if (type == "node_job") return read_node_job(f);
  if (type == "connect") return RingConnectMessage{read_link_end(f)};
  if (type == "connected") return RingConnectedMessage{read_link_end(f)};
  if (type == "ready") return RingReadyMessage{};
  if (type == "result") return read_result(f);
  if (type == "done") return RingDoneMessage{};
  if (type == "error") return RingErrorMessage{f.text("text")};
  return fail("message of unknown type \"" + type + "\"");
}

}  // namespace

const char* ring_oob_name(const RingOobMessage& message) {
  static constexpr const char* kNames[] = {"hello", "job",    "node_job", "connect", "connected",
                                           "ready", "result", "done",     "error"};
  static_assert(std::size(kNames) == std::variant_size_v<RingOobMessage>);
  return kNames[message.index()];
}

void append_ring_oob(const RingOobMessage& message, std::vector<uint8_t>& out) {
  json object = std::visit([](const auto& m) { return to_json(m); }, message);
  object["type"] = ring_oob_name(message);
  // Never throws on text that is not UTF-8 (it may be a file name in an error).
  std::string text = object.dump(-1, ' ', false, json::error_handler_t::replace);
  // Spaces behind it: the length of a frame shall not depend on how many digits a key has, which an
  // RDMA device draws, so that a run in virtual time is the same again.
  constexpr size_t kWhole = 256;
  text.append((kWhole - text.size() % kWhole) % kWhole, ' ');
  const Be32 length(static_cast<uint32_t>(text.size()));
  const size_t at = out.size();
  out.resize(at + sizeof length + text.size());
  std::memcpy(out.data() + at, &length, sizeof length);
  std::memcpy(out.data() + at + sizeof length, text.data(), text.size());
}

Result<RingOobMessage> parse_ring_oob(std::span<const uint8_t> bytes) {
  const json object = json::parse(bytes.begin(), bytes.end(), nullptr, false);
  if (object.is_discarded()) return fail("message is not JSON");
  if (!object.is_object()) return fail("message is not a JSON object");
  MessageFields head(object, "message");
  const std::string type = head.text("type");
  if (!head.error().empty()) return fail(head.error());
  MessageFields fields(object, "message \"" + type + "\"");
  auto message = read_by_type(type, fields);
  if (!fields.error().empty()) return fail(fields.error());
  return message;
}

void RingOobReader::push(std::span<const uint8_t> bytes) {
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(start_));
  start_ = 0;
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

Result<std::optional<RingOobMessage>> RingOobReader::next() {
  const std::span<const uint8_t> left = std::span(bytes_).subspan(start_);
  if (left.size() < sizeof(Be32)) return std::nullopt;
  Be32 head;
  std::memcpy(&head, left.data(), sizeof head);
  const uint32_t length = head.get();
  if (length > kRingOobMaxMessage) {
    return fail("message of " + std::to_string(length) + " bytes is longer than " +
                std::to_string(kRingOobMaxMessage));
  }
  if (left.size() - sizeof(Be32) < length) return std::nullopt;
  start_ += sizeof(Be32) + length;
  auto message = TRY(parse_ring_oob(left.subspan(sizeof(Be32), length)));
  return std::optional<RingOobMessage>(std::move(message));
}

}  // namespace understudy
