#include "ctrl/jobs/operations/unplanned_links.h"

#include <utility>

#include "ctrl/compile/qp_control.h"
#include "ctrl/schedule/net_ib_environment.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

/// Work requests of a queue pair: more wait until some have been acknowledged.
constexpr uint32_t kSendQueue = 64;

}  // namespace

UnplannedLinks::~UnplannedLinks() {
  while (!links_.empty()) remove(links_.begin()->first);
}

Result<EndpointReady> UnplannedLinks::create(const NodeConfig& emulated, const NodeConfig& real,
                                             const EndpointRequest& request) {
  const auto known = links_.find(request.nccl->connector);
  Link* link = known == links_.end() ? nullptr : known->second.get();
  if (link != nullptr && (link->made || request.reserve)) {
    return fail("the connection has been made already");
  }
  if (link == nullptr) {
    link = TRY(reserve(emulated.index, request));
  }
  if (!request.reserve) connect(*link, emulated, real, request);
  return link->end;
}

Result<UnplannedLinks::Link*> UnplannedLinks::reserve(NodeId node, const EndpointRequest& request) {
  const NcclLinkRequest& wanted = *request.nccl;
  const bool real_sends = wanted.connector.real_sends;
  auto& traffic = traffic_[wanted.connector.communicator];
  if (traffic == nullptr) traffic = std::make_shared<UnplannedTraffic>();
  auto link = std::make_shared<Link>(real_sends, traffic);
  EndpointReady& end = link->end;
  const auto give_back = [&] {
    for (const Qpn qpn : end.qpns) control_.return_qpn(qpn);
  };
  while (end.qpns.size() < wanted.queue_pairs) {
    const Qpn qpn = control_.take_qpn();
    if (qpn == 0) {
      give_back();
      return fail("no queue pair is left on this port: limits.queue_pairs is " +
                  std::to_string(config_.limits.queue_pairs));
    }
    end.qpns.push_back(qpn);
  }
  if (wanted.failover && !take_failover(control_, node, !real_sends,
                                        {wanted.failover->probing, wanted.failover->recovery},
                                        link->further, link->records)) {
    give_back();
    return fail("no queue pair or no memory is left on this port for port failover");
  }
  auto region = real_sends ? control_.add_region(node, UnplannedConnection::kCapacity,
                                                 kAccessRemoteWrite, RegionKind::kDiscard)
                           : control_.add_region(node, settings_.layout.fifo_bytes(),
                                                 kAccessRemoteWrite, RegionKind::kBacked);
  if (!region) {
    give_back();
    return_failover(control_, link->further, link->records);
    return fail(region.error().text);
  }
  link->region = *region;
  end.qpn = end.qpns.front();
  end.address = region->va;
  end.rkey = region->rkey;
  end.probing = link->further.probing;
  end.recovery = link->further.recovery;
  if (link->further.exists() && real_sends) {
    end.address = link->further.records_va;
    end.rkey = link->further.records_rkey;
  }
  return links_.emplace(wanted.connector, std::move(link)).first->second.get();
}

const PortConfig& UnplannedLinks::port_to(const NcclNic& real) const {
  size_t i = 0;
  while (config_.ports[i].node != real.node->index || config_.ports[i].nic != real.nic) ++i;
  return config_.ports[i];
}

