// Jobs as ring_node hears of them when it plays a whole node.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "collective_model/schedule/schedule.h"
#include "ctrl/peers/ring/node_job.h"

namespace understudy {

inline IpAddress address_of(uint32_t node) {
  return *IpAddress::parse("10.9.0." + std::to_string(node + 1));
}

inline Communicator communicator(uint32_t nodes, uint32_t gpus = 1, uint32_t channels = 1) {
  Communicator c;
  c.nodes = nodes;
  c.gpus = gpus;
  c.channels = channels;
  return c;
}

inline Operation operation(Collective collective, Algorithm algorithm = Algorithm::kRing,
                           Protocol protocol = Protocol::kSimple, uint64_t count = 100000) {
  Operation o;
  o.collective = collective;
  o.algorithm = algorithm;
  o.protocol = protocol;
  o.count = count;
  return o;
}

/// With all links that the operations of its ranks have.
inline NodeJobMessage job_of(const Communicator& c, std::vector<NodeJobMessage::Kind> kinds,
                             uint32_t node) {
  NodeJobMessage job;
  job.name = "j";
  job.communicator = c;
  job.node = node;
  job.kinds = std::move(kinds);
  job.iterations = 2;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint8_t>, NodeJobMessage::Link> links;
  for (const NodeJobMessage::Kind& kind : job.kinds) {
    for (const Operation& o : kind.operations) {
      OperationCut cut;
      if (!is_p2p(o.collective)) cut = cut_group(c, std::span(&o, 1))->front();
      for (uint32_t rank = node * c.gpus; rank < (node + 1) * c.gpus; ++rank) {
        const auto schedule = rank_schedule(c, o, cut, rank);
        for (const Connection& used : schedule->connections()) {
          if (!used.network) continue;
          const bool sends = used.direction == Direction::kSend;
          const uint32_t peer = sends ? used.to : used.from;
          auto& link = links[{used.from, used.to, used.channel, used.index}];
          link.rank = rank;
          link.peer_rank = peer;
          link.channel = used.channel;
          link.index = used.index;
          link.client_sends = sends;
          link.slots = std::max(link.slots, used.window);
          link.slot_bytes = std::max(link.slot_bytes, used.capacity);
          link.local = {address_of(node)};
          link.remote = {address_of(c.node_of(peer))};
        }
      }
    }
  }
  for (const auto& [key, link] : links) job.links.push_back(link);
  return job;
}

}  // namespace understudy
