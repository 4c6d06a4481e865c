#include "collective_model/plan/nic_use.h"

#include <map>
#include <utility>

#include "dataplane/base/assert.h"

namespace understudy {
namespace {

struct OneWay {
  uint64_t all = 0, inner = 0;
  void add(bool is_inner) {
    ++all;
    inner += is_inner ? 1 : 0;
  }
  bool alone() const { return inner == 0 || all == 1; }
};

}  // namespace

NicUse nic_use(const Communicator& communicator,
               const std::vector<std::shared_ptr<const RankSchedule>>& ranks,
               const std::vector<bool>& real) {
  ASSERT_INVARIANT(ranks.size() == real.size());
  using Nic = std::pair<uint32_t, uint32_t>;  // node, and its number there
  std::map<Nic, OneWay> out, in;
  NicUse use;
  for (const auto& rank : ranks) {
    for (const Connection& c : rank->connections()) {
      if (!c.network || c.direction != Direction::kSend || c.messages == 0) continue;
      const uint32_t by =
          c.relayed ? communicator.p2p_nic(c.from, c.to) : communicator.nic_of(c.from);
      const bool inner = !real[c.from] && !real[c.to];
      use.inner += inner ? 1 : 0;
      out[{communicator.node_of(c.from), by}].add(inner);
      in[{communicator.node_of(c.to), communicator.nic_of(c.to)}].add(inner);
    }
  }
  for (const auto* way : {&out, &in}) {
    for (const auto& [nic, connections] : *way) use.alone = use.alone && connections.alone();
  }
  return use;
}

}  // namespace understudy
