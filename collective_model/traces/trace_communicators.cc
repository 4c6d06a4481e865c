#include "collective_model/traces/trace_communicators.h"

#include <algorithm>
#include <numeric>

#include "collective_model/traces/trace_rings.h"
#include "dataplane/base/assert.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

std::string shape_text(const TraceNode& node) {
  const std::string what =
      node.kind == TraceNodeKind::kCollective ? name_of(*node.collective) : std::string("message");
  return what + " of " + std::to_string(node.bytes.value_or(0)) + " bytes";
}

bool is_communication(const TraceNode& node) {
  return node.kind == TraceNodeKind::kCollective || node.kind == TraceNodeKind::kSend ||
         node.kind == TraceNodeKind::kReceive;
}

}  // namespace

Result<TraceCommunicators> TraceCommunicators::find(const TraceJob& job, const TraceOrders& orders,
                                                    TraceRules rules,
                                                    const TraceComputing& computing) {
  TraceCommunicators out(job, rules);
  MessageEnds ends(job);
  for (uint32_t rank = 0; rank < job.ranks.size(); ++rank) {
    const std::vector<TraceNode>& nodes = job.ranks[rank]->nodes();
    const std::vector<uint32_t>& sequence = orders.at(job.ranks[rank].get()).sequence;
    for (uint32_t i = 0; i < nodes.size(); ++i) {
      const TraceNode& node = nodes[sequence.empty() ? i : sequence[i]];
      const auto at = [&](const Result<void>& result) -> Result<void> {
        if (result) return {};
        return fail(place_text(job, rank, node) + ": " + result.error().text);
      };
      if (static_cast<double>(node.duration_us) * 1000 > kLongestTraceNs) {
        TRY(at(fail("it takes more than 46 days")));
      }
      if (!is_communication(node) || computing.is_computed(node)) continue;
      if (node.on_cpu) {
        TRY(at(fail("communication on the CPU is an error by the third feeder's rules")));
      }
      if (node.kind == TraceNodeKind::kCollective) {
        TRY(at(out.add_collective(rank, node)));
      } else {
        TRY(at(ends.add(rank, node, rules)));
        out.add_message(rank, node);
      }
    }
  }
  TRY(ends.check());
  for (size_t i = 0; i < out.all_.size(); ++i) {
    const TraceCommunicator& one = out.all_[i];
    if (!one.messages) TRY(compare_ranks(one.name, one.ranks, out.collectives_[i]));
  }
  if (in_streams(rules)) TRY(out.check_order());
  out.collectives_.clear();
  for (TraceCommunicator& one : out.all_) {
    for (TraceShape& shape : one.shapes) shape.count /= one.ranks.size();
  }
  return out;
}

Result<TraceCommunicators::Group> TraceCommunicators::group_of_node(uint32_t rank,
                                                                    const TraceNode& node) const {
  const std::optional<uint32_t> number = TRY(of_collectives_.of(rank, node));
  if (number) return Group(*number);
  if (std::ranges::all_of(node.dimensions, [](bool takes_part) { return takes_part; })) {
    return Group();
  }
  const std::vector<uint32_t>& sizes = job_->dimensions;
  if (node.dimensions.size() != sizes.size()) {
    return fail("involved_dim names " + std::to_string(node.dimensions.size()) +
                " dimensions of ranks, and " +
                (sizes.empty() ? std::string("none are given")
                               : std::to_string(sizes.size()) + " are given") +
                " (dimensions = [2, 4])");
  }
  uint64_t set = 0;
  uint32_t least = rank, stride = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (node.dimensions[d]) {
      set |= uint64_t{1} << d;
      least -= rank / stride % sizes[d] * stride;
    }
    stride *= sizes[d];
  }
  return Group(std::pair(set, least));
}

Result<TraceCommunicator> TraceCommunicators::make_group(const Group& group) const {
  TraceCommunicator made;
  if (const auto* number = std::get_if<uint32_t>(&group)) {
    made.name = "group " + std::to_string(*number);
    made.ranks = job_->groups.at(*number);
  } else if (const auto* some = std::get_if<std::pair<uint64_t, uint32_t>>(&group)) {
    made.ranks = {some->second};
    uint32_t stride = 1;
    for (size_t d = 0; d < job_->dimensions.size(); ++d) {
      const bool takes_part = (some->first >> d & 1) != 0;
      const size_t before = made.ranks.size();
      for (uint32_t k = 1; takes_part && k < job_->dimensions[d]; ++k) {
        for (size_t i = 0; i < before; ++i) made.ranks.push_back(made.ranks[i] + k * stride);
      }
      if (takes_part) {
        made.name += (made.name.empty() ? "dimension " : " and ") + std::to_string(d);
      }
      stride *= job_->dimensions[d];
    }
    made.name += (made.name.empty() ? "rank " : " from rank ") + std::to_string(some->second);
  } else {
    made.name = "all ranks";
    made.ranks.resize(job_->ranks.size());
    std::iota(made.ranks.begin(), made.ranks.end(), 0);
  }
  std::ranges::sort(made.ranks);
  for (uint32_t m = 0; m < made.ranks.size(); ++m) {
    if (made.ranks[m] >= job_->ranks.size()) {
      return fail(made.name + " has rank " + std::to_string(made.ranks[m]) + ", and there are " +
                  std::to_string(job_->ranks.size()));
    }
    if (m > 0 && made.ranks[m] == made.ranks[m - 1]) {
      return fail(made.name + " has rank " + std::to_string(made.ranks[m]) + " twice");
    }
  }
  return made;
}

