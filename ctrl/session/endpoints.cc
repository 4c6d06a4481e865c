#include "ctrl/session/endpoints.h"

#include <algorithm>

#include "ctrl/build/rail.h"

namespace understudy {

namespace {
constexpr uint8_t kOutstandingReads = 128;  ///< what perftest is told, and what rxe keeps in flight
/// 4.096 us << 18 = 1.07 s: a guest that stands still for half a second loses no connection.
constexpr uint8_t kServiceTimeout = 18;
}  // namespace

Result<size_t> ServiceEndpoints::port_for(const IpAddress& real) const {
  for (size_t i = 0; i < config_.ports.size(); ++i) {
    const PortConfig& port = config_.ports[i];
    const NicConfig& nic = config_.nodes[port.node].nics[port.nic];
    if (nic.v4 == real || nic.v6 == real) return i;
  }
  return fail("no port of the configuration leads to a real node with the address " + real.text());
}

Result<EndpointReady> ServiceEndpoints::create(NodeId node, uint64_t connection,
                                               const EndpointRequest& request) {
  const auto port = port_for(request.remote);
  if (!port) return fail(port.error().text);
  ShardControl& control = *controls_[*port];
  const NicConfig& nic = config_.nodes[node].nics[config_.ports[*port].nic];
  const bool contents =
      request.behaviour == Behaviour::kSendEcho || request.behaviour == Behaviour::kWriteEcho;
  auto made = std::make_unique<Made>();
  made->control = &control;
  made->qpn = control.take_qpn();
  if (made->qpn == 0) return fail("no queue pair is left on this port");
  auto region = control.add_region(node, request.region_bytes,
                                   kAccessRemoteWrite | kAccessRemoteRead, contents);
  if (!region) return fail(region.error().text);
  made->region = region->index;

  QpConfig qp_config;
  qp_config.node = node;
  qp_config.qpn = made->qpn;
  qp_config.remote_qpn = request.remote_qpn;
  qp_config.rq_psn = request.remote_psn;
  qp_config.sq_psn = request.local_psn;
  qp_config.mtu = request.mtu;
  qp_config.timeout = std::max(request.timeout, kServiceTimeout);
  qp_config.retry_count = request.retry_count;
  qp_config.rnr_retry = request.rnr_retry;
  qp_config.min_rnr_timer = request.min_rnr_timer;
  qp_config.max_dest_rd_atomic = kOutstandingReads;
  RoceAddressing& a = qp_config.addressing;
  a.src_mac = nic.mac;
  a.vlan_tci = vlan_tci(nic);
  a.src = request.local;
  a.dst = request.remote;
  a.traffic_class = request.traffic_class;
  a.udp_src = udp_source_port(config_, made->qpn, request.remote_qpn);

  WriteEcho* write_echo = nullptr;
  if (request.behaviour == Behaviour::kSendEcho) {
    made->endpoint = std::make_unique<SendEcho>(region->bytes);
  } else if (request.behaviour == Behaviour::kWriteEcho) {
    auto echo = std::make_unique<WriteEcho>(
        WriteEcho::Setup{region->bytes, region->va, request.region_bytes});
    write_echo = echo.get();
    made->endpoint = std::move(echo);
  } else {
    made->endpoint = std::make_unique<MemoryTarget>();
  }
  Qp& qp = control.add_qp(qp_config, *made->endpoint, contents, [&](Qp& fresh) {
    fresh.responder().set_endless_receives();
    if (request.behaviour == Behaviour::kSendEcho) {
      fresh.responder().set_receive_buffer({region->bytes, request.region_bytes});
    }
    if (write_echo != nullptr) write_echo->set_qp(fresh);
  });
  const EndpointReady ready{qp.config().qpn, request.local_psn, region->va, region->rkey};
  made_.emplace(connection, std::move(made));
  return ready;
}

void ServiceEndpoints::start(const EndpointStart& start) {
  for (auto& [connection, made] : made_) {
    if (made->qpn != start.qpn) continue;
    made->start = {start.remote_address, start.remote_rkey, start.opening_bytes};
    made->control->wake(*made->endpoint, reinterpret_cast<uint64_t>(&made->start));
  }
}

void ServiceEndpoints::remove(uint64_t connection) {
  const auto [first, last] = made_.equal_range(connection);
  for (auto it = first; it != last; ++it) {
    // The endpoint lives until the shard has let go of its queue pair.
    std::shared_ptr<Made> made(std::move(it->second));
    made->control->remove_qp(made->qpn, [made] { made->control->remove_region(made->region); });
  }
  made_.erase(first, last);
}

}  // namespace understudy
