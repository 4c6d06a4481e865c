#include "tools/roce_check/output/plot.h"

#include <algorithm>

#include "ctrl/report/series/gnuplot.h"
#include "dataplane/base/text_format.h"
#include "tools/roce_check/output/plot_series.h"

namespace understudy {
namespace {

constexpr int kRowHeight = 300;

struct Row {
  const FlowPair* connection;
  const DirectionResult* direction;
  bool forward;
};

/// Directions that carry requests, the busiest first.
std::vector<Row> busiest(const Analysis& analysis) {
  std::vector<Row> rows;
  for (const ConnectionResult& c : analysis.connections) {
    if (c.forward.counts.requests != 0) rows.push_back({&c.connection, &c.forward, true});
    if (c.reverse.counts.requests != 0) rows.push_back({&c.connection, &c.reverse, false});
  }
  std::ranges::stable_sort(rows, std::greater{},
                           [](const Row& row) { return row.direction->rate.wire_bytes; });
  return rows;
}

}  // namespace

std::string plot_script(const Analysis& analysis, const std::string& title,
                        const PlotOptions& options) {
  const PacketTable& table = analysis.table;
  const std::vector<Row> all = busiest(analysis);
  const size_t shown = std::min(all.size(), options.queues);
  const Duration span = table.last - table.first;
  std::string heading = title;
  if (shown < all.size()) {
    heading += ": the busiest " + std::to_string(shown) + " of " + std::to_string(all.size());
  }
  std::string script = plot_start(options.file, heading, shown, 2, kRowHeight);
  script += "set xlabel 'seconds'\n";
  script += format_text("set xrange [0:%.9g]\n", std::max(span.seconds(), 1e-9));
  for (size_t i = 0; i < shown; ++i) {
    const Row& row = all[i];
    const Flow& flow = table.flows[row.direction->flow];
    const auto request = std::ranges::find_if(
        flow.packets, [&](uint32_t p) { return table.packets[p].info().is_request(); });
    const Psn first = table.packets[*request].psn;
    script += "set title " + in_quotes(flow.name()) + "\n";
    script += format_text("set ylabel 'PSN - %u'\n", first.value());
    add_plot(psn_series(table, *row.connection, row.forward, table.first), script);
    script += "set ylabel 'Mbit/s'\n";
    std::vector<PlotSeries> rates = {
        rate_series(table, flow, table.first, span, "to it", "lines lw 1.5 lc rgb '#1f77b4'")};
    const uint32_t other = row.forward ? row.connection->reverse : row.connection->forward;
    if (other != kNoFlow && other != row.direction->flow) {
      rates.push_back(rate_series(table, table.flows[other], table.first, span, "from it",
                                  "lines lw 1 lc rgb '#2ca02c'"));
    }
    add_plot(rates, script);
  }
  return script + plot_end();
}

Result<void> plot(const Analysis& analysis, const std::string& title, const PlotOptions& options,
                  DrawingChild& child) {
  if (busiest(analysis).empty()) return fail("nothing to plot: no requests of connections");
  return child.draw(plot_script(analysis, title, options));
}

}  // namespace understudy