Result<void> TraceCommunicators::add_collective(uint32_t rank, const TraceNode& node) {
  if (!node.collective) return fail("comm_type is missing");
  if (!node.bytes && *node.collective != TraceCollective::kBarrier) {
    return fail("comm_size is missing");
  }
  const Group group = TRY(group_of_node(rank, node));
  const auto [it, fresh] = groups_.try_emplace(group, static_cast<uint32_t>(all_.size()));
  if (fresh) {
    TraceCommunicator made = TRY(make_group(group));
    std::map<uint32_t, uint32_t> members;
    for (uint32_t m = 0; m < made.ranks.size(); ++m) members[made.ranks[m]] = m;
    members_.push_back(std::move(members));
    all_.push_back(std::move(made));
    shapes_.emplace_back();
    collectives_.emplace_back();
  }
  if (!members_[it->second].contains(rank)) {
    return fail(all_[it->second].name + " has not rank " + std::to_string(rank));
  }
  collectives_[it->second][rank].push_back(&node);
  count(it->second, node);
  return {};
}

void TraceCommunicators::add_message(uint32_t rank, const TraceNode& node) {
  const bool sends = node.kind == TraceNodeKind::kSend;
  const uint32_t from = sends ? rank : *node.source, to = sends ? *node.destination : rank;
  const auto [it, fresh] = messages_.try_emplace({from, to}, static_cast<uint32_t>(all_.size()));
  if (fresh) {
    all_.push_back({"messages from rank " + std::to_string(from) + " to rank " + std::to_string(to),
                    {from, to},
                    true,
                    {}});
    members_.push_back({{from, 0}, {to, 1}});
    shapes_.emplace_back();
    collectives_.emplace_back();
  }
  if (sends) collectives_[it->second][from].push_back(&node);
  if (!sends) collectives_[it->second][to].push_back(&node);
  count(it->second, node);
}

/// Each member of an operation comes here.
void TraceCommunicators::count(uint32_t communicator, const TraceNode& node) {
  const Shape shape{node.collective, node.bytes.value_or(0)};
  const auto [it, fresh] = shapes_[communicator].try_emplace(
      shape, static_cast<uint32_t>(all_[communicator].shapes.size()));
  TraceCommunicator& one = all_[communicator];
  if (fresh) one.shapes.push_back({shape.first, shape.second, 0});
  ++one.shapes[it->second].count;
}

Result<void> TraceCommunicators::check_order() const {
  for (size_t i = 0; i < all_.size(); ++i) {
    const TraceCommunicator& one = all_[i];
    const auto& of = collectives_[i];
    const std::vector<const TraceNode*>& first = of.at(one.ranks.front());
    for (const uint32_t rank : one.ranks) {
      const std::vector<const TraceNode*>& other = of.at(rank);
      for (size_t k = 0; k < first.size(); ++k) {
        const TraceNode &a = *first[k], &b = *other[k];
        if (a.collective == b.collective && a.bytes == b.bytes &&
            (!one.messages || a.tag == b.tag)) {
          continue;
        }
        const std::string tags =
            one.messages ? ", tags " + std::to_string(a.tag) + " and " + std::to_string(b.tag) : "";
        return fail(one.name + ": NCCL takes operations of a communicator in the order of their " +
                    "ids: " + place_text(*job_, one.ranks.front(), a) + " (" + shape_text(a) +
                    ") and " + place_text(*job_, rank, b) + " (" + shape_text(b) + ") would meet" +
                    tags);
      }
    }
  }
  return {};
}

TraceCommunicators::Place TraceCommunicators::place(uint32_t rank, const TraceNode& node) const {
  uint32_t communicator = 0;
  if (node.kind == TraceNodeKind::kCollective) {
    communicator = groups_.at(*group_of_node(rank, node));
  } else {
    const bool sends = node.kind == TraceNodeKind::kSend;
    communicator = messages_.at({sends ? rank : *node.source, sends ? *node.destination : rank});
  }
  const Shape shape{node.collective, node.bytes.value_or(0)};
  return {communicator, members_[communicator].at(rank), shapes_[communicator].at(shape)};
}

}  // namespace understudy
