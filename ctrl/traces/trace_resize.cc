#include "ctrl/traces/trace_resize.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "collective_model/traces/trace_executor.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

bool of_all_ranks(const TraceNode& node) { return node.group.empty() || node.group == "0"; }

std::string layout_text(const TraceLayout& layout) {
  return "--inner " + std::to_string(layout.inner) + " --replicas " +
         std::to_string(layout.replicas);
}

template <typename T>
std::string number_text(const std::optional<T>& number) {
  return number ? std::to_string(*number) : "nothing";
}

/// What is another in two nodes that should be alike; empty: nothing.
std::string difference(const TraceNode& a, const TraceNode& b) {
  const auto differs = [](const char* what, const std::string& here, const std::string& there) {
    return std::string(what) + " is " + here + ", there it is " + there;
  };
  const auto number = [&](const char* what, uint64_t here, uint64_t there) {
    return differs(what, std::to_string(here), std::to_string(there));
  };
  if (a.id != b.id) return number("id", a.id, b.id);
  if (a.name != b.name) return differs("name", "\"" + a.name + "\"", "\"" + b.name + "\"");
  if (a.kind != b.kind) return differs("kind", name_of(a.kind), name_of(b.kind));
  if (a.on_cpu != b.on_cpu) return number("is_cpu_op", a.on_cpu ? 1 : 0, b.on_cpu ? 1 : 0);
  if (a.duration_us != b.duration_us || a.more_ns != b.more_ns) {
    return differs("duration", std::to_string(a.duration_us) + " us",
                   std::to_string(b.duration_us) + " us");
  }
  if (a.operations != b.operations) return number("num_ops", a.operations, b.operations);
  if (a.tensor_bytes != b.tensor_bytes)
    return number("tensor_size", a.tensor_bytes, b.tensor_bytes);
  if (a.collective != b.collective) {
    const auto text = [](const auto& c) { return c ? name_of(*c) : "nothing"; };
    return differs("comm_type", text(a.collective), text(b.collective));
  }
  if (a.bytes != b.bytes) return differs("comm_size", number_text(a.bytes), number_text(b.bytes));
  if (a.tag != b.tag) return number("comm_tag", a.tag, b.tag);
  return a.dimensions == b.dimensions ? "" : "involved_dim is not the same";
}

bool same_edges(const TraceEdges& a, const TraceEdges& b, uint32_t node) {
  return std::equal(a.parents.begin() + a.first[node], a.parents.begin() + a.first[node + 1],
                    b.parents.begin() + b.first[node], b.parents.begin() + b.first[node + 1]);
}

bool same_missing(const std::vector<DanglingParent>& a, const std::vector<DanglingParent>& b) {
  return std::ranges::equal(a, b, [](const DanglingParent& x, const DanglingParent& y) {
    return x.node == y.node && x.parent_id == y.parent_id && x.control == y.control;
  });
}

}  // namespace

Result<TraceResize> TraceResize::make(const TraceJob& job, const ResizeOptions& options) {
  const auto ranks = static_cast<uint32_t>(job.ranks.size());
  const auto attempt = [&](const TraceLayout& layout) -> Result<TraceResize> {
    const uint32_t of_replica = layout.inner * layout.outer;
    if (options.ranks % of_replica != 0) {
      return fail("--ranks " + std::to_string(options.ranks) + " is no multiple of the " +
                  std::to_string(of_replica) + " ranks of a replica");
    }
    TraceResize made(job, layout, options.ranks / of_replica);
    TRY(made.check());
    return made;
  };
  if (options.replicas) {
    const uint64_t width = uint64_t{options.inner.value_or(1)} * *options.replicas;
    if (width == 0 || ranks % width != 0) {
      return fail("--inner " + std::to_string(options.inner.value_or(1)) + " times --replicas " +
                  std::to_string(*options.replicas) + " does not divide the " +
                  std::to_string(ranks) + " ranks");
    }
    return attempt(
        {options.inner.value_or(1), *options.replicas, ranks / static_cast<uint32_t>(width)});
  }
  auto alone = attempt({1, ranks, 1});
  if (alone && options.inner.value_or(1) == 1) return alone;
  std::vector<TraceLayout> fit;
  for (uint32_t replicas = ranks / 2; replicas >= 2; --replicas) {
    if (ranks % replicas != 0) continue;
    const uint32_t of_replica = ranks / replicas;
    for (uint32_t inner = 1; inner <= of_replica; ++inner) {
      if (of_replica % inner != 0 || inner != options.inner.value_or(inner)) continue;
      const TraceLayout layout{inner, replicas, of_replica / inner};
      TraceResize one(job, layout, replicas);
      if (one.check()) fit.push_back(layout);
    }
  }
  if (fit.empty()) {
    if (alone)
      return fail("no replicas of several ranks repeat; every rank alone does (--inner 1)");
    return fail("no layout of replicas repeats; with every rank a replica: " + alone.error().text);
  }
  if (fit.size() == 1) return attempt(fit.front());
  std::string which;
  for (const TraceLayout& layout : fit) {
    if (!which.empty()) which += "; ";
    which += layout_text(layout);
  }
  return fail("several layouts of replicas repeat: " + which + "; say which one the replicas are");
}

