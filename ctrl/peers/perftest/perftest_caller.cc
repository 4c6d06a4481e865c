#include "ctrl/peers/perftest/perftest_caller.h"

#include <algorithm>

namespace understudy {
namespace {

/// The server's path MTU is not known yet; this one every port has, and no message is longer.
constexpr uint32_t kChannelMtu = 1024;

}  // namespace

PerftestCaller::PerftestCaller(const Service& self, const IpAddress& server,
                               const PerftestClientTest& test)
    : CmCaller(client_label(self, server)),
      client_(self, server, test, PerftestClient::Channel::kInBand),
      reads_(test.kind == ServiceKind::kReadBw ? kPerftestReads : 0),
      ready_(test.queue_pairs) {
  CmCall channel;
  channel.id = kChannel;
  channel.request.behaviour = Behaviour::kMessages;
  channel.request.local = server.is_v4() ? *self.v4 : *self.v6;
  channel.request.remote = server;
  channel.request.sender = self.sender;
  channel.request.mtu = std::min(self.mtu, kChannelMtu);
  calls_.push_back(channel);
}

std::vector<uint8_t> PerftestCaller::on_endpoint(Time, Id id, const EndpointReady& ready) {
  if (id != kChannel) ready_[id - 1] = ready;
  return {};
}

void PerftestCaller::on_established(Time now, Id id) {
  if (id == kChannel) {
    client_.on_connected(now);
  } else {
    client_.adopt(id - 1, ready_[id - 1]);
  }
  collect();
}

void PerftestCaller::on_message(Time now, Id, std::span<const uint8_t> bytes) {
  client_.on_bytes(now, bytes);
  collect();
}

void PerftestCaller::on_traffic(Time now, const TrafficResult& result) {
  client_.on_traffic(now, result);
  collect();
}

std::string PerftestCaller::on_closed(Time now, Id) {
  client_.on_closed(now);
  collect();
  return failure_;
}

void PerftestCaller::collect() {
  if (auto output = client_.take_output(); !output.empty()) {
    messages_.push_back({kChannel, std::move(output)});
  }
  Id id = kChannel;
  for (EndpointRequest& request : client_.take_requests()) {
    calls_.push_back({++id, std::move(request), reads_, reads_});
  }
  const auto starts = client_.take_starts();
  starts_.insert(starts_.end(), starts.begin(), starts.end());
  if (!client_.finished() || finished_) return;
  finished_ = true;
  failure_ = client_.failure();
}

}  // namespace understudy
