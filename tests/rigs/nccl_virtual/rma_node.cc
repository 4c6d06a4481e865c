#include "tests/rigs/nccl_virtual/rma_node.h"

#include <algorithm>
#include <bit>

#include "ctrl/compile/shard_config.h"
#include "ctrl/peers/nccl/transport/net_ib_layout.h"
#include "ctrl/shards/nccl_queue_pair.h"

namespace understudy::nccl_rank {
namespace {

constexpr uint8_t kAll = kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;
/// A put's own completion nobody waits for, as NCCL has it where a signal follows.
constexpr uint64_t kCounted = 1;

}  // namespace

void RmaRingEnd::act(Time now) {
  if (!sends_) {
    for (; granted < capacity.size(); ++granted) {
      if (!receiver.grant(now, *host_, capacity[granted])) return;
    }
    return;
  }
  for (; posted < messages.size() && sender.has_credit(posted); ++posted) {
    const uint8_t* const entry = region.bytes + posted % layout.slots * layout.stride();
    if (CtsEntry::decode(layout, entry).tag != kTag) {
      failed = true;
      return;
    }
    PayloadRef payload;
    payload.bytes = messages[posted].data();
    const auto bytes = static_cast<uint32_t>(messages[posted].size());
    if (!sender.send(now, *host_, posted, bytes, payload, posted)) return;
  }
}

void RmaRingEnd::on_received(Time now, Qp& qp, const Received& came) {
  if (sends_) return act(now);
  receiver.received(qp, came, [&](uint32_t bytes) {
    const uint8_t* const from = region.bytes + size_t{receiver.slot(messages.size())} * kSlotBytes;
    messages.emplace_back(from, from + bytes);
  });
}

void RmaRingEnd::on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) {
  failed = failed || status != WorkStatus::kSuccess;
  if (failed || !sends_) return;
  sender.acknowledged(qp, id, [&](uint64_t) { ++sent; });
  act(now);
}

void RmaMeshEnd::on_wake(Time now, uint64_t) {
  while (!waiting.empty() && host_->post(now, *qp, waiting.front())) waiting.pop_front();
}

void RmaMeshEnd::on_completed(Time now, Qp&, uint64_t id, WorkStatus status) {
  failed = failed || status != WorkStatus::kSuccess;
  if (id == kCounted) ++done;
  on_wake(now, 0);
}

IbSide RmaNode::open(const Link& link) {
  const NetIbLayout& layout = net_ib_layout(job_.nccl);
  End& end = ends_.emplace_back();
  end.link = link;
  end.qpn = control_.take_qpn();
  const bool ring = link.index == kRing;
  const uint64_t bytes =
      ring && !link.sends ? RmaRingEnd::kSlots * RmaRingEnd::kSlotBytes : layout.cts.fifo_bytes();
  const ExposedRegion region =
      control_.add_region(node(rank_).index, bytes, kAccessRemoteWrite, RegionKind::kBacked)
          .value();
  if (ring) {
    end.ring = std::make_unique<RmaRingEnd>(link.sends);
    end.ring->region = region;
    end.ring->layout = layout.cts;
    (link.sends ? out_ : in_) = end.ring.get();
  } else {
    end.mesh = std::make_unique<RmaMeshEnd>();
    end.mesh->region = region;
    if (link.sends) to_[link.peer] = end.mesh.get();
  }
  IbSide side;
  side.qpns = {end.qpn};
  side.gids = {roce_address(node(rank_).nics[job_.nic])};
  side.rkeys = {region.rkey};
  side.address = region.va;
  side.mtu = std::countr_zero(config_.fabric.mtu) - 7;
  return side;
}

