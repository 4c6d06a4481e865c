#include "ctrl/peers/perftest/perftest_client.h"

#include <algorithm>
#include <bit>

#include "ctrl/peers/cm_caller.h"

namespace understudy {
namespace {

constexpr std::string_view kOurVersion = "6.06";
constexpr uint32_t kCycleBuffer = 4096, kCacheLine = 64;

WorkOp op_of(ServiceKind kind) {
  if (kind == ServiceKind::kSendBw) return WorkOp::kSend;
  return kind == ServiceKind::kReadBw ? WorkOp::kRead : WorkOp::kWrite;
}

void append(std::vector<uint8_t>& out, uint64_t value, size_t size) {
  for (size_t i = size; i-- > 0;) out.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

}  // namespace

PerftestClient::PerftestClient(Service self, const IpAddress& server,
                               const PerftestClientTest& test, Channel channel)
    : self_(std::move(self)),
      server_(server),
      local_(server.is_v4() ? *self_.v4 : *self_.v6),
      test_(test),
      in_band_(channel == Channel::kInBand),
      queue_pairs_(test.queue_pairs) {
  plan();
}

void PerftestClient::plan() {
  using Kind = Step::Kind;
  steps_ = {
      {Kind::kVersion}, {Kind::kNumber, kCycleBuffer}, {Kind::kNumber, kCacheLine}, {Kind::kMtu}};
  const bool send = test_.kind == ServiceKind::kSendBw;
  if (in_band_) {  // both sides come to RDMA-CM together, and have done with it together
    for (const Kind kind : {Kind::kSync, Kind::kConnect, Kind::kSync}) steps_.push_back({kind});
  }
  for (uint32_t i = 0; i < test_.queue_pairs; ++i) steps_.push_back({Kind::kKey, i});
  if (!in_band_) steps_.push_back({Kind::kConnect});
  if (send) steps_.push_back({Kind::kKey});
  for (uint32_t i = 0; i < test_.queue_pairs; ++i) steps_.push_back({Kind::kKey, i});
  steps_.push_back({Kind::kKey});
  steps_.push_back({Kind::kTest});
  if (!send) {
    steps_.push_back({Kind::kKey});
    for (uint32_t i = 0; i < kPerftestReportFields; ++i) steps_.push_back({Kind::kReport, i});
  }
  steps_.push_back({Kind::kKey});
  steps_.push_back({Kind::kDone});
}

void PerftestClient::on_connected(Time) {
  if (in_band_) return advance();
  EndpointRequest request;
  request.local = local_;
  request.remote = server_;
  request.region_bytes = test_.bytes;
  request.reserve = true;
  for (Qpn i = 0; i < queue_pairs_.size(); ++i) {
    request.local_psn = choose_psn(self_, server_, i);
    requests_.push_back(request);
  }
}

void PerftestClient::on_endpoint(Time, const EndpointReady& ready) {
  if (finished_) return;
  const size_t q = queue_pairs_.size();
  const bool reserving = ready_ < q;
  if (reserving) queue_pairs_[ready_].ours = ready;
  ++ready_;
  if (ready_ == q) return advance();
  if (ready_ == 2 * q) next_step();
}

void PerftestClient::adopt(size_t index, const EndpointReady& ready) {
  if (finished_) return;
  queue_pairs_[index].ours = ready;
  if (++ready_ == queue_pairs_.size()) next_step();
}

/// Goes on from a step that was no exchange of messages.
void PerftestClient::next_step() {
  ++step_;
  said_ = false;
  advance();
}

void PerftestClient::on_bytes(Time, std::span<const uint8_t> bytes) {
  if (finished_) return;
  input_.insert(input_.end(), bytes.begin(), bytes.end());
  advance();
}

void PerftestClient::advance() {
  using Kind = Step::Kind;
  while (!finished_ && step_ < steps_.size()) {
    const Step& step = steps_[step_];
    if (step.kind == Kind::kConnect || step.kind == Kind::kTest) {
      if (!said_) {
        said_ = true;
        if (step.kind == Kind::kConnect) {
          connect();
        } else {
          start();
        }
      }
      return;  // goes on in on_endpoint or on_traffic
    }
    if (!said_) say(step);
    said_ = true;
    if (step.kind == Kind::kDone) {
      finished_ = true;
      return;
    }
    const size_t size = answer_size(step);
    if (in_band_ && !input_.empty() && input_.size() != size) {
      return give_up("a message of " + std::to_string(input_.size()) + " bytes where one of " +
                     std::to_string(size) + " is due");
    }
    if (input_.size() < size) return;
    if (!hear(step, std::span(input_).first(size))) return;
    input_.erase(input_.begin(), input_.begin() + static_cast<ptrdiff_t>(size));
    ++step_;
    said_ = false;
  }
}

void PerftestClient::say(const Step& step) {
  using Kind = Step::Kind;
  switch (step.kind) {
    case Kind::kVersion:
      output_.insert(output_.end(), kOurVersion.begin(), kOurVersion.end());
      output_.resize(output_.size() + kPerftestVersionSize - kOurVersion.size());
      break;
    case Kind::kNumber:
      append(output_, step.number, kPerftestIntSize);
      break;
    case Kind::kMtu:
      output_.push_back(static_cast<uint8_t>('0' + code_of_mtu(self_.mtu).value_or(1)));
      output_.push_back(0);
      break;
    case Kind::kSync:
      output_.resize(output_.size() + kPerftestBinaryKeySize);
      break;
    case Kind::kKey: {
      const EndpointReady& ours = queue_pairs_[step.number].ours;
      PerftestKey key;
      if (test_.kind == ServiceKind::kReadBw) key.out_reads = kPerftestReads;
      key.qpn = ours.qpn;
      key.psn = ours.psn;
      key.rkey = ours.rkey;
      key.address = ours.address;
      key.gid = local_;
      if (in_band_) {
        const auto bytes = format_perftest_binary_key(key, kPerftestBinaryKeySize);
        output_.insert(output_.end(), bytes.begin(), bytes.end());
      } else {
        const auto text = format_perftest_key(key);
        output_.insert(output_.end(), text.begin(), text.end());
      }
      break;
    }
    case Kind::kReport:
      append(output_, report_field(step.number), kPerftestReportField);
      break;
    case Kind::kDone:
      if (in_band_) break;  // who is connected by RDMA-CM hangs up
      output_.insert(output_.end(), kPerftestDone.begin(), kPerftestDone.end());
      break;
    case Kind::kConnect:
    case Kind::kTest:
      break;
  }
}

size_t PerftestClient::answer_size(const Step& step) const {
  using Kind = Step::Kind;
  switch (step.kind) {
    case Kind::kVersion:
      return kPerftestVersionSize;
    case Kind::kNumber:
      return kPerftestIntSize;
    case Kind::kMtu:
      return kPerftestMtuSize;
    case Kind::kSync:
      return kPerftestBinaryKeySize;
    case Kind::kKey:
      return in_band_ ? kPerftestBinaryKeySize : kPerftestKeySize;
    case Kind::kReport:
      return kPerftestReportField;
    case Kind::kConnect:
    case Kind::kTest:
    case Kind::kDone:
      break;
  }
  return 0;
}

bool PerftestClient::hear(const Step& step, std::span<const uint8_t> answer) {
  using Kind = Step::Kind;
  if (step.kind == Kind::kVersion) {
    const auto version = parse_perftest_version(answer);
    if (!version || perftest_layout(*version) == nullptr) {
      give_up("not a perftest version, or one before 5.70: \"" + printable(input_, 5) + "\"");
    }
  } else if (step.kind == Kind::kMtu) {
    const auto mtu = answer[0] >= '0' ? mtu_of_code(answer[0] - unsigned{'0'}) : std::nullopt;
    if (!mtu) give_up("not a path MTU code: \"" + printable(input_, kPerftestMtuSize) + "\"");
    mtu_ = std::min(mtu.value_or(0), self_.mtu);
  } else if (step.kind == Kind::kKey) {
    const auto key = in_band_ ? parse_perftest_binary_key(answer) : parse_perftest_key(answer);
    if (!key) {
      give_up("not a perftest key message: \"" + printable(input_, kPerftestKeySize) +
              "\" (start the server with a GID index, -x)");
    } else {
      queue_pairs_[step.number].theirs = *key;
    }
  }
  return !finished_;
}

void PerftestClient::connect() {
  for (const QueuePair& pair : queue_pairs_) {
    EndpointRequest request;
    request.behaviour = Behaviour::kTraffic;
    request.local = local_;
    request.remote = server_;
    request.mtu = mtu_;
    request.sender = self_.sender;
    if (in_band_) {
      request.region_bytes = test_.bytes;
    } else {
      request.remote = pair.theirs.gid;
      request.remote_qpn = pair.theirs.qpn;
      request.remote_psn = pair.theirs.psn;
      request.local_psn = pair.ours.psn;
      request.reserved = pair.ours.qpn;
      request.max_rd_atomic =
          static_cast<uint8_t>(std::clamp<unsigned>(pair.theirs.out_reads, 1, 128));
    }
    request.traffic = {op_of(test_.kind), test_.bytes, test_.iterations, test_.window};
    requests_.push_back(request);
  }
}

void PerftestClient::start() {
  for (const QueuePair& pair : queue_pairs_) {
    starts_.push_back({pair.ours.qpn, pair.theirs.address, pair.theirs.rkey, 0});
  }
}

void PerftestClient::on_traffic(Time, const TrafficResult& result) {
  if (finished_) return;
  if (result.status != WorkStatus::kSuccess) {
    return give_up(traffic_failure(result, test_.iterations));
  }
  first_ = ended_ == 0 ? result.first : std::min(first_, result.first);
  last_ = ended_ == 0 ? result.last : std::max(last_, result.last);
  if (++ended_ == queue_pairs_.size()) next_step();
}

uint64_t PerftestClient::report_field(uint32_t field) const {
  const auto messages = static_cast<double>(test_.iterations * queue_pairs_.size());
  const double seconds = static_cast<double>((last_ - first_).ps()) * 1e-12;
  const double rate = seconds > 0 ? messages / seconds : 0;
  const double mebibytes = rate * test_.bytes / (1 << 20);  // perftest's unit of bandwidth
  switch (field) {
    case 0:
      return test_.bytes;
    case 1:
      return test_.iterations;
    case 2:
    case 3:
      return std::bit_cast<uint64_t>(mebibytes);
    default:
      return std::bit_cast<uint64_t>(rate * 1e-6);  // millions of messages
  }
}

void PerftestClient::on_closed(Time) {
  if (!finished_) {
    give_up("the server closed after " + std::to_string(step_) + " of " +
            std::to_string(steps_.size()) + " steps; its test, -n, -s and -q have to be ours");
  }
}

void PerftestClient::give_up(const std::string& reason) {
  failure_ = client_label(self_, server_) + ": " + reason;
  finished_ = true;
}

}  // namespace understudy
