// Samples of a run of [[traffic]] in virtual time: queues and throughput of links, rates of flows.
// Looking does not touch what is looked at, so a run is the same with and without.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ctrl/report/series_file.h"
#include "ctrl/session/series_options.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/fabric/flow.h"
#include "dataplane/fabric/flow_model.h"
#include "dataplane/fabric/graph.h"
#include "dataplane/fabric/network.h"
#include "dataplane/node/flow_traffic.h"

namespace understudy {

/// Takes a sample after every whole interval, of what was selected. A row is written for what is
/// not zero, and once when it has become zero.
class TrafficSeries {
 public:
  /// Error: a pattern fits nothing.
  static Result<void> check(const SeriesOptions& options, const Graph& graph,
                            const std::vector<FlowSpec>& flows);
  /// Opens the file. `graph` and `flows` outlive this. Error: it cannot be written.
  static Result<std::unique_ptr<TrafficSeries>> create(const SeriesOptions& options,
                                                       const Graph& graph,
                                                       const std::vector<FlowSpec>& flows);

  /// The time of the next sample, to be taken when all has happened that happens until then.
  Time next() const { return next_; }
  void watch(FlowTraffic& traffic) { traffic.note_starts(begun_); }
  void sample(const Network& network, const FlowTraffic& traffic);
  /// Rates are those of the instant.
  void sample(const FlowModel& model);
  /// Whether what happened until `end` is in the samples.
  bool holds(Time end) const { return next_ - interval_ >= end; }

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
  };
  struct Flow {
    uint32_t flow = 0;
    uint64_t delivered = 0;  ///< at the last sample
  };

  TrafficSeries(SeriesFile file, const SeriesOptions& options, const Graph& graph,
                const std::vector<FlowSpec>& flows)
      : file_(std::move(file)),
        options_(options),
        graph_(graph),
        flows_(flows),
        interval_(options.interval),
        next_(Time::zero() + options.interval) {}
  void add_link(Link& link, std::optional<uint64_t> queue, uint64_t throughput);
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
};

}  // namespace understudy