void RmaNode::connect(const IbSide& own, const IbSide& theirs) {
  const auto it =
      std::ranges::find_if(ends_, [&](const End& e) { return e.qpn == own.qpns.front(); });
  End& end = *it;
  const NcclNic near{&node(rank_), job_.nic};
  const NcclNic far{&node(static_cast<uint32_t>(end.link.peer)), job_.nic};
  const bool ring = end.ring != nullptr;
  QpConfig config = nccl_queue_pair(config_, job_.nccl, near, far, end.qpn, theirs.qpns.front(),
                                    config_.fabric.mtu, 0, ring && !end.link.sends);
  config.addressing.dst_mac = far.node->nics[far.nic].mac;
  config.max_rd_atomic = config.max_dest_rd_atomic = 1;
  if (!end.link.sends) config.access = kAll;
  Endpoint& endpoint = ring ? static_cast<Endpoint&>(*end.ring) : *end.mesh;
  control_.add_qp(config, endpoint, true, [&](Qp& qp) {
    if (!ring) {
      end.mesh->qp = &qp;
      return;
    }
    const NcclQps qps{{&qp}, false, 1, {}};
    const CtsLayout& layout = end.ring->layout;
    if (end.link.sends) {
      end.ring->sender.connect({.qps = qps, .layout = layout, .fifo = end.ring->region.bytes});
      return;
    }
    end.ring->staging.resize(size_t{layout.slots} * layout.entry_bytes);
    end.ring->receiver.connect({.qps = qps,
                                .layout = layout,
                                .fifo_va = theirs.address,
                                .fifo_rkey = theirs.rkeys.front(),
                                .buffer_va = end.ring->region.va,
                                .buffer_rkey = end.ring->region.rkey,
                                .slots = RmaRingEnd::kSlots,
                                .slot_bytes = RmaRingEnd::kSlotBytes,
                                .sender_rank = RmaRingEnd::kTag,
                                .staging = end.ring->staging.data()});
  });
}

RmaMemory RmaNode::expose(uint64_t bytes) {
  const ExposedRegion region =
      control_.add_region(node(rank_).index, bytes, kAll, RegionKind::kBacked).value();
  return {region.va, region.rkey, region.bytes, bytes};
}

void RmaNode::ring_send(Bytes bytes) {
  out_->messages.push_back(std::move(bytes));
  control_.wake(*out_, 0);
}

void RmaNode::ring_receive(size_t bytes) {
  in_->capacity.push_back(static_cast<uint32_t>(bytes));
  control_.wake(*in_, 0);
}

void RmaNode::post(int peer, const WorkRequest& request) {
  RmaMeshEnd& end = *to_.at(peer);
  end.waiting.push_back(request);
  posted_ += request.id == kCounted ? 1 : 0;
  control_.wake(end, 0);
}

void RmaNode::put(int peer, const uint8_t* from, uint64_t bytes, uint64_t address, uint32_t rkey) {
  WorkRequest write;
  write.op = WorkOp::kWrite;
  write.remote_va = address;
  write.rkey = rkey;
  write.length = static_cast<uint32_t>(bytes);
  write.payload.bytes = from;
  post(peer, write);
}

void RmaNode::signal(int peer, uint64_t value, uint64_t* original, uint64_t address,
                     uint32_t rkey) {
  WorkRequest add;
  add.op = WorkOp::kFetchAdd;
  add.id = kCounted;
  add.remote_va = address;
  add.rkey = rkey;
  add.compare_add = value;
  add.read_to = reinterpret_cast<uint8_t*>(original);
  post(peer, add);
}

void RmaNode::get(int peer, uint8_t* to, uint64_t bytes, uint64_t address, uint32_t rkey) {
  WorkRequest read;
  read.op = WorkOp::kRead;
  read.id = kCounted;
  read.remote_va = address;
  read.rkey = rkey;
  read.length = static_cast<uint32_t>(bytes);
  read.read_to = to;
  post(peer, read);
}

size_t RmaNode::done() const {
  size_t done = 0;
  for (const auto& [peer, end] : to_) done += end->done;
  return done;
}

bool RmaNode::failed() const {
  return std::ranges::any_of(ends_, [](const End& end) {
    return end.ring != nullptr ? end.ring->failed : end.mesh->failed;
  });
}

}  // namespace understudy::nccl_rank
