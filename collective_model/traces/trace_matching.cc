#include "collective_model/traces/trace_matching.h"

#include <algorithm>
#include <charconv>
#include <tuple>
#include <utility>

#include "dataplane/base/try.h"

namespace understudy {

TraceMessageKey message_key(uint32_t rank, const TraceNode& node) {
  constexpr uint32_t kTags = 500'000'000;
  const bool sends = node.kind == TraceNodeKind::kSend;
  return {node.tag % kTags, sends ? rank : *node.source, sends ? *node.destination : rank,
          *node.bytes};
}

TraceGroups::TraceGroups(const TraceJob& job, TraceRules rules) : job_(&job), rules_(rules) {
  if (rules != TraceRules::kFeeder1) return;
  last_.resize(job.ranks.size());
  std::vector<std::pair<std::string, uint32_t>> order;
  for (const auto& [number, ranks] : job.groups) order.emplace_back(std::to_string(number), number);
  std::sort(order.begin(), order.end());
  for (const auto& [digits, number] : order) {
    for (const uint32_t rank : job.groups.at(number)) {
      if (rank < last_.size()) last_[rank] = number;
    }
  }
}

Result<std::optional<uint32_t>> TraceGroups::of(uint32_t rank, const TraceNode& node) const {
  if (rules_ == TraceRules::kFeeder1) return last_[rank];
  if (node.group.empty() || node.group == "0") return std::optional<uint32_t>();
  uint32_t number = 0;
  const char* end = node.group.data() + node.group.size();
  const auto [at, error] = std::from_chars(node.group.data(), end, number);
  if (error != std::errc() || at != end) {
    return fail("its group '" + node.group + "' is not a number");
  }
  if (!job_->groups.contains(number)) {
    return fail("its group " + node.group + " is in no file of groups");
  }
  return std::optional<uint32_t>(number);
}

Result<void> MessageEnds::add(uint32_t rank, const TraceNode& node, TraceRules rules) {
  const bool sends = node.kind == TraceNodeKind::kSend;
  const auto& peer = sends ? node.destination : node.source;
  const auto& own = sends ? node.source : node.destination;
  if (!peer) return fail(sends ? "comm_dst is missing" : "comm_src is missing");
  if (!node.bytes) return fail("comm_size is missing");
  if (*node.bytes == 0) return fail("a message of no bytes");
  if (*peer == rank) return fail("a message of a rank to itself");
  if (*peer >= job_.ranks.size()) {
    return fail("there is no rank " + std::to_string(*peer) + " for its message");
  }
  if (rules != TraceRules::kFeeder1 && own && *own != rank) {
    return fail(sends ? "comm_src of a send is another rank"
                      : "comm_dst of a receive is another rank");
  }
  ends_.push_back({message_key(rank, node), !sends, rank, &node});
  return {};
}

Result<void> MessageEnds::check() {
  std::sort(ends_.begin(), ends_.end(), [](const End& a, const End& b) {
    return std::tuple(a.key, a.receives) < std::tuple(b.key, b.receives);
  });
  for (auto first = ends_.begin(); first != ends_.end();) {
    const auto last =
        std::find_if(first, ends_.end(), [&](const End& end) { return end.key != first->key; });
    const auto receives = std::find_if(first, last, [](const End& end) { return end.receives; });
    const auto sent = receives - first, received = last - receives;
    if (sent != received) {
      // Which of several is left over is not known: the last.
      const End& left = sent > received ? *(receives - 1) : *(last - 1);
      return fail(place_text(job_, left.rank, *left.node) + ": " +
                  (left.receives ? "no rank sends" : "no rank receives") + " this message (" +
                  std::to_string(sent) + " sent, " + std::to_string(received) +
                  " received from rank " + std::to_string(left.key.from) + " to rank " +
                  std::to_string(left.key.to) + " with tag " + std::to_string(left.key.tag) +
                  " and " + std::to_string(left.key.bytes) + " bytes)");
    }
    first = last;
  }
  return {};
}

Result<void> compare_ranks(const std::string& name, const std::vector<uint32_t>& ranks,
                           CollectivesOfRanks& collectives) {
  using Content = std::pair<TraceCollective, uint64_t>;
  const auto content = [](const std::vector<const TraceNode*>& nodes) {
    std::vector<Content> all;
    all.reserve(nodes.size());
    for (const TraceNode* node : nodes) {
      all.emplace_back(*node->collective, node->bytes.value_or(0));
    }
    std::sort(all.begin(), all.end());
    return all;
  };
  const uint32_t first = ranks.front();
  const std::vector<Content> expected = content(collectives[first]);
  for (const uint32_t rank : ranks) {
    const std::vector<Content> has = content(collectives[rank]);
    if (has == expected) continue;
    if (has.size() != expected.size()) {
      return fail(name + ": rank " + std::to_string(first) + " has " +
                  std::to_string(expected.size()) + " collectives, rank " + std::to_string(rank) +
                  " " + std::to_string(has.size()));
    }
    const auto differs = std::mismatch(has.begin(), has.end(), expected.begin());
    return fail(name + ": rank " + std::to_string(rank) + " has a collective (" +
                name_of(differs.first->first) + " of " + std::to_string(differs.first->second) +
                " bytes) that rank " + std::to_string(first) + " has not");
  }
  return {};
}

}  // namespace understudy
