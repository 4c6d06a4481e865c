#include "ctrl/report/series_plot.h"

#include <algorithm>
#include <unordered_map>

#include "ctrl/report/gnuplot.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

constexpr int kRowHeight = 320;
constexpr int64_t kMostPoints = 2000;  // of a curve; more make pictures that viewers choke on
constexpr double kBitsPerGigabit = 1e9, kBytesPerKilobyte = 1e3;

/// Neighbouring samples as one point: the largest of them, or their mean.
class Curve {
 public:
  Curve(size_t points, int64_t samples, bool largest)
      : sums_(points), samples_(samples), largest_(largest) {}

  void add(int64_t sample, double value) {
    double& sum = sums_[static_cast<size_t>(sample / samples_)];
    sum = largest_ ? std::max(sum, value) : sum + value / static_cast<double>(samples_);
  }
  /// `scale`: of the values; `step`: from one sample to the next.
  PlotSeries series(const std::string& title, double scale, double step) const {
    PlotSeries out{title, "steps lw 1.3", {{0, 0}}};
    for (size_t i = 0; i < sums_.size(); ++i) {
      const double end = static_cast<double>(static_cast<int64_t>(i + 1) * samples_) * step;
      out.points.push_back({end, sums_[i] / scale});
    }
    return out;
  }

 private:
  std::vector<double> sums_;
  int64_t samples_;
  bool largest_;
};

using Places = std::unordered_map<std::string, size_t>;

Places places_of(const std::vector<std::string>& names) {
  Places places;
  for (size_t i = 0; i < names.size(); ++i) places.emplace(names[i], i);
  return places;
}

}  // namespace

Result<std::string> series_script(const SeriesFile& series, const SeriesPlot& plot) {
  Time last;
  if (auto read = series.read([&](const SeriesRow& row) { last = std::max(last, row.at); });
      !read) {
    return tl::unexpected(read.error());
  }
  const int64_t samples = std::max<int64_t>(1, (last - Time::zero()).ps() / plot.interval.ps());
  const int64_t together = (samples + kMostPoints - 1) / kMostPoints;
  const auto points = static_cast<size_t>((samples + together - 1) / together);
  const Places links = places_of(plot.links), senders = places_of(plot.senders);
  std::vector<Curve> queues(plot.links.size(), {points, together, true});
  std::vector<Curve> carried(plot.links.size(), {points, together, false});
  std::vector<Curve> rates(plot.senders.size(), {points, together, false});
  const auto read = series.read([&](const SeriesRow& row) {
    const int64_t sample = (row.at - Time::zero()).ps() / plot.interval.ps() - 1;
    if (sample < 0) return;
    const bool link = row.kind == SeriesKind::kLink;
    const Places& places = link ? links : senders;
    const auto place = places.find(std::string(row.name));
    if (place == places.end()) return;
    if (link) {
      if (row.queue) queues[place->second].add(sample, static_cast<double>(*row.queue));
      carried[place->second].add(sample, static_cast<double>(row.throughput.value_or(0)));
    } else {
      rates[place->second].add(sample, static_cast<double>(row.rate.value_or(0)));
    }
  });
  if (!read) return tl::unexpected(read.error());

  const double span = (last - Time::zero()).seconds();
  constexpr double kShort = 0.01;
  const double unit = span < kShort ? 1e-6 : 1e-3;
  const double step = plot.interval.seconds() / unit;
  std::string script = plot_start(plot.file, plot.heading, 3, 1, kRowHeight);
  script += std::string("set xlabel '") + (span < kShort ? "us" : "ms") + "'\nset yrange [0:]\n";
  const auto draw = [&](const char* title, const char* unit_of_y, double scale,
                        const std::vector<Curve>& curves, const std::vector<std::string>& names) {
    script += std::string("set title '") + title + "'\nset ylabel '" + unit_of_y + "'\n";
    std::vector<PlotSeries> all;
    for (size_t i = 0; i < curves.size(); ++i) {
      all.push_back(curves[i].series(names[i], scale, step));
    }
    if (all.empty()) all.push_back({"", "lines", {{0, 0}}});
    add_plot(all, script);
  };
  draw("queues", "KB", kBytesPerKilobyte, queues, plot.links);
  draw("carried by links", "Gbit/s", kBitsPerGigabit, carried, plot.links);
  draw("rates of senders", "Gbit/s", kBitsPerGigabit, rates, plot.senders);
  return script + plot_end();
}

Result<void> draw_series(const SeriesFile& series, const SeriesPlot& plot) {
  const auto script = TRY(series_script(series, plot));
  return draw_with(kGnuplot, {}, script);
}

}  // namespace understudy
