#include "ctrl/peers/rdma_core/rping_caller.h"

namespace understudy {

RpingCaller::RpingCaller(const Service& self, const IpAddress& server, uint32_t text_bytes,
                         uint64_t pings)
    : CmCaller(client_label(self, server)), pings_(pings) {
  CmCall call;
  call.request.behaviour = Behaviour::kRpingClient;
  call.request.local = server.is_v4() ? *self.v4 : *self.v6;
  call.request.remote = server;
  call.request.mtu = self.mtu;
  call.request.sender = self.sender;
  call.request.traffic.bytes = text_bytes;
  call.request.traffic.count = pings;
  call.responder_resources = 1;  // the server READs the text
  calls_.push_back(call);
}

std::vector<uint8_t> RpingCaller::on_endpoint(Time, Id, const EndpointReady& ready) {
  qpn_ = ready.qpn;
  return {};
}

void RpingCaller::on_established(Time, Id) { starts_.push_back({qpn_, 0, 0, 0}); }

void RpingCaller::on_traffic(Time, const TrafficResult& result) {
  if (result.status != WorkStatus::kSuccess || result.wrong) {
    return give_up(traffic_failure(result, pings_));
  }
  finished_ = true;
}

std::string RpingCaller::on_closed(Time, Id) {
  give_up("the server closed before the last ping; its -S has to be at least ours, its -C too");
  return failure_;
}

}  // namespace understudy
