#include "tools/roce_check/checks/collective_check.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "ctrl/config/job_operation.h"
#include "ctrl/schedule/expected_messages.h"
#include "tools/roce_check/packets/node_addresses.h"

namespace understudy {
namespace {

/// What one connection carried in one direction.
struct Carried {
  const Flow* flow = nullptr;
  NodeId from = 0, to = 0;
  unsigned from_nic = 0, to_nic = 0;
  std::vector<const AcceptedMessage*> data;  ///< WRITEs with immediate
  std::map<uint64_t, uint64_t> plain;        ///< WRITEs without, the other way: how many, by bytes
  bool explained = false;
};

void add_direction(const PacketTable& table, const NodeAddresses& addresses,
                   const DirectionResult& data, const DirectionResult& back,
                   std::vector<Carried>& out) {
  if (data.flow == kNoFlow) return;
  Carried c;
  c.flow = &table.flows[data.flow];
  const auto from = addresses.find(c.flow->src);
  const auto to = addresses.find(c.flow->dst);
  if (!from || !to || (!from->real && !to->real)) return;
  c.from = from->node;
  c.to = to->node;
  c.from_nic = from->nic;
  c.to_nic = to->nic;
  for (const AcceptedMessage& m : data.messages.kept()) {
    if (m.kind == OpKind::kWrite && m.imm) c.data.push_back(&m);
  }
  for (const AcceptedMessage& m : back.messages.kept()) {
    if (m.kind == OpKind::kWrite && !m.imm) ++c.plain[m.bytes];
  }
  if (!c.data.empty()) out.push_back(std::move(c));
}

/// Number of messages up to the first that differs.
size_t common(const Carried& carried, const ExpectedConnection& expected) {
  const size_t n = std::min(carried.data.size(), expected.sizes.size());
  for (size_t i = 0; i < n; ++i) {
    if (carried.data[i]->bytes != expected.sizes[i]) return i;
  }
  return n;
}

bool equal(const Carried& carried, const ExpectedConnection& expected, bool open_end) {
  const size_t same = common(carried, expected);
  return same == carried.data.size() && (open_end || same == expected.sizes.size());
}

void describe_difference(const Carried& carried, const ExpectedConnection& expected,
                         Findings& findings) {
  const size_t at = common(carried, expected);
  std::string text = expected.name + " (" + carried.flow->name() + "): ";
  Stamp stamp;
  if (at == carried.data.size()) {
    text += "ends after " + std::to_string(at) + " of " + std::to_string(expected.sizes.size()) +
            " messages";
  } else if (at == expected.sizes.size()) {
    stamp = {carried.data[at]->first_frame, carried.data[at]->first_at};
    text += std::to_string(carried.data.size()) + " messages, the model says " +
            std::to_string(expected.sizes.size());
  } else {
    stamp = {carried.data[at]->first_frame, carried.data[at]->first_at};
    text += "message " + std::to_string(at) + " has " + std::to_string(carried.data[at]->bytes) +
            " bytes, the model says " + std::to_string(expected.sizes[at]);
  }
  findings.add(Rule::kCollective, stamp, std::move(text));
}

/// Of the ring over which ranks exchange what one-sided operations need (docs/nccl 3.16): all-gathers
/// of a message for each other rank. A handle, then a barrier for each rank, of GIN for each rank and
/// context; addresses and their keys, of GIN's windows before that, too. `at_once`: no handle, one
/// context (up to 2.29.7).
bool is_one_sided_ring(const Carried& c, size_t ranks, bool at_once) {
  constexpr uint64_t kHandle = 128, kBarrier = 4, kAddress = 8, kKey = 4;
  const size_t others = ranks - 1;
  if (c.data.size() % others != 0) return false;
  size_t barriers = at_once ? ranks : 0;
  bool key = false, meshed = at_once, new_mesh = false;
  for (size_t begin = 0; begin < c.data.size(); begin += others) {
    const uint64_t bytes = c.data[begin]->bytes;
    for (size_t i = begin; i < begin + others; ++i) {
      if (c.data[i]->bytes != bytes) return false;
    }
    if (new_mesh && barriers == 0 && bytes == kBarrier) barriers = ranks;
    if (barriers > 0) {
      if (bytes != kBarrier) return false;
      --barriers;
    } else if (key) {
      if (bytes != kKey) return false;
      key = false;
    } else if (bytes == kHandle && !at_once) {
      barriers = ranks;
      meshed = new_mesh = true;
    } else {
      if (bytes != kAddress) return false;
      key = true;
      new_mesh = false;
    }
  }
  return meshed && barriers == 0 && !key;
}

bool is_one_sided_ring(const Carried& c, const Config& config) {
  return std::ranges::any_of(config.jobs, [&](const JobConfig& job) {
    const auto has = [&](NodeId node) {
      return std::ranges::find(job.ranks, node) != job.ranks.end();
    };
    return job.join && job.nccl >= NcclVersion{28} && has(c.from) && has(c.to) &&
           is_one_sided_ring(c, job_rank_count(config, job), job.nccl < NcclVersion{30});
  });
}

bool same_way(const Carried& c, const ExpectedConnection& e) {
  return c.from == e.from && c.to == e.to && c.from_nic == e.from_nic && c.to_nic == e.to_nic;
}

}  // namespace

void check_collectives(const Config& config, bool open_end, Analysis& analysis) {
  std::vector<std::string> unknown;
  const auto expected = expected_connections(config, &unknown);
  Findings& findings = analysis.findings;
  for (const std::string& why : unknown) {
    findings.note(Check::kCollective, "not judged: " + why);
  }
  if (expected.empty()) return;
  const NodeAddresses addresses(config);
  std::vector<Carried> carried;
  for (const ConnectionResult& c : analysis.connections) {
    add_direction(analysis.table, addresses, c.forward, c.reverse, carried);
    add_direction(analysis.table, addresses, c.reverse, c.forward, carried);
  }
  const bool any = std::ranges::any_of(carried, [&](const Carried& c) {
    return std::ranges::any_of(expected, [&](const auto& e) { return same_way(c, e); });
  });
  if (!any) {
    findings.note(Check::kCollective, "no job ran in this capture");
    return;
  }
  findings.examined(Rule::kCollective);
  std::vector<const ExpectedConnection*> missing;
  for (const ExpectedConnection& e : expected) {
    bool found = false;
    // A job may have run more than once; channels of equal sizes take one connection each.
    for (Carried& c : carried) {
      if (c.explained || !same_way(c, e) || !equal(c, e, open_end)) continue;
      c.explained = true;
      found = true;
      const uint64_t bytes =
          std::accumulate(c.data.begin(), c.data.end(), uint64_t{0},
                          [](uint64_t sum, const AcceptedMessage* m) { return sum + m->bytes; });
      const uint64_t credits = c.plain[e.credit_bytes];
      findings.note(Check::kCollective, e.name + ": " + std::to_string(c.data.size()) +
                                            " messages, " + std::to_string(bytes) + " bytes, " +
                                            std::to_string(credits) + " credits");
      if (credits < c.data.size()) {
        findings.add(Rule::kCollective, {}, e.name + ": fewer credits than messages");
      }
      break;
    }
    if (!found) missing.push_back(&e);
  }
  for (Carried& c : carried) {
    if (c.explained) continue;
    const auto again = std::ranges::find_if(expected, [&](const ExpectedConnection& e) {
      return same_way(c, e) && equal(c, e, open_end);
    });
    c.explained = again != expected.end();  // the job ran once more
  }
  for (const ExpectedConnection* e : missing) {
    Carried* best = nullptr;
    for (Carried& c : carried) {
      if (c.explained || !same_way(c, *e)) continue;
      if (best == nullptr || common(c, *e) > common(*best, *e)) best = &c;
    }
    if (best == nullptr) {
      findings.add(Rule::kCollective, {}, e->name + ": no connection carries it");
      continue;
    }
    best->explained = true;
    describe_difference(*best, *e, findings);
  }
  for (const Carried& c : carried) {
    if (!c.explained && is_one_sided_ring(c, config)) {
      findings.note(Check::kCollective, c.flow->name() + ": " + std::to_string(c.data.size()) +
                                            " messages that set up one-sided operations");
      continue;
    }
    if (!c.explained && unknown.empty()) {
      findings.add(Rule::kCollective, {c.data.front()->first_frame, c.data.front()->first_at},
                   c.flow->name() + ": " + std::to_string(c.data.size()) +
                       " messages that no job of the configuration explains");
    }
  }
}

}  // namespace understudy
