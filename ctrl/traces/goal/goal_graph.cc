#include "ctrl/traces/goal/goal.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

std::string goal_place(size_t rank, const GoalRank& of, size_t operation) {
  const std::string& label = of.operations[operation].label;
  return "rank " + std::to_string(rank) + ", operation " + std::to_string(operation) +
         (label.empty() ? "" : " (" + label + ")");
}

Result<TraceNode> node_of(const GoalOperation& operation, uint32_t rank) {
  TraceNode node;
  node.name = operation.label;
  if (operation.kind == GoalOperation::Kind::kCalculation) {
    node.set_duration_ns(operation.size);
    return node;
  }
  const bool sends = operation.kind == GoalOperation::Kind::kSend;
  if (!sends && operation.peer == kAnyGoalPeer) {
    return fail("a receive from any rank (-1) is not covered");
  }
  if (operation.tag == kAnyGoalTag) return fail("a message of any tag (-1) is not covered");
  node.kind = sends ? TraceNodeKind::kSend : TraceNodeKind::kReceive;
  node.bytes = operation.size;
  node.tag = operation.tag;
  node.source = sends ? rank : operation.peer;
  node.destination = sends ? operation.peer : rank;
  return node;
}

Result<TraceGraph> graph_of(const GoalRank& from, uint32_t rank) {
  std::vector<TraceNodeParents> nodes(from.operations.size());
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    auto node = node_of(from.operations[i], rank);
    if (!node) return fail(goal_place(rank, from, i) + ": " + node.error().text);
    nodes[i].node = *std::move(node);
    nodes[i].node.id = i;
  }
  for (const auto& [waits, former, start] : from.requirements) {
    if (start) {
      return fail(goal_place(rank, from, waits) +
                  ": \"irequires\" waits for the begin of an operation (" + std::to_string(former) +
                  "), which is not covered");
    }
    nodes[waits].data.push_back(former);
  }
  return TraceGraph::make(std::move(nodes));
}

}  // namespace

Result<TraceJob> goal_traces(const GoalSchedule& schedule) {
  TraceJob job;
  uint64_t cpus = 0, nics = 0;
  for (uint32_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (const GoalOperation& operation : schedule.ranks[rank].operations) {
      cpus += operation.cpu > 0 ? 1 : 0;
      nics += operation.nic > 0 ? 1 : 0;
    }
    job.ranks.push_back(
        std::make_shared<const TraceGraph>(TRY(graph_of(schedule.ranks[rank], rank))));
  }
  const auto note = [&](uint64_t count, const char* what) {
    if (count == 0) return;
    job.notes.push_back(std::to_string(count) + " operations are on a " + what +
                        " other than 0; a rank of a replay has one place to compute and one to "
                        "communicate");
  };
  note(cpus, "cpu");
  note(nics, "nic");
  return job;
}

}  // namespace understudy
