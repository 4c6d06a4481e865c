// What the communication manager hears, as events of ids.
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>

#include "dataplane/cm/rdma_cm.h"
#include "tools/soft_nic/connections.h"

namespace understudy::soft_nic {

namespace {

/// Where MADs say what they are (rule A9.1).
constexpr size_t kAttributeAt = 16;

/// REQs are heard by every process on this address; who listens for none leaves them to others.
bool asks_for_service(std::span<const uint8_t> mad) {
  if (mad.size() < kAttributeAt + 2) return false;
  const auto attribute = static_cast<CmAttribute>(mad[kAttributeAt] << 8 | mad[kAttributeAt + 1]);
  return attribute == CmAttribute::kReq || attribute == CmAttribute::kSidrReq;
}

uint16_t port_of(const sockaddr_in& address) { return ntohs(address.sin_port); }

void set_address(sockaddr_in& out, const IpAddress& address, uint16_t port) {
  out = {};
  out.sin_family = AF_INET;
  out.sin_port = htons(port);
  out.sin_addr.s_addr = htonl(address.v4_value());
}

}  // namespace

void Connections::on_datagram(Time now, const IpAddress& from, std::span<const uint8_t> bytes) {
  if (listeners_.empty() && asks_for_service(bytes)) return;
  agent_.on_mad(now, {nic_.interface().address, from}, bytes);
  drain();
}

void Connections::on_time(Time now) {
  agent_.on_time(now);
  drain();
}

void Connections::drain() {
  for (const CmEvent& event : agent_.take_events()) hear(event);
  for (const CmSend& send : agent_.take_sends())
    nic_.send_to_services(send.ends.remote, send.bytes);
}

void Connections::hear(const CmEvent& event) {
  if (leaving_) return;  // programs take apart at their end what events would go to
  if (event.kind == CmEventKind::kRequest) {
    return hear_request(event, std::get<CmReq>(event.message));
  }
  const auto at = by_connection_.find(event.id);
  if (at == by_connection_.end()) return;  // its id is gone
  Id& id = *at->second;
  ConnectionEvent* out = nullptr;
  switch (event.kind) {
    case CmEventKind::kReply: {
      const auto& reply = std::get<CmRep>(event.message);
      id.peer_qpn = reply.qpn;
      id.peer_psn = Psn(reply.starting_psn);
      out = &push(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
      out->replied = true;
      out->private_data.assign(reply.private_data.begin(), reply.private_data.end());
      out->ibv.param.conn.responder_resources = reply.initiator_depth;
      out->ibv.param.conn.initiator_depth = reply.responder_resources;
      out->ibv.param.conn.rnr_retry_count = reply.rnr_retry_count;
      out->ibv.param.conn.qp_num = reply.qpn;
      break;
    }
    case CmEventKind::kEstablished:
      if (id.active && id.ibv.qp != nullptr) return;  // told with the reply
      out = &push(id, RDMA_CM_EVENT_ESTABLISHED, 0);
      break;
    case CmEventKind::kRejected: {
      const auto& why = std::get<CmRej>(event.message);
      out = &push(id, RDMA_CM_EVENT_REJECTED, static_cast<int>(why.reason));
      out->private_data.assign(why.private_data.begin(), why.private_data.end());
      break;
    }
    case CmEventKind::kFailed:
      out = &push(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
      break;
    case CmEventKind::kDisconnected:
      out = &push(id, RDMA_CM_EVENT_DISCONNECTED, 0);
      break;
    case CmEventKind::kReleased:
      id.connection = 0;
      by_connection_.erase(at);
      out = &push(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
      break;
    case CmEventKind::kRequest:
      return;
  }
  if (!out->private_data.empty()) {
    out->ibv.param.conn.private_data = out->private_data.data();
    out->ibv.param.conn.private_data_len = static_cast<uint8_t>(out->private_data.size());
  }
  ++id.unacknowledged;
  EventChannel::of(id.ibv.channel).events.push(out);
}

void Connections::hear_request(const CmEvent& event, const CmReq& request) {
  const auto listener = std::find_if(listeners_.begin(), listeners_.end(), [&](const Id* id) {
    return id->service == request.service_id;
  });
  const auto header = parse_rdma_header(request.private_data);
  if (listener == listeners_.end() || !header) {
    agent_.reject(nic_.now(), event.id, RejReason::kInvalidServiceId);
    return;
  }
  Id& parent = **listener;
  auto* id = new Id;
  id->ibv.verbs = parent.ibv.verbs;
  id->ibv.channel = parent.ibv.channel;
  id->ibv.context = parent.ibv.context;
  id->ibv.ps = parent.ibv.ps;
  id->ibv.qp_type = parent.ibv.qp_type;
  id->ibv.port_num = 1;
  id->ibv.route.num_paths = 1;
  id->ibv.route.path_rec = &id->path;
  set_address(id->ibv.route.addr.src_sin, nic_.interface().address,
              port_of(parent.ibv.route.addr.src_sin));
  set_address(id->ibv.route.addr.dst_sin, event.ends.remote, header->src_port);
  id->connection = event.id;
  id->peer = event.ends.remote;
  id->peer_qpn = request.qpn;
  id->peer_psn = Psn(request.starting_psn);
  id->own_psn = draw_psn();
  id->mtu = 128U << request.path_mtu;
  id->retry_count = request.retry_count;
  id->rnr_retry = request.rnr_retry_count;
  id->ack_timeout = request.primary.ack_timeout;
  id->traffic_class = request.primary.traffic_class;
  by_connection_[event.id] = id;
  ConnectionEvent& out = push(*id, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
  out.waiter = &parent;
  out.ibv.listen_id = &parent.ibv;
  out.private_data.assign(request.private_data.begin() + kRdmaHeaderBytes,
                          request.private_data.end());
  rdma_conn_param& conn = out.ibv.param.conn;
  conn.private_data = out.private_data.data();
  conn.private_data_len = static_cast<uint8_t>(out.private_data.size());
  // What the peer wants to have outstanding is what we would answer, and the other way round.
  conn.responder_resources = id->responder_resources = request.initiator_depth;
  conn.initiator_depth = id->initiator_depth = request.responder_resources;
  conn.retry_count = request.retry_count;
  conn.rnr_retry_count = request.rnr_retry_count;
  conn.qp_num = request.qpn;
  ++parent.unacknowledged;
  EventChannel::of(parent.ibv.channel).events.push(&out);
}

}  // namespace understudy::soft_nic
