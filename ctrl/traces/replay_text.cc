#include "ctrl/traces/replay_text.h"

#include <algorithm>
#include <cinttypes>
#include <nlohmann/json.hpp>

#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

using OrderedJson = nlohmann::ordered_json;

int64_t ns(Time time) { return (time - Time::zero()).ps() / 1000; }
int64_t ns(Duration duration) { return duration.ps() / 1000; }

const char* rules_name(TraceRules rules) {
  return rules == TraceRules::kFeeder1 ? "feeder1" : "feeder3";
}
const char* congestion_name(const TraceNetwork& network) {
  return network.congestion_aware() ? "aware" : "unaware";
}

}  // namespace

std::string replay_text(const std::vector<RankReplay>& ranks, const ReplaySettings& settings) {
  std::string text = format_text("%zu ranks, rules of %s, congestion %s\n", ranks.size(),
                                 rules_name(settings.rules), congestion_name(settings.network));
  text += format_text("%10s %20s %28s\n", "rank", "finish (ns)", "exposed communication (ns)");
  for (size_t rank = 0; rank < ranks.size();) {
    size_t last = rank;
    while (last + 1 < ranks.size() && ranks[last + 1].finish == ranks[rank].finish &&
           ranks[last + 1].exposed == ranks[rank].exposed) {
      ++last;
    }
    const std::string who =
        last == rank ? std::to_string(rank) : std::to_string(rank) + "-" + std::to_string(last);
    text += format_text("%10s %20" PRId64 " %28" PRId64 "\n", who.c_str(), ns(ranks[rank].finish),
                        ns(ranks[rank].exposed));
    rank = last + 1;
  }
  return text;
}

std::string replay_json(const TraceJob& job, const std::vector<RankReplay>& ranks,
                        const ReplaySettings& settings, bool nodes) {
  Time finish;
  for (const RankReplay& rank : ranks) finish = std::max(finish, rank.finish);
  OrderedJson json = {{"schema", "understudy-trace-replay/1"},
                      {"rules", rules_name(settings.rules)},
                      {"congestion", congestion_name(settings.network)},
                      {"finish_ns", ns(finish)},
                      {"ranks", OrderedJson::array()}};
  for (size_t number = 0; number < ranks.size(); ++number) {
    const RankReplay& rank = ranks[number];
    OrderedJson one = {
        {"rank", number}, {"finish_ns", ns(rank.finish)}, {"exposed_ns", ns(rank.exposed)}};
    if (nodes) {
      one["nodes"] = OrderedJson::array();
      const std::vector<TraceNode>& of_graph = job.ranks[number]->nodes();
      for (size_t i = 0; i < of_graph.size(); ++i) {
        const TraceNodeTimes& times = rank.nodes[i];
        OrderedJson node = {of_graph[i].id + number * job.id_step, ns(times.begin), ns(times.end)};
        if (times.skipped) node.push_back("skipped");
        one["nodes"].push_back(std::move(node));
      }
    }
    json["ranks"].push_back(std::move(one));
  }
  return (nodes ? json.dump() : json.dump(2)) + "\n";
}

}  // namespace understudy
