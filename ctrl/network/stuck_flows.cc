#include "ctrl/network/stuck_flows.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ctrl/network/closed_links.h"
#include "dataplane/fabric/routes.h"

namespace understudy {
namespace {

/// The first of flows that are stuck, and what is known of it.
struct Stuck {
  const FlowSpec* flow = nullptr;  ///< null: nobody has begun
  size_t flows = 0;                ///< that are, in all
  std::vector<LinkId> closed;      ///< links of its way
  std::vector<LinkId> all_closed;  ///< of the network
  bool routed = false;             ///< switches choose its way ...
  bool reacts = false;             ///< ... and leave out links that are down
  std::string does = " waits";
};

std::vector<std::string> names_of(const Graph& graph, const std::vector<LinkId>& links) {
  std::vector<std::string> names;
  for (const LinkId link : links) names.push_back(graph.link_name(link));
  return names;
}

std::string name_of(const Graph& graph, const FlowSpec& flow) {
  return (flow.name.empty() ? "a job's message" : "\"" + flow.name + "\"") + " from " +
         graph.vertices()[flow.from].name + " to " + graph.vertices()[flow.to].name;
}

/// Around all links that are closed.
bool has_other_way(const Graph& graph, const Stuck& stuck) {
  Routes routes(graph, RouteChoice::kFirst, 0);
  std::vector<LinkState> states;
  for (const LinkId link : stuck.all_closed) states.push_back({link, false});
  routes.set_links(states);
  const auto joined = [&](VertexId from, VertexId to) { return !routes.path(from, to, 0).empty(); };
  return joined(stuck.flow->from, stuck.flow->to) && joined(stuck.flow->to, stuck.flow->from);
}

std::string text_of(const Graph& graph, const Stuck& stuck, const std::string& otherwise) {
  std::string text =
      closed_links_text(names_of(graph, stuck.closed.empty() ? stuck.all_closed : stuck.closed));
  if (text.empty()) text = otherwise;
  if (stuck.flow == nullptr) return text;
  text += ": " + name_of(graph, *stuck.flow) + stuck.does;
  if (stuck.flows > 1) text += ", and " + std::to_string(stuck.flows - 1) + " more";
  if (!stuck.routed || stuck.reacts || stuck.closed.empty() || !has_other_way(graph, stuck)) {
    return text;
  }
  return text + "; another way is open: set [topology] reconverge";
}

template <typename IsClosed>
std::vector<LinkId> those(const Graph& graph, IsClosed&& is_closed) {
  std::vector<LinkId> links;
  for (LinkId link = 0; link < graph.links().size(); ++link) {
    if (is_closed(link)) links.push_back(link);
  }
  return links;
}

}  // namespace

std::string why_stuck(const Graph& graph, const FlowTraffic& flows, const Network& network,
                      Time now) {
  Stuck stuck;
  stuck.all_closed = those(graph, [&](LinkId link) { return network.is_closed(link, now); });
  stuck.reacts = network.reacts();
  const std::vector<uint32_t> all = flows.stuck();
  stuck.flows = all.size();
  if (!all.empty()) {
    stuck.flow = &flows.specs()[all.front()];
    stuck.closed = flows.way_of(all.front(), now).closed;
    stuck.routed = stuck.flow->path.empty();
  }
  if (!flows.has_given_up()) {
    return text_of(graph, stuck,
                   "packets were lost and nothing sends them again (flows.timeout is 0)");
  }
  stuck.does = " gave up after " + std::to_string(flows.retries()) +
               (flows.retries() == 1 ? " retry" : " retries");
  return text_of(graph, stuck, "no link is closed");
}

std::string why_stuck(const Graph& graph, const FlowModel& flows) {
  Stuck stuck;
  stuck.all_closed = those(graph, [&](LinkId link) { return flows.is_closed(link); });
  stuck.reacts = flows.reacts();
  const std::vector<uint32_t> all = flows.stuck();
  stuck.flows = all.size();
  if (!all.empty()) {
    const uint32_t flow = all.front();
    stuck.flow = &flows.specs()[flow];
    for (const LinkId link : flows.path(flow)) {
      if (flows.is_closed(link)) stuck.closed.push_back(link);
    }
    for (const LinkId link : flows.path(flow)) {
      if (flows.is_closed(reverse(link))) stuck.closed.push_back(reverse(link));
    }
    std::ranges::sort(stuck.closed);
    stuck.routed = flows.is_routed(flow);
  }
  return text_of(graph, stuck, "no link is closed");
}

}  // namespace understudy
