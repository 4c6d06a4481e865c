#include "ctrl/shards/shard_control.h"

#include <algorithm>
#include <utility>

namespace understudy {

namespace {
constexpr uint64_t kRegionGap = 1 << 20;  ///< between regions, so that an overrun meets nothing
}

uint64_t ShardControl::submit(Command command, Then then) {
  command.sequence = ++sequence_;
  waiting_.emplace(command.sequence, std::move(then));
  shard_.commands().push(command);
  return command.sequence;
}

size_t ShardControl::poll() {
  Reply reply;
  while (shard_.replies().pop(reply)) {
    const auto it = waiting_.find(reply.sequence);
    if (it == waiting_.end()) continue;
    const auto then = std::move(it->second);
    waiting_.erase(it);
    if (then) then(reply.status);
  }
  for (Sought& sought : std::exchange(sought_, {})) submit(std::move(sought));
  return waiting_.size();
}

Qpn ShardControl::take_qpn() {
  if (next_qp_ < shard_.queue_pairs()) return shard_.qpn_of(next_qp_++);
  if (free_qps_.empty()) return 0;
  const Qpn qpn = free_qps_.front();
  free_qps_.pop_front();
  return qpn;
}

size_t ShardControl::connections_left() const {
  return std::min(shard_.queue_pairs() - next_qp_ + free_qps_.size(),
                  shard_.region_capacity() - next_region_ + free_regions_.size());
}

Qp& ShardControl::add_qp(const QpConfig& config, Endpoint& endpoint, bool needs_payload,
                         const std::function<void(Qp&)>& prepare,
                         std::unique_ptr<QpControl> control, bool needs_small) {
  auto qp = qp_memory_.make(config, shard_.regions(), shard_.rc_counters(config.addressing.dst),
                            endpoint);
  Qp& result = *qp;
  Owned& owned = qps_[config.qpn];
  owned.qp = std::move(qp);
  owned.control = std::move(control);
  if (prepare) prepare(result);
  Command command;
  command.kind = CommandKind::kAddQp;
  command.qp = &result;
  command.endpoint = &endpoint;
  command.control = owned.control.get();
  command.needs_payload = needs_payload;
  command.needs_small = needs_small;
  submit(command);
  return result;
}

void ShardControl::add_datagram_qp(const DatagramQp& qp) {
  Owned& owned = qps_[qp.qpn];
  owned.datagrams = std::make_unique<DatagramQp>(qp);
  Command command;
  command.kind = CommandKind::kAddDatagramQp;
  command.datagrams = owned.datagrams.get();
  submit(command);
}

void ShardControl::remove_qp(Qpn qpn, std::function<void()> then) {
  Command command;
  command.kind = CommandKind::kRemoveQp;
  command.qpn = qpn;
  submit(command, [this, qpn, then = std::move(then)](ReplyStatus) {
    qps_.erase(qpn);
    free_qps_.push_back(qpn);
    if (then) then();
  });
}

Result<ExposedRegion> ShardControl::add_region(NodeId node, uint64_t bytes, uint8_t access,
                                               RegionKind kind) {
  ExposedRegion region;
  if (next_region_ < shard_.region_capacity()) {
    region.index = next_region_++;
  } else if (!free_regions_.empty()) {
    region.index = free_regions_.front();
    free_regions_.pop_front();
  } else {
    return fail("no memory region is left: limits.regions is " +
                std::to_string(shard_.region_capacity()));
  }
  region.va = next_va_;
  region.rkey = shard_.regions().rkey(region.index);
  next_va_ += bytes + kRegionGap;
  if (kind == RegionKind::kBacked) {
    ZeroMemory memory(bytes);
    if (memory.bytes() == nullptr) {
      free_regions_.push_back(region.index);
      return fail("no memory for a region of " + std::to_string(bytes) + " bytes");
    }
    region.bytes = memory.bytes();
    memory_.emplace(region.index, std::move(memory));
  }
  Command command;
  command.kind = CommandKind::kAddRegion;
  command.region_index = region.index;
  command.region = {node, region.va, bytes, access, region.bytes, true};
  command.region.pattern = kind == RegionKind::kPattern;
  submit(command);
  return region;
}

void ShardControl::remove_region(uint32_t index) {
  Command command;
  command.kind = CommandKind::kRemoveRegion;
  command.region_index = index;
  submit(command, [this, index](ReplyStatus) {
    memory_.erase(index);
    free_regions_.push_back(index);
  });
}

void ShardControl::modify_qp(Qpn qpn, QpState state) {
  Command command;
  command.kind = CommandKind::kModifyQp;
  command.qpn = qpn;
  command.state = state;
  submit(command);
}

void ShardControl::set_link(NodeId node, const RateChange& change) {
  Command command;
  command.kind = CommandKind::kSetLink;
  command.node = node;
  command.effective = change.at;
  command.change = change;
  submit(command);
}

void ShardControl::set_traffic(uint32_t group, bool running, Time effective) {
  Command command;
  command.kind = CommandKind::kSetTraffic;
  command.effective = effective;
  command.group = group;
  command.running = running;
  submit(command);
}

void ShardControl::wake(Endpoint& endpoint, uint64_t cookie) {
  Command command;
  command.kind = CommandKind::kWakeEndpoint;
  command.endpoint = &endpoint;
  command.cookie = cookie;
  submit(command);
}

void ShardControl::forget(std::vector<const Endpoint*> endpoints, std::function<void()> then) {
  std::ranges::sort(endpoints);
  const auto kept = std::make_shared<const std::vector<const Endpoint*>>(std::move(endpoints));
  Command command;
  command.kind = CommandKind::kForget;
  command.endpoints = kept.get();
  submit(command, [kept, then = std::move(then)](ReplyStatus) { then(); });
}

void ShardControl::send_datagram(NodeId node, Datagram datagram) {
  const auto kept = std::make_shared<const Datagram>(std::move(datagram));
  Command command;
  command.kind = CommandKind::kSendDatagram;
  command.node = node;
  command.datagram = kept.get();
  submit(command, [kept](ReplyStatus) {});
}

void ShardControl::reach(NodeId node, const IpAddress& local, const IpAddress& remote,
                         std::function<void()> then) {
  auto ends = std::make_shared<Datagram>();
  ends->addressing.src = local;
  ends->addressing.dst = remote;
  submit({node, std::move(ends), std::move(then)});
}

void ShardControl::submit(Sought sought) {
  Command command;
  command.kind = CommandKind::kReach;
  command.node = sought.node;
  command.datagram = sought.ends.get();
  submit(command, [this, sought = std::move(sought)](ReplyStatus status) {
    if (status == ReplyStatus::kUnresolved) {
      sought_.push_back(sought);
    } else {
      sought.then();
    }
  });
}

void ShardControl::snapshot(ShardSnapshot& out, std::function<void()> then) {
  shard_.fit(out);
  Command command;
  command.kind = CommandKind::kSnapshot;
  command.snapshot = &out;
  submit(command, [then = std::move(then)](ReplyStatus) {
    if (then) then();
  });
}

void ShardControl::count_rc(const IpAddress& real, std::function<void(const RcCounters&)> then) {
  const auto counted = std::make_shared<RcCounters>();
  Command command;
  command.kind = CommandKind::kCountRc;
  command.port = shard_.port_to(real);
  command.rc = counted.get();
  submit(command, [counted, then = std::move(then)](ReplyStatus) { then(*counted); });
}

void ShardControl::find_deadlock(DeadlockSearch& search, std::function<void()> then) {
  Command command;
  command.kind = CommandKind::kFindDeadlock;
  command.deadlock = &search;
  submit(command, [then = std::move(then)](ReplyStatus) { then(); });
}

void ShardControl::look_at_flows(FlowsLook& out, std::function<void()> then) {
  Command command;
  command.kind = CommandKind::kLookAtFlows;
  command.flows = &out;
  submit(command, [then = std::move(then)](ReplyStatus) { then(); });
}

void ShardControl::wake(Endpoint& endpoint, Time effective, std::function<void()> then) {
  Command command;
  command.kind = CommandKind::kWakeEndpoint;
  command.effective = effective;
  command.endpoint = &endpoint;
  submit(command, [then = std::move(then)](ReplyStatus) { then(); });
}

}  // namespace understudy
