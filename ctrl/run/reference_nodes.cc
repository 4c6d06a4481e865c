#include "ctrl/run/reference_nodes.h"

#include "ctrl/compile/shard_config.h"
#include "ctrl/shards/collect.h"

namespace understudy {

ReferenceNodes::ReferenceNodes(const Config& config, size_t ports, bool together) : ports_(ports) {
  for (size_t port = 0; port < ports_.size(); ++port) {
    const NodeId node = config.ports[port].node;
    if (ports_[port].side != nullptr || config.nodes[node].kernel) continue;
    PortList list{port};
    for (size_t other = port + 1; together && other < ports_.size(); ++other) {
      if (config.ports[other].node == node) list.push_back(other);
    }
    sides_.push_back(std::make_unique<ShardSide>(reference_shard(config, list)));
    const std::vector<uint32_t> numbers = port_numbers(config, list);
    for (size_t i = 0; i < list.size(); ++i) ports_[list[i]] = {sides_.back().get(), numbers[i]};
  }
}

std::vector<ShardControl*> ReferenceNodes::controls() const {
  std::vector<ShardControl*> all;
  for (const Port& port : ports_) {
    all.push_back(port.side == nullptr ? nullptr : &port.side->control);
  }
  return all;
}

void ReferenceNodes::add_senders(PortReport& report, const Config& config, size_t port,
                                 Time end) const {
  const Port& behind = ports_[port];
  if (behind.side == nullptr || behind.number != 0) return;
  ShardSnapshot node;
  behind.side->shard.fit(node);
  behind.side->shard.snapshot(node, end);
  const auto senders = sender_reports(config, node, true);
  report.senders.insert(report.senders.end(), senders.begin(), senders.end());
}

}  // namespace understudy
