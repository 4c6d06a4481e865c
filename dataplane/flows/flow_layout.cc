// How flows are laid out: connections and their ways back, who waits for whom.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "dataplane/flows/flow_traffic.h"

namespace understudy {

FlowTraffic::FlowTraffic(const Graph& graph, const std::vector<FlowSpec>& flows,
                         const FlowSettings& settings, MakeControl make)
    : graph_(graph),
      specs_(flows),
      settings_(settings),
      make_(std::move(make)),
      flows_(flows.size()),
      results_(flows.size()),
      nics_(graph.links().size()),
      groups_(flows) {
  std::unordered_map<uint32_t, uint32_t> sender_of;  // connections
  senders_.reserve(static_cast<size_t>(std::ranges::count_if(
      specs_, [](const FlowSpec& spec) { return spec.connection == kNoConnection; })));
  for (uint32_t i = 0; i < specs_.size(); ++i) {
    set_bytes(flows_[i], 0, specs_[i].bytes);
    flows_[i].waits_for = static_cast<uint32_t>(specs_[i].after.size());
    auto sender = static_cast<uint32_t>(senders_.size());
    if (const uint32_t connection = specs_[i].connection; connection != kNoConnection) {
      sender = sender_of.try_emplace(connection, sender).first->second;
    }
    flows_[i].sender = sender;
    if (sender == senders_.size()) {
      senders_.emplace_back();
      reverse_path(specs_[i], senders_[sender]);
    }
    senders_[sender].stopped = !groups_.runs(specs_[i].group);
    ++senders_[sender].flows_left;
  }
  rank_senders();
  note_followers();
  nics_delay_ =
      std::ranges::any_of(graph.vertices(), [](const Vertex& v) { return v.nic.delays(); });
  nics_queue_ =
      std::ranges::any_of(graph.vertices(), [](const Vertex& v) { return v.nic.acks_wait(); });
}

void FlowTraffic::note_followers() {
  if (std::ranges::all_of(specs_, [](const FlowSpec& spec) { return spec.after.empty(); })) return;
  first_follower_.resize(specs_.size() + 1);
  for (const FlowSpec& spec : specs_) {
    for (const uint32_t before : spec.after) ++first_follower_[before + 1];
  }
  for (size_t i = 0; i < specs_.size(); ++i) first_follower_[i + 1] += first_follower_[i];
  followers_.resize(first_follower_.back());
  std::vector<uint32_t> filled(first_follower_.begin(), first_follower_.end() - 1);
  for (uint32_t i = 0; i < specs_.size(); ++i) {
    for (const uint32_t before : specs_[i].after) followers_[filled[before]++] = i;
  }
}

/// Where a path is given acknowledgements carry theirs as well.
void FlowTraffic::reverse_path(const FlowSpec& spec, Sender& s) {
  const std::vector<LinkId>* back = &spec.back;
  if (spec.back.empty()) {
    if (spec.path.empty()) return;
    back = &reversed_.emplace_back(spec.path.rbegin(), spec.path.rend());
    for (LinkId& link : reversed_.back()) link = reverse(link);
  }
  s.first_back = back->front();
  s.back = Way::along(back->data());
}

/// Those without a connection's number come first, as they are listed.
void FlowTraffic::rank_senders() {
  std::vector<std::pair<uint64_t, uint32_t>> order(senders_.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = {0, i};
  for (uint32_t i = 0; i < specs_.size(); ++i) {
    const uint32_t connection = specs_[i].connection;
    if (connection != kNoConnection) order[flows_[i].sender].first = uint64_t{connection} + 1;
  }
  std::ranges::sort(order);
  for (uint32_t place = 0; place < order.size(); ++place) {
    senders_[order[place].second].start_rank =
        std::min(kFirstStartRank + place, Calendar::kMostRank);
  }
}

size_t FlowTraffic::memory_bytes() const {
  return flows_.capacity() * sizeof(Flow) + senders_.capacity() * sizeof(Sender) +
         results_.capacity() * sizeof(FlowResult) + specs_.capacity() * sizeof(FlowSpec) +
         nics_.capacity() * sizeof(Nic);
}

}  // namespace understudy
