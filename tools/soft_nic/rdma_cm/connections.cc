#include "tools/soft_nic/rdma_cm/connections.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "dataplane/cm/rdma_cm.h"
#include "tools/soft_nic/device/context.h"
#include "tools/soft_nic/rdma_cm/socket_forms.h"

namespace understudy::soft_nic {

namespace {

/// Peers answer at once, or their process is gone and nobody does.
constexpr Duration kDreqWait = Duration::ms(250);

uint64_t draw_seed() {
  uint64_t drawn = 0;
  if (getrandom(&drawn, sizeof drawn, 0) != sizeof drawn) drawn = static_cast<uint64_t>(getpid());
  return drawn | 1;
}

CmAgentConfig agent_config(uint64_t seed, uint32_t mtu, const CmIdRange& ids) {
  CmAgentConfig config;
  config.seed = seed;
  config.ca_guid = seed;  // unlike that of other processes here: queue pair numbers are per guid
  config.max_mtu = mtu;
  config.ids = ids;
  config.longest_dreq_wait = kDreqWait;
  return config;
}

CmLookupsConfig lookups_config(uint64_t seed, const CmIdRange& ids) {
  CmLookupsConfig config;
  config.ids = ids;
  config.seed = seed;
  return config;
}

Qpn qpn_of(const Id& id, const rdma_conn_param& wanted) {
  return id.ibv.qp != nullptr ? id.ibv.qp->qp_num : wanted.qp_num;
}

std::span<const uint8_t> data_of(const rdma_conn_param& wanted) {
  return {static_cast<const uint8_t*>(wanted.private_data),
          wanted.private_data != nullptr ? wanted.private_data_len : size_t{0}};
}

/// RDMA-CM's header and then the program's own; false where that is more than `most`.
bool fill_private(const Id& id, const rdma_conn_param& wanted, size_t most,
                  std::vector<uint8_t>& out) {
  const auto own = data_of(wanted);
  if (own.size() > most - kRdmaHeaderBytes) return false;
  out.resize(kRdmaHeaderBytes);
  format_rdma_header({port_in(&id.ibv.route.addr.src_addr), id.local, id.peer}, out);
  out.insert(out.end(), own.begin(), own.end());
  return true;
}

}  // namespace

Connections::Connections(Nic& nic, ibv_context* context)
    : nic_(nic),
      context_(context),
      domain_(ibv_alloc_pd(context)),
      seed_(draw_seed()),
      ids_(claim_ids()),
      agent_(agent_config(seed_, nic.mtu(), ids_)),
      lookups_(lookups_config(seed_, ids_)) {
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
  if (!claim_service(id)) return EADDRINUSE;
  id.listens = true;
  listeners_.push_back(&id);
  for (const IpAddress& local : id.bound) {
    if (id.has_datagrams()) {
      lookups_.listen(local, id.service);
    } else {
      agent_.listen(local, id.service);
    }
  }
  deliver_early(nic_.now(), id);
  return answer(true);
}

Id* Connections::listener(const IpAddress& local, uint64_t service) const {
  const auto at = std::ranges::find_if(listeners_, [&](const Id* id) {
    return id->service == service && std::ranges::find(id->bound, local) != id->bound.end();
  });
  return at == listeners_.end() ? nullptr : *at;
}

int Connections::connect(Id& id, const rdma_conn_param& wanted) {
  const std::lock_guard lock(nic_.mutex());
  if (id.connection != 0 || id.lookup != 0) return EINVAL;
  if (id.has_datagrams()) return look_up(id, wanted);
  CmConnect request;
  if (!fill_private(id, wanted, CmReq{}.private_data.size(), request.private_data)) return EINVAL;
  id.active = true;
  id.own_psn = draw_psn();
  id.own_qpn = qpn_of(id, wanted);
  id.mtu = nic_.mtu();
  id.responder_resources = wanted.responder_resources;
  id.initiator_depth = wanted.initiator_depth;
  id.retry_count = wanted.retry_count & 7;
  id.rnr_retry = wanted.rnr_retry_count & 7;
  request.ends = {id.local, id.peer};
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

int Connections::look_up(Id& id, const rdma_conn_param& wanted) {
  CmLookup question;
  if (!fill_private(id, wanted, CmSidrReq{}.private_data.size(), question.private_data)) {
    return EINVAL;
  }
  question.ends = {id.local, id.peer};
  question.service_id = id.service;
  id.lookup = lookups_.ask(nic_.now(), question);
  if (id.lookup == 0) return ENOMEM;
  by_lookup_[id.lookup] = &id;
  return answer(true);
}

int Connections::accept(Id& id, const rdma_conn_param& wanted) {
  if (id.has_datagrams()) return tell(id, wanted);
  const auto own = data_of(wanted);
  {
    const std::lock_guard lock(nic_.mutex());
    if (id.connection == 0 || id.active) return EINVAL;
  }
  if (own.size() > CmRep{}.private_data.size()) return EINVAL;
  id.own_qpn = qpn_of(id, wanted);
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

int Connections::tell(Id& id, const rdma_conn_param& wanted) {
  const auto own = data_of(wanted);
  if (own.size() > CmSidrRep{}.private_data.size()) return EINVAL;
  const std::lock_guard lock(nic_.mutex());
  return answer(lookups_.answer(
      nic_.now(), id.lookup,
      {SidrStatus::kSuccess, qpn_of(id, wanted), RDMA_UDP_QKEY, {own.begin(), own.end()}}));
}

int Connections::reject(Id& id, std::span<const uint8_t> private_data) {
  const size_t most =
      id.has_datagrams() ? CmSidrRep{}.private_data.size() : CmRej{}.private_data.size();
  if (private_data.size() > most) return EINVAL;
  const std::lock_guard lock(nic_.mutex());
  if (id.has_datagrams()) {
    return answer(
        lookups_.answer(nic_.now(), id.lookup,
                        {SidrStatus::kReject, 0, 0, {private_data.begin(), private_data.end()}}));
  }
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

}  // namespace understudy::soft_nic