uint32_t TraceResize::model(uint32_t rank) const {
  const Place there{rank % layout_.inner, 0, rank / layout_.inner / replicas_};
  return rank_of(there, layout_.replicas);
}

Result<void> TraceResize::check() {
  for (uint32_t rank = 0; rank < job_.ranks.size(); ++rank) {
    Place first = place(rank);
    first.replica = 0;
    TRY(check_rank(rank, rank_of(first, layout_.replicas)));
  }
  return make_groups();
}

Result<void> TraceResize::check_rank(uint32_t rank, uint32_t model) const {
  const TraceGraph &own = *job_.ranks[rank], &other = *job_.ranks[model];
  const std::vector<TraceNode>&nodes = own.nodes(), &others = other.nodes();
  const std::string beside =
      (rank == model ? "" : " (beside rank " + std::to_string(model) + ")") + ": ";
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    const auto wrong = [&](const std::string& what) {
      std::string text = place_text(job_, rank, nodes[i]);
      text += beside;
      text += what;
      return fail(text);
    };
    if (i == others.size()) return wrong("there is no such node there");
    const auto fits = check_node(rank, nodes[i], others[i]);
    if (!fits) return wrong(fits.error().text);
    if (!same_edges(own.data(), other.data(), i) ||
        !same_edges(own.control(), other.control(), i)) {
      return wrong("it waits for other nodes than there");
    }
  }
  if (nodes.size() < others.size()) {
    return fail("rank " + std::to_string(rank) + " has no node as " +
                place_text(job_, model, others[nodes.size()]));
  }
  if (!same_missing(own.dangling(), other.dangling())) {
    return fail("rank " + std::to_string(rank) + beside +
                "its nodes wait for other nodes that are not there");
  }
  return {};
}

Result<void> TraceResize::check_node(uint32_t rank, const TraceNode& node,
                                     const TraceNode& model) const {
  const std::string what = difference(node, model);
  if (!what.empty()) return fail(what);
  TRY(check_peer(rank, node.source, model.source));
  TRY(check_peer(rank, node.destination, model.destination));
  if (node.kind != TraceNodeKind::kCollective) return {};
  return check_group(rank, node, model);
}

Result<void> TraceResize::check_peer(uint32_t rank, const std::optional<uint32_t>& own,
                                     const std::optional<uint32_t>& of_model) const {
  if (!own && !of_model) return {};
  if (own && *own >= job_.ranks.size()) {
    return fail("there is no rank " + std::to_string(*own) + " for its message");
  }
  if (own && place(*own).replica != place(rank).replica) {
    return fail("its message is of rank " + std::to_string(*own) + ", in another replica");
  }
  if (own && of_model && *of_model < job_.ranks.size()) {
    Place there = place(*own);
    there.replica = 0;
    if (rank_of(there, layout_.replicas) == *of_model) return {};
  }
  return fail("its message is of rank " + number_text(own) + ", there of rank " +
              number_text(of_model) + ", which is not the same place of a replica");
}

/// Null: all ranks.
Result<const std::vector<uint32_t>*> TraceResize::members(const TraceNode& node) const {
  if (of_all_ranks(node)) return nullptr;
  uint32_t number = 0;
  const char* const end = node.group.data() + node.group.size();
  const auto read = std::from_chars(node.group.data(), end, number);
  const auto found =
      read.ec == std::errc() && read.ptr == end ? job_.groups.find(number) : job_.groups.end();
  if (found == job_.groups.end()) {
    return fail("group \"" + node.group + "\" is not given (--comm-groups)");
  }
  return &found->second;
}

Result<void> TraceResize::check_group(uint32_t rank, const TraceNode& node,
                                      const TraceNode& model) const {
  const auto* own = TRY(members(node));
  const auto* other = TRY(members(model));
  if (own == nullptr && other == nullptr) return {};
  if (own == nullptr || other == nullptr)
    return fail("one is of all ranks, the other one of a group");
  const uint32_t replica = place(rank).replica;
  const bool within = std::ranges::all_of(
      *own, [&](uint32_t r) { return r < job_.ranks.size() && place(r).replica == replica; });
  if (!within) {
    if (*own != *other) {
      return fail("group \"" + node.group +
                  "\" is not of this replica, and not that of the first one");
    }
    TRY(widened(*own));
    return {};
  }
  std::vector<uint32_t> moved = *own;
  for (uint32_t& r : moved) {
    Place there = place(r);
    there.replica = 0;
    r = rank_of(there, layout_.replicas);
  }
  if (moved == *other) return {};
  return fail("group \"" + node.group + "\" has other ranks than group \"" + model.group +
              "\" has in the first replica");
}

