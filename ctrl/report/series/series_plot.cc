#include "ctrl/report/series/series_plot.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "ctrl/report/series/gnuplot.h"
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

/// All that have no curve of their own: the least, median and most of them at each point.
class Others {
 public:
  /// As a Curve of each of the `count`.
  Others(size_t count, size_t points, int64_t samples, bool largest)
      : count_(count), samples_(samples), largest_(largest), levels_(points) {}

  void add(int64_t sample, std::string_view name, double value) {
    if (count_ == 0 || value == 0) return;
    const int64_t point = sample / samples_;
    // In real time rows of neighbouring samples may come mixed.
    while (!open_.empty() && open_.begin()->first < point - 1) close();
    double& sum = open_[point][std::string(name)];
    sum = largest_ ? std::max(sum, value) : sum + value / static_cast<double>(samples_);
  }
  /// Appends the band and the line of the median. Units as for a Curve.
  void append_to(std::vector<PlotSeries>& all, double scale, double step) {
    if (count_ == 0) return;
    while (!open_.empty()) close();
    const std::string who = count_ == 1 ? "1 other" : std::to_string(count_) + " others";
    PlotSeries band{who + ", least to most above 0",
                    "filledcurves fs transparent solid 0.2 noborder lc rgb '#808080'",
                    {},
                    true};
    PlotSeries median{"their median", "steps lw 1 dt 2 lc rgb '#404040'", {{0, 0}}};
    for (size_t i = 0; i < levels_.size(); ++i) {
      const double end = static_cast<double>(static_cast<int64_t>(i + 1) * samples_) * step;
      const Level& level = levels_[i];
      band.points.push_back({end, level.least / scale, level.most / scale});
      median.points.push_back({end, level.median / scale});
    }
    all.push_back(std::move(band));
    all.push_back(std::move(median));
  }

 private:
  struct Level {
    double least = 0, median = 0, most = 0;
  };

  /// The earliest point gets its levels.
  void close() {
    std::vector<double> values;
    for (const auto& [name, value] : open_.begin()->second) values.push_back(value);
    std::ranges::sort(values);
    const size_t half = values.size() / 2;
    const double median =
        values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
    levels_[static_cast<size_t>(open_.begin()->first)] = {values.front(), median, values.back()};
    open_.erase(open_.begin());
  }

  size_t count_;
  int64_t samples_;
  bool largest_;
  std::vector<Level> levels_;
  std::map<int64_t, std::unordered_map<std::string, double>> open_;  ///< by point, by name
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
  Others other_queues(plot.other_links, points, together, true);
  Others other_carried(plot.other_links, points, together, false);
  Others other_rates(plot.other_senders, points, together, false);
  const auto read = series.read([&](const SeriesRow& row) {
    const int64_t sample = (row.at - Time::zero()).ps() / plot.interval.ps() - 1;
    if (sample < 0) return;
    const bool link = row.kind == SeriesKind::kLink;
    const Places& places = link ? links : senders;
    const auto place = places.find(std::string(row.name));
    const bool own = place != places.end();
    const auto add = [&](std::vector<Curve>& curves, Others& others, uint64_t value) {
      const auto y = static_cast<double>(value);
      if (own) {
        curves[place->second].add(sample, y);
      } else {
        others.add(sample, row.name, y);
      }
    };
    if (!link) return add(rates, other_rates, row.rate.value_or(0));
    add(queues, other_queues, row.queue.value_or(0));
    add(carried, other_carried, row.throughput.value_or(0));
  });
  if (!read) return tl::unexpected(read.error());

  const double span = (last - Time::zero()).seconds();
  constexpr double kShort = 0.01;
  const double unit = span < kShort ? 1e-6 : 1e-3;
  const double step = plot.interval.seconds() / unit;
  std::string script = plot_start(plot.file, plot.heading, 3, 1, kRowHeight);
  script += std::string("set xlabel '") + (span < kShort ? "us" : "ms") + "'\nset yrange [0:]\n";
  const auto draw = [&](const char* title, const char* unit_of_y, double scale,
                        const std::vector<Curve>& curves, const std::vector<std::string>& names,
                        Others& others) {
    script += std::string("set title '") + title + "'\nset ylabel '" + unit_of_y + "'\n";
    std::vector<PlotSeries> all;
    others.append_to(all, scale, step);  // below the others
    for (size_t i = 0; i < curves.size(); ++i) {
      all.push_back(curves[i].series(names[i], scale, step));
    }
    if (all.empty()) all.push_back({"", "lines", {{0, 0}}});
    add_plot(all, script);
  };
  draw("queues", "KB", kBytesPerKilobyte, queues, plot.links, other_queues);
  draw("carried by links", "Gbit/s", kBitsPerGigabit, carried, plot.links, other_carried);
  draw("rates of senders", "Gbit/s", kBitsPerGigabit, rates, plot.senders, other_rates);
  return script + plot_end();
}

Result<void> draw_series(const SeriesFile& series, const SeriesPlot& plot) {
  const auto script = TRY(series_script(series, plot));
  return draw_with(kGnuplot, {}, script);
}

}  // namespace understudy
