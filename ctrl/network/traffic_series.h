// Samples of a run: queues and throughput of links, rates of flows and of queue pairs under
// congestion control. In virtual time looking does not touch what is looked at, so a run is the same
// with and without. In real time a shard fills in probes (engine/state/sample_probe.h).
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ctrl/network/series_options.h"
#include "ctrl/report/series/series_file.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/engine/state/qp_control.h"
#include "dataplane/engine/state/sample_probe.h"
#include "dataplane/fabric/flow.h"
#include "dataplane/fabric/graph.h"
#include "dataplane/fabric/network.h"
#include "dataplane/flows/flow_model.h"
#include "dataplane/flows/flow_traffic.h"

namespace understudy {

/// What a run has to look at; null: it has none. `rates` are a load on `network`, if there is one.
struct SeriesSources {
  const Network* network = nullptr;
  const FlowTraffic* packets = nullptr;
  const FlowModel* rates = nullptr;
};

/// How long each flow took.
template <typename Flow>
std::vector<Duration> times_taken(const std::vector<Flow>& flows) {
  std::vector<Duration> out;
  out.reserve(flows.size());
  for (const Flow& t : flows) out.push_back(t.received - t.start);
  return out;
}

/// Takes a sample after every whole interval, of what was selected. A row is written for what is
/// not zero, and once when it has become zero.
class TrafficSeries {
 public:
  /// Error: a pattern fits nothing. `queue_pairs`: names of those under congestion control.
  static Result<void> check(const SeriesOptions& options, const Graph& graph,
                            const std::vector<FlowSpec>& flows,
                            const std::vector<std::string>& queue_pairs);
  /// Opens the file. `graph` and `flows` outlive this. Error: it cannot be written.
  static Result<std::unique_ptr<TrafficSeries>> create(const SeriesOptions& options,
                                                       const Graph& graph,
                                                       const std::vector<FlowSpec>& flows);

  /// The time of the next sample, to be taken when all has happened that happens until then.
  Time next() const { return next_; }
  void watch(FlowTraffic& traffic) { traffic.note_starts(begun_); }
  /// `control` outlives this, or the next forget_queue_pairs().
  void watch(std::string name, const QpControl& control);
  void forget_queue_pairs() { queue_pairs_.clear(); }
  /// Of `rates`, they are those of the instant.
  void sample(const SeriesSources& sources);
  /// Whether what happened until `end` is in the samples.
  bool holds(Time end) const { return next_ - interval_ >= end; }

  // In real time:

  /// For all links and flows that are selected, in the order of their rows; copies of `empty`.
  std::vector<SampleProbe> probes(const SampleProbe& empty) const;
  /// A flow or queue pair of this name is selected.
  bool wants(const std::string& sender) const;
  /// Rows of what a shard has copied. `names`: of its queue pairs.
  void add(const SampleProbe& probe, const std::vector<std::string>& names);

  /// All rows are in the file; draws the plot if one is wanted: the busiest of the selected links,
  /// those with the largest `peaks` (and of equal ones the most `bytes`), by link, and of the
  /// selected flows those with the most bytes and of equal ones those that `took` longest.
  Result<void> finish(const std::string& heading, const std::vector<uint64_t>& peaks,
                      const std::vector<uint64_t>& bytes, const std::vector<Duration>& took);

 private:
  struct Link {
    LinkId link = kNoLink;
    unsigned __int128 sent = 0;  ///< as Network::sent_bits, at the last sample
    bool quiet = true;           ///< the last row was zero, or there was none
    Time at = {};                ///< of the last probe
  };
  struct Flow {
    uint32_t flow = 0;
    uint64_t delivered = 0;  ///< at the last sample
  };
  struct Probed {
    uint64_t delivered = 0;  ///< at the last probe ...
    Time at;                 ///< ... which was then
    bool ended = false;
  };
  struct QueuePair {
    std::string name;
    const QpControl* control = nullptr;
  };

  TrafficSeries(SeriesFile file, const SeriesOptions& options, const Graph& graph,
                const std::vector<FlowSpec>& flows)
      : file_(std::move(file)),
        options_(options),
        graph_(graph),
        flows_(flows),
        interval_(options.interval),
        next_(Time::zero() + options.interval) {}
  void add_link(Link& link, const SeriesSources& sources);
  void add_row(Link& link, Time at, std::optional<uint64_t> queue, uint64_t throughput);
  void add_row(const std::string& queue_pair, Time at, Rate rate, uint64_t window);
  void add_flow(const SampleProbe::Flow& probed, Time at, bool as_rate);
  void add_flows(const FlowTraffic& traffic);
  void add_flows(const FlowModel& model);
  void add_queue_pair(const QueuePair& pair);
  std::vector<std::string> drawn_senders(const std::vector<Duration>& took, size_t& of) const;
  bool selected(uint32_t flow) const;

  SeriesFile file_;
  SeriesOptions options_;
  const Graph& graph_;
  const std::vector<FlowSpec>& flows_;
  Duration interval_;
  Time next_;
  std::vector<Link> links_;      ///< those that are selected
  std::vector<uint32_t> begun_;  ///< flows, since the last sample
  std::vector<Flow> active_;     ///< in the order of the flows: that have begun and not ended
  std::unordered_map<uint32_t, Probed> probed_;  ///< by flow
  std::vector<QueuePair> queue_pairs_;           ///< those that are selected
  std::vector<std::string> pairs_seen_;          ///< names of all that ever were
  std::unordered_set<std::string> known_pairs_;  ///< the same
};

}  // namespace understudy
