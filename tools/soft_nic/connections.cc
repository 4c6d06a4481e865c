#include "tools/soft_nic/connections.h"

#include <netinet/in.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "dataplane/cm/rdma_cm.h"
#include "tools/soft_nic/context.h"

namespace understudy::soft_nic {

namespace {

/// Peers answer at once, or their process is gone and nobody does.
constexpr Duration kDreqWait = Duration::ms(250);

uint64_t draw_seed() {
  uint64_t drawn = 0;
  if (getrandom(&drawn, sizeof drawn, 0) != sizeof drawn) drawn = static_cast<uint64_t>(getpid());
  return drawn | 1;
}

uint16_t port_of(const sockaddr_in& address) { return ntohs(address.sin_port); }

CmAgentConfig agent_config(uint64_t seed, uint32_t mtu) {
  CmAgentConfig config;
  config.seed = seed;
  config.ca_guid = seed;  // unlike that of other processes here: queue pair numbers are per guid
  config.max_mtu = mtu;
  config.longest_dreq_wait = kDreqWait;
  return config;
}

std::span<const uint8_t> data_of(const rdma_conn_param& wanted) {
  return {static_cast<const uint8_t*>(wanted.private_data),
          wanted.private_data != nullptr ? wanted.private_data_len : size_t{0}};
}

}  // namespace

Connections::Connections(Nic& nic)
    : nic_(nic), seed_(draw_seed()), agent_(agent_config(seed_, nic.mtu())) {
  const std::lock_guard lock(nic_.mutex());
  nic_.set_services(this);
}

int Connections::answer(bool done) {
  drain();
  nic_.touch_services();
  nic_.send(nic_.now());
  return done ? 0 : EINVAL;
}

int Connections::listen(Id& id) {
  const std::lock_guard lock(nic_.mutex());
  for (const Id* other : listeners_) {
    if (other->service == id.service) return EADDRINUSE;
  }
  id.listens = true;
  listeners_.push_back(&id);
  agent_.listen(nic_.interface().address, id.service);
  return 0;
}

int Connections::connect(Id& id, const rdma_conn_param& wanted) {
  const auto own = data_of(wanted);
  CmConnect request;
  if (own.size() > CmReq{}.private_data.size() - kRdmaHeaderBytes) return EINVAL;
  request.private_data.resize(kRdmaHeaderBytes);
  format_rdma_header({port_of(id.ibv.route.addr.src_sin), nic_.interface().address, id.peer},
                     request.private_data);
  request.private_data.insert(request.private_data.end(), own.begin(), own.end());
  const std::lock_guard lock(nic_.mutex());
  id.active = true;
  id.own_psn = draw_psn();
  id.own_qpn = id.ibv.qp != nullptr ? id.ibv.qp->qp_num : wanted.qp_num;
  id.mtu = nic_.mtu();
  id.responder_resources = wanted.responder_resources;
  id.initiator_depth = wanted.initiator_depth;
  id.retry_count = wanted.retry_count & 7;
  id.rnr_retry = wanted.rnr_retry_count & 7;
  request.ends = {nic_.interface().address, id.peer};
  request.service_id = id.service;
  request.qpn = id.own_qpn;
  request.psn = id.own_psn;
  request.mtu = id.mtu;
  request.responder_resources = id.responder_resources;
  request.initiator_depth = id.initiator_depth;
  request.retry_count = id.retry_count;
  request.rnr_retry = id.rnr_retry;
  request.ack_timeout = id.ack_timeout;
  request.traffic_class = id.traffic_class;
  const auto made = agent_.connect(nic_.now(), request);
  if (!made) return ENOMEM;
  id.connection = *made;
  by_connection_[*made] = &id;
  return answer(true);
}

int Connections::accept(Id& id, const rdma_conn_param& wanted) {
  if (id.connection == 0 || id.active) return EINVAL;
  const auto own = data_of(wanted);
  if (own.size() > CmRep{}.private_data.size()) return EINVAL;
  id.own_qpn = id.ibv.qp != nullptr ? id.ibv.qp->qp_num : wanted.qp_num;
  id.responder_resources = wanted.responder_resources;
  id.initiator_depth = wanted.initiator_depth;
  id.rnr_retry = wanted.rnr_retry_count & 7;
  if (id.ibv.qp != nullptr) {
    if (const int failed = make_ready(id)) return failed;
  }
  const std::lock_guard lock(nic_.mutex());
  CmAccept reply;
  reply.qpn = id.own_qpn;
  reply.psn = id.own_psn;
  reply.responder_resources = id.responder_resources;
  reply.initiator_depth = id.initiator_depth;
  reply.rnr_retry = id.rnr_retry;
  reply.private_data.assign(own.begin(), own.end());
  return answer(agent_.accept(nic_.now(), id.connection, reply));
}

int Connections::reject(Id& id, std::span<const uint8_t> private_data) {
  if (private_data.size() > CmRej{}.private_data.size()) return EINVAL;
  const std::lock_guard lock(nic_.mutex());
  return answer(agent_.reject(nic_.now(), id.connection, RejReason::kConsumer, private_data));
}

int Connections::confirm(Id& id) {
  const std::lock_guard lock(nic_.mutex());
  return answer(agent_.confirm(nic_.now(), id.connection));
}

int Connections::disconnect(Id& id) {
  if (id.ibv.qp != nullptr) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    if (const int failed = ibv_modify_qp(id.ibv.qp, &attr, IBV_QP_STATE)) return failed;
  }
  const std::lock_guard lock(nic_.mutex());
  if (id.connection == 0) return EINVAL;
  answer(agent_.disconnect(nic_.now(), id.connection));  // or the peer was quicker
  return 0;
}

void Connections::forget(Id& id) {
  EventChannel& channel = EventChannel::of(id.ibv.channel);
  std::unique_lock lock(nic_.mutex());
  std::erase(listeners_, &id);
  if (id.connection != 0) {
    by_connection_.erase(id.connection);
    if (!agent_.disconnect(nic_.now(), id.connection)) {
      agent_.reject(nic_.now(), id.connection, RejReason::kConsumer);
    }
    answer(true);
  }
  channel.events.forget([&](ConnectionEvent* event) {
    if (event->waiter != &id) return false;
    --id.unacknowledged;
    if (event->id != &id) {  // a request that nobody took
      by_connection_.erase(event->id->connection);
      agent_.reject(nic_.now(), event->id->connection, RejReason::kConsumer);
      delete event->id;
    }
    delete event;
    return true;
  });
  acknowledged_.wait(lock, [&] { return id.unacknowledged == 0; });
}

void Connections::acknowledge(ConnectionEvent& event) {
  {
    const std::lock_guard lock(nic_.mutex());
    --event.waiter->unacknowledged;
    acknowledged_.notify_all();
  }
  delete &event;
}

ConnectionEvent& Connections::push(Id& id, rdma_cm_event_type type, int status) {
  auto* event = new ConnectionEvent;
  event->id = event->waiter = &id;
  event->ibv.id = &id.ibv;
  event->ibv.event = type;
  event->ibv.status = status;
  return *event;
}

void Connections::raise(Id& id, rdma_cm_event_type type, int status) {
  const std::lock_guard lock(nic_.mutex());
  ++id.unacknowledged;
  EventChannel::of(id.ibv.channel).events.push(&push(id, type, status));
}

}  // namespace understudy::soft_nic