void UnplannedLinks::connect(Link& link, const NodeConfig& emulated, const NodeConfig& real,
                             const EndpointRequest& request) {
  const NcclLinkRequest& wanted = *request.nccl;
  const NcclConnector& connector = wanted.connector;
  const bool sends = !connector.real_sends;
  const CtsLayout& layout = settings_.layout;
  NcclQps qps{{}, wanted.split, wanted.parts, wanted.remote_device};
  if (link.further.exists()) link.failover = std::make_unique<PortFailover>();
  DeviceRkeys keys;
  for (size_t d = 0; d < wanted.devices.size(); ++d) keys[d] = wanted.devices[d].rkey;
  for (size_t q = 0; q < link.end.qpns.size(); ++q) {
    // Of the devices that both NICs are made of.
    const NcclNic near{&emulated, nic_with(emulated, wanted.local[q % wanted.local.size()])};
    const NcclNic far{&real, nic_with(real, wanted.devices[wanted.remote_device[q]].gid)};
    QpConfig config =
        nccl_queue_pair(config_, settings_.version, near, far, link.end.qpns[q],
                        wanted.remote_qpns[q], request.mtu, request.sender.traffic_class, !sends);
    config.send_queue = kSendQueue;
    if (!settings_.knows_neighbours) config.addressing.dst_mac = far.node->nics[far.nic].mac;
    const auto prepare = [&](Qp& qp) {
      qps.all.push_back(&qp);
      if (q + 1 < link.end.qpns.size()) return;  // it is not looked at before join()
      if (sends) {
        link.connection.sender().connect({.qps = qps,
                                          .layout = layout,
                                          .fifo = link.region.bytes,
                                          .collective = connector.index == 0,
                                          .buffers = settings_.buffers,
                                          .several_receives = connector.index != 0,
                                          .sizes_va = wanted.fifo_address,
                                          .sizes_rkey = keys,
                                          .violations = &link.traffic->violations,
                                          .registered = &link.traffic->registered,
                                          .failover = link.failover.get()});
      } else {
        link.staging.reset(new uint8_t[size_t{layout.slots} * layout.entry_bytes]);
        link.connection.receiver().connect({.qps = qps,
                                            .layout = layout,
                                            .fifo_va = wanted.fifo_address,
                                            .fifo_rkey = keys,
                                            .devices = static_cast<uint32_t>(wanted.local.size()),
                                            .buffer_va = link.region.va,
                                            .buffer_rkey = link.region.rkey,
                                            .slots = 1,
                                            .slot_bytes = UnplannedConnection::kCapacity,
                                            .sender_rank = connector.sender,
                                            .staging = link.staging.get(),
                                            .failover = link.failover.get(),
                                            .records = link.records.bytes});
      }
    };
    auto steered = sends ? make_qp_control(config_, settings_.topology, request.sender,
                                           near.node->index, near.nic, port_to(far), request.mtu)
                         : nullptr;
    control_.add_qp(config, link.connection, sends, prepare, std::move(steered));
  }
  if (link.failover != nullptr) add_failover_of(link, emulated, real, request, std::move(qps.all));
  link.made = true;
}

void UnplannedLinks::add_failover_of(Link& link, const NodeConfig& emulated, const NodeConfig& real,
                                     const EndpointRequest& request, std::vector<Qp*> data) {
  const NcclLinkRequest& wanted = *request.nccl;
  FailoverLink further{
      .config = config_,
      .version = settings_.version,
      .settings = *net_ib_environment(config_).failover_of(settings_.version),
      .sends = !wanted.connector.real_sends,
      .near = emulated,
      .far = real,
      .near_nics = {},
      .far_nics = {},
      .theirs = {wanted.failover->remote_probing, wanted.failover->remote_recovery},
      .records_va = wanted.fifo_address,
      .records_rkey = {},
      .mtu = request.mtu,
      .traffic_class = request.sender.traffic_class,
      .knows_neighbours = settings_.knows_neighbours};
  for (const IpAddress& own : wanted.local) further.near_nics.push_back(nic_with(emulated, own));
  for (size_t d = 0; d < wanted.devices.size(); ++d) {
    further.far_nics.push_back(nic_with(real, wanted.devices[d].gid));
    further.records_rkey[d] = wanted.devices[d].rkey;
  }
  add_failover(control_, further, link.further, std::move(data), link.connection,
               link.traffic->failover, *link.failover);
}

void UnplannedLinks::join(const NcclConnector& connector) {
  const auto link = links_.find(connector);
  if (link == links_.end() || !link->second->made) return;
  control_.wake(link->second->connection, UnplannedConnection::kJoin);
}

void UnplannedLinks::remove(const NcclConnector& connector) {
  const auto it = links_.find(connector);
  if (it == links_.end()) return;
  // Memory and endpoint live until the shard has let go of the last queue pair.
  const std::shared_ptr<Link> link = std::move(it->second);
  links_.erase(it);
  ShardControl& control = control_;
  if (!link->made) {
    for (const Qpn qpn : link->end.qpns) control.return_qpn(qpn);
    control.remove_region(link->region.index);
    return_failover(control, link->further, link->records);
    return;
  }
  if (link->failover != nullptr) control.wake(*link->failover, PortFailover::kStop);
  std::vector<Qpn> all = link->further_queue_pairs();
  all.insert(all.end(), link->end.qpns.begin(), link->end.qpns.end());
  const auto left = std::make_shared<size_t>(all.size());
  for (const Qpn qpn : all) {
    control.remove_qp(qpn, [link, left, &control] {
      if (--*left != 0) return;
      control.remove_region(link->region.index);
      if (link->records.bytes != nullptr) control.remove_region(link->records.index);
      if (link->failover != nullptr) control.forget({link->failover.get()}, [link] {});
    });
  }
}

}  // namespace understudy
