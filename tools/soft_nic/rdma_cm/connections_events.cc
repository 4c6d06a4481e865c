// What the communication manager hears, as events of ids.
#include <algorithm>
#include <cerrno>

#include "dataplane/cm/rdma_cm.h"
#include "tools/soft_nic/rdma_cm/connections.h"
#include "tools/soft_nic/rdma_cm/socket_forms.h"

namespace understudy::soft_nic {

void Connections::drain() {
  for (const CmEvent& event : agent_.take_events()) hear(event);
  for (const CmLookupEvent& event : lookups_.take_events()) hear(event);
  for (const CmSend& send : agent_.take_sends()) nic_.send_to_services(send.ends, send.bytes);
  for (const CmSend& send : lookups_.take_sends()) nic_.send_to_services(send.ends, send.bytes);
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
      // What the server grants, in its own words (Linux: cm_rep_handler).
      id.initiator_depth = std::min(id.initiator_depth, reply.responder_resources);
      id.responder_resources = std::min(id.responder_resources, reply.initiator_depth);
      out = &make_event(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
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
      out = &make_event(id, RDMA_CM_EVENT_ESTABLISHED, 0);
      break;
    case CmEventKind::kRejected: {
      const auto& why = std::get<CmRej>(event.message);
      out = &make_event(id, RDMA_CM_EVENT_REJECTED, static_cast<int>(why.reason));
      out->private_data.assign(why.private_data.begin(), why.private_data.end());
      break;
    }
    case CmEventKind::kFailed:
      out = &make_event(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
      break;
    case CmEventKind::kDisconnected:
      out = &make_event(id, RDMA_CM_EVENT_DISCONNECTED, 0);
      break;
    case CmEventKind::kReleased:
      id.connection = 0;
      by_connection_.erase(at);
      out = &make_event(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
      break;
    case CmEventKind::kRequest:
      return;
  }
  push(*out);
}

Id* Connections::make_child(Id& parent, const CmEnds& ends, uint16_t port) {
  auto* id = new Id(*this);
  id->ibv.verbs = parent.ibv.verbs;
  id->ibv.pd = parent.ibv.pd;
  id->ibv.channel = parent.ibv.channel;
  if (parent.waits()) {
    id->own_channel = std::make_unique<EventChannel>();
    if (!id->own_channel->is_open()) {
      delete id;
      return nullptr;
    }
    id->ibv.channel = &id->own_channel->ibv;
  }
  id->ibv.context = parent.ibv.context;
  id->ibv.ps = parent.ibv.ps;
  id->ibv.qp_type = parent.ibv.qp_type;
  id->ibv.port_num = 1;
  id->ibv.route.num_paths = 1;
  id->ibv.route.path_rec = &id->path;
  rdma_addr& route = id->ibv.route.addr;
  const int index = nic_.interface().index;
  put_address(route.src_storage, ends.local, port_in(&parent.ibv.route.addr.src_addr), index);
  put_address(route.dst_storage, ends.remote, port, index);
  id->bound = {ends.local};
  id->local = ends.local;
  id->peer = ends.remote;
  return id;
}

ConnectionEvent& Connections::make_request(Id& parent, Id& child,
                                           std::span<const uint8_t> private_data) {
  ConnectionEvent& event = make_event(child, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
  event.waiter = &parent;
  event.ibv.listen_id = &parent.ibv;
  event.private_data.assign(private_data.begin() + kRdmaHeaderBytes, private_data.end());
  return event;
}

void Connections::hear_request(const CmEvent& event, const CmReq& request) {
  Id* const parent = listener(event.ends.local, request.service_id);
  const auto header = parse_rdma_header(request.private_data);
  Id* const id =
      parent != nullptr && header ? make_child(*parent, event.ends, header->src_port) : nullptr;
  if (id == nullptr) {
    agent_.reject(nic_.now(), event.id, RejReason::kInvalidServiceId);
    return;
  }
  id->connection = event.id;
  id->peer_qpn = request.qpn;
  id->peer_psn = Psn(request.starting_psn);
  id->own_psn = draw_psn();
  id->mtu = 128U << request.path_mtu;
  id->retry_count = request.retry_count;
  id->rnr_retry = request.rnr_retry_count;
  id->ack_timeout = request.primary.ack_timeout;
  id->traffic_class = request.primary.traffic_class;
  by_connection_[event.id] = id;
  ConnectionEvent& out = make_request(*parent, *id, request.private_data);
  rdma_conn_param& conn = out.ibv.param.conn;
  // What the peer wants to have outstanding is what we would answer, and the other way round.
  conn.responder_resources = id->responder_resources = request.initiator_depth;
  conn.initiator_depth = id->initiator_depth = request.responder_resources;
  conn.retry_count = request.retry_count;
  conn.rnr_retry_count = request.rnr_retry_count;
  conn.qp_num = request.qpn;
  push(out);
}

void Connections::hear(const CmLookupEvent& event) {
  if (leaving_) return;
  if (event.kind == CmLookupEventKind::kAsked) return hear_lookup(event);
  const auto at = by_lookup_.find(event.id);
  if (at == by_lookup_.end()) return;  // its id is gone
  Id& id = *at->second;
  id.lookup = 0;
  by_lookup_.erase(at);
  if (event.kind == CmLookupEventKind::kAnswered) return hear_answer(id, event);
  push(make_event(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT));
}

void Connections::hear_lookup(const CmLookupEvent& event) {
  Id* const parent = listener(event.ends.local, event.request.service_id);
  const auto header = parse_rdma_header(event.request.private_data);
  Id* const id =
      parent != nullptr && header ? make_child(*parent, event.ends, header->src_port) : nullptr;
  if (id == nullptr) return lookups_.forget(nic_.now(), event.id);
  id->lookup = event.id;
  by_lookup_[event.id] = id;
  push(make_request(*parent, *id, event.request.private_data));
}

void Connections::hear_answer(Id& id, const CmLookupEvent& event) {
  const CmSidrRep& reply = event.reply;
  const bool good = reply.status == SidrStatus::kSuccess;
  ConnectionEvent& out =
      make_event(id, good ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_UNREACHABLE,
                 static_cast<int>(reply.status));
  out.private_data.assign(reply.private_data.begin(), reply.private_data.end());
  if (good) {
    rdma_ud_param& ud = out.ibv.param.ud;
    ud.qp_num = reply.qpn;
    ud.qkey = reply.qkey;
    fill_way(id, ud.ah_attr);
  }
  push(out);
}

}  // namespace understudy::soft_nic