/// A group of equal parts of all replicas, with as many as are wanted. Its order goes replica by replica, or
/// place by place.
Result<std::vector<uint32_t>> TraceResize::widened(const std::vector<uint32_t>& group) const {
  const size_t part = group.size() / layout_.replicas;
  for (const bool by_replica : {true, false}) {
    const auto at = [&](size_t position, uint32_t replicas) {
      return std::pair(by_replica ? position % part : position / replicas,
                       static_cast<uint32_t>(by_replica ? position / part : position % replicas));
    };
    const auto member = [&](size_t position, uint32_t replicas) {
      const auto [number, replica] = at(position, replicas);
      Place there = place(group[by_replica ? number : number * layout_.replicas]);
      there.replica = replica;
      return rank_of(there, replicas);
    };
    bool fits = part * layout_.replicas == group.size();
    for (size_t i = 0; fits && i < group.size(); ++i) {
      fits = group[i] < job_.ranks.size() && group[i] == member(i, layout_.replicas);
    }
    if (!fits) continue;
    std::vector<uint32_t> wide;
    for (size_t i = 0; i < part * replicas_; ++i) wide.push_back(member(i, replicas_));
    return wide;
  }
  return fail("its group has other ranks of one replica than of another, or in no regular order");
}

Result<void> TraceResize::make_groups() {
  for (uint32_t rank = 0; rank < job_.ranks.size(); ++rank) {
    if (place(rank).replica > 0) continue;
    for (const TraceNode& node : job_.ranks[rank]->nodes()) {
      copies_ &= !node.source && !node.destination;
      if (node.kind != TraceNodeKind::kCollective) continue;
      gathers_ |= of_all_ranks(node) && node.collective == TraceCollective::kAllGather;
      if (!of_all_ranks(node)) TRY(make_group(node));
    }
  }
  copies_ &= known_.empty() && !gathers_;
  return {};
}

Result<void> TraceResize::make_group(const TraceNode& node) {
  const auto [it, fresh] = known_.try_emplace(node.group);
  Group& group = it->second;
  if (fresh) {
    const std::vector<uint32_t>& ranks = *TRY(members(node));
    group.across =
        std::ranges::any_of(ranks, [&](uint32_t rank) { return place(rank).replica > 0; });
    const auto add = [&](std::vector<uint32_t> made) {
      const auto number = static_cast<uint32_t>(groups_.size() + 1);
      groups_.emplace(number, std::move(made));
      group.first.push_back(number);
    };
    if (group.across) {
      add(TRY(widened(ranks)));
    } else {
      for (uint32_t replica = 0; replica < replicas_; ++replica) {
        std::vector<uint32_t> moved;
        for (const uint32_t rank : ranks) {
          Place there = place(rank);
          there.replica = replica;
          moved.push_back(rank_of(there, replicas_));
        }
        add(std::move(moved));
      }
    }
  }
  gathers_ |= group.across && node.collective == TraceCollective::kAllGather;
  return {};
}

void TraceResize::change(uint32_t rank, TraceNode& node) const {
  const uint32_t replica = rank / layout_.inner % replicas_;
  for (std::optional<uint32_t>* end : {&node.source, &node.destination}) {
    if (!*end) continue;
    Place there = place(**end);
    there.replica = replica;
    *end = rank_of(there, replicas_);
  }
  if (node.kind != TraceNodeKind::kCollective) return;
  bool across = of_all_ranks(node);
  if (!across) {
    const Group& group = known_.at(node.group);
    across = group.across;
    node.group = std::to_string(across ? group.first.front() : group.first[replica]);
  }
  if (!across || node.collective != TraceCollective::kAllGather || !node.bytes) return;
  // All contributions together stay as many bytes.
  const double all = static_cast<double>(*node.bytes) * layout_.replicas;
  if (all < 9e15) node.bytes = (*node.bytes * layout_.replicas + replicas_ - 1) / replicas_;
}

std::vector<std::string> TraceResize::assumed() const {
  const uint32_t of_replica = layout_.inner * layout_.outer;
  const auto count = [](uint32_t number, const char* what) {
    return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
  };
  std::vector<std::string> out = {
      count(layout_.replicas, "replica") + " of " + count(of_replica, "rank") + " become " +
          std::to_string(replicas_),
      "each replica computes and sends what it did: the global batch grows with the replicas, and "
      "an optimizer that is divided over them takes as long",
      "bytes of collectives stay, and into how many buckets gradients are cut"};
  if (gathers_) {
    out.push_back(
        "all-gathers of all replicas give as many bytes as before: each rank contributes its part, "
        "rounded up");
  }
  return out;
}

TraceJob TraceResize::job() const {
  TraceJob out;
  out.id_step = job_.id_step;
  out.groups = groups_;
  for (uint32_t rank = 0; rank < ranks(); ++rank) {
    const auto& from = job_.ranks[model(rank)];
    if (copies_) {
      out.ranks.push_back(from);
      continue;
    }
    std::vector<TraceNodeParents> parts = from->parts();
    for (TraceNodeParents& part : parts) change(rank, part.node);
    out.ranks.push_back(std::make_shared<const TraceGraph>(*TraceGraph::make(std::move(parts))));
  }
  return out;
}

}  // namespace understudy
