#include "collective_model/predict/fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

namespace understudy {
namespace {

constexpr double kRowSpread = 0.03;    ///< of a measured time
constexpr double kConstantSpread = 1;  ///< of a constant's logarithm
/// Of those that are much the same on machines of one kind, and which a table of one number of GPUs
/// cannot tell from others.
constexpr double kRoundSpread = 0.3, kRateSpread = 0.4, kTailSpread = 0.3, kLinkSpread = 0.02;

/// Of the two numbers by which one number of GPUs departs from the constants that all share, and of
/// the rows that tell: a table's rows are off by more than they scatter.
constexpr double kOwnSpread = 0.05, kOwnRowSpread = 0.01;

/// A constant and the value that it keeps unless the rows say otherwise.
struct Knob {
  double* value;
  double usual;
  double spread = kConstantSpread;
};

/// GB/s of a channel as NCCL's search has it.
double channel_speed(const NcclSystem& system) {
  return system.ring.intra * system.ring.channels / std::max(system.channels, 1u);
}

/// GPUs in a mesh have links of their own, not switches that carry whatever they send.
bool in_mesh(const NcclSystem& system) {
  return system.gpu == GpuGeneration::kVolta && system.intra == IntraLink::kNvlink;
}

/// GB/s that a channel's threads move, rounds aside. NCCL gives Volta's rings two channels though
/// one would fill the link, and later GPUs as many as they need to fill theirs.
double usual_rate(const NcclSystem& system, Protocol protocol) {
  const double channel = channel_speed(system);
  switch (protocol) {
    case Protocol::kLL:
      return channel * 0.5;
    case Protocol::kLL128:
      return channel * 0.8;
    default:
      return in_mesh(system) ? channel * 4 : channel;
  }
}

/// The constants that rows depend on; those of protocols that no row has stay as they usually are.
std::vector<Knob> knobs(Calibration& c, const std::vector<FitRow>& rows, const NcclSystem& system,
                        NcclVersion version) {
  std::vector<Knob> out = {{&c.launch, 30}};
  const LatencyConstants published = latency_constants(version);
  const ByProtocol& hop =
      (system.intra == IntraLink::kNvlink ? published.nvlink : published.pci)[0];
  bool ring = false, several = false;
  for (const FitRow& row : rows) {
    ring |= row.shape.algorithm == Algorithm::kRing;
    several |= row.shape.communicator.nodes > 1;
  }
  for (const Protocol p : {Protocol::kSimple, Protocol::kLL, Protocol::kLL128}) {
    const bool used =
        std::ranges::any_of(rows, [&](const FitRow& row) { return row.shape.protocol == p; });
    if (!used && p == Protocol::kLL128 && system.intra != IntraLink::kNvlink) continue;
    ProtocolCost& cost = c.protocol[index(p)];
    const double rate_spread = p == Protocol::kLL ? kConstantSpread : kRateSpread;
    // LL128's lines hide the way to the next GPU, but not in a mesh; Simple's slices never do.
    const bool hidden = p == Protocol::kLL || (p == Protocol::kLL128 && !in_mesh(system));
    const bool passes = p == Protocol::kLL128;
    std::vector<Knob> own = {{passes ? &cost.pass : &cost.round, passes ? 0.8 : 1.5, kRoundSpread},
                             {&cost.rate, usual_rate(system, p), rate_spread},
                             {hidden ? &cost.latency : &cost.step, hop[index(p)]}};
    if (p == Protocol::kSimple) own.push_back({&cost.latency, 0.5});
    if (several) own.push_back({&cost.network_latency, published.net[0][index(p)]});
    for (const Knob& knob : own) *knob.value = knob.usual;
    if (used) out.insert(out.end(), own.begin(), own.end());
  }
  c.tail = 0.5;
  if (ring) out.push_back({&c.tail, c.tail, kTailSpread});
  c.drift = 16;
  if (ring) out.push_back({&c.drift, c.drift});
  if (!in_mesh(system)) return out;
  c.link = channel_speed(system);
  if (ring) out.push_back({&c.link, c.link, kLinkSpread});
  return out;
}

/// Quadratic near zero, linear far away.
double robust(double x) { return std::sqrt(1 + x * x) - 1; }

/// Nelder and Mead's simplex; from `x`, which becomes the best point. Gives its value.
double minimize(const std::function<double(const std::vector<double>&)>& f, std::vector<double>& x,
                double step, int evaluations) {
  const size_t n = x.size();
  std::vector<std::vector<double>> points(n + 1, x);
  std::vector<double> values(n + 1);
  for (size_t i = 0; i < n; ++i) points[i + 1][i] += step;
  for (size_t i = 0; i <= n; ++i) values[i] = f(points[i]);
  std::vector<size_t> order(n + 1);
  std::vector<double> centre(n), trial(n);
  const auto at = [&](const std::vector<double>& worst, double t) {
    for (size_t j = 0; j < n; ++j) trial[j] = centre[j] + t * (worst[j] - centre[j]);
    --evaluations;
    return f(trial);
  };
  while (evaluations > 0) {
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return values[a] < values[b]; });
    const size_t best = order[0], worst = order[n];
    if (values[worst] - values[best] < 1e-10) break;
    std::fill(centre.begin(), centre.end(), 0.0);
    for (const size_t i : order) {
      if (i == worst) continue;
      for (size_t j = 0; j < n; ++j) centre[j] += points[i][j] / static_cast<double>(n);
    }
    const auto take = [&](double value) {
      points[worst] = trial;
      values[worst] = value;
    };
    const double reflected = at(points[worst], -1);
    if (reflected < values[best]) {
      const std::vector<double> kept = trial;
      const double expanded = at(points[worst], -2);
      if (expanded < reflected) {
        take(expanded);
      } else {
        trial = kept;
        take(reflected);
      }
    } else if (reflected < values[order[n - 1]]) {
      take(reflected);
    } else {
      const double contracted = at(points[worst], 0.5);
      if (contracted < values[worst]) {
        take(contracted);
        continue;
      }
      for (const size_t i : order) {
        if (i == best) continue;
        for (size_t j = 0; j < n; ++j) points[i][j] = (points[i][j] + points[best][j]) / 2;
        values[i] = f(points[i]);
        --evaluations;
      }
    }
  }
  const auto least = std::min_element(values.begin(), values.end());
  x = points[static_cast<size_t>(least - values.begin())];
  return *least;
}

/// Neighbouring rows of a table that NCCL treats alike.
struct Stretch {
  size_t first = 0, end = 0;
  double length = 0;  ///< logarithm of last size / first size
  size_t rows = 0;    ///< that are used
  double step() const { return length / static_cast<double>(rows - 1); }
};

bool alike(const OperationShape& a, const OperationShape& b) {
  return a.algorithm == b.algorithm && a.protocol == b.protocol;
}

double log_size(const FitRow& row) { return std::log(static_cast<double>(row.shape.bytes)); }

}  // namespace

std::vector<size_t> calibration_rows(const std::vector<FitRow>& rows, size_t count) {
  std::vector<Stretch> stretches;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (stretches.empty() || !alike(rows[i].shape, rows[i - 1].shape)) {
      stretches.push_back({i, i + 1, 0, 0});
    }
    stretches.back().end = i + 1;
  }
  for (Stretch& s : stretches) s.length = log_size(rows[s.end - 1]) - log_size(rows[s.first]);
  std::stable_sort(stretches.begin(), stretches.end(),
                   [](const Stretch& a, const Stretch& b) { return a.length > b.length; });
  for (size_t least = 1; least <= 2; ++least) {
    for (Stretch& s : stretches) {
      if (count == 0 || s.rows >= least || s.end - s.first < least) continue;
      ++s.rows;
      --count;
    }
  }
  while (count > 0) {
    Stretch* longest = nullptr;
    for (Stretch& s : stretches) {
      if (s.rows < 2 || s.rows >= s.end - s.first) continue;
      if (longest == nullptr || s.step() > longest->step()) longest = &s;
    }
    if (longest == nullptr) break;
    ++longest->rows;
    --count;
  }
  std::vector<size_t> out;
  for (const Stretch& s : stretches) {
    for (size_t k = 0; k < s.rows; ++k) {
      const double share =
          s.rows < 2 ? 0 : static_cast<double>(k) / static_cast<double>(s.rows - 1);
      const double target = log_size(rows[s.first]) + s.length * share;
      size_t nearest = s.first;
      for (size_t i = s.first; i < s.end; ++i) {
        const double gain =
            std::abs(log_size(rows[nearest]) - target) - std::abs(log_size(rows[i]) - target);
        if (gain > 1e-9) nearest = i;
      }
      out.push_back(nearest);
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::optional<OwnCost> fit_own(const std::vector<FitRow>& rows, const Calibration& calibration) {
  if (rows.empty()) return std::nullopt;
  const OperationShape& shape = rows.front().shape;
  if (shape.communicator.nodes > 1 || rows.back().shape.bytes == shape.bytes) return std::nullopt;
  Calibration shared = calibration;
  shared.own.clear();
  const auto predicted = [&](const FitRow& row) {
    return operation_time(row.shape, shared, row.network);
  };
  // measured / predicted = 1 + a + b * first / predicted: a weighs everywhere, b at the first row.
  const double first = predicted(rows.front());
  const double prior = 1 / (kOwnSpread * kOwnSpread);
  double aa = prior, ab = 0, bb = prior, ay = 0, by = 0;
  for (const FitRow& row : rows) {
    const double t = predicted(row), x = first / t, y = row.time / t - 1;
    // What lies beyond is nearer to the larger rows.
    const double weight = static_cast<double>(row.shape.bytes) /
                          static_cast<double>(rows.back().shape.bytes) /
                          (kOwnRowSpread * kOwnRowSpread);
    aa += weight;
    ab += weight * x;
    bb += weight * x * x;
    ay += weight * y;
    by += weight * x * y;
  }
  const double determinant = aa * bb - ab * ab;  // > 0: the prior sees to that
  const double a = (ay * bb - by * ab) / determinant, b = (by * aa - ay * ab) / determinant;
  return OwnCost{.collective = shape.collective,
                 .algorithm = shape.algorithm,
                 .protocol = shape.protocol,
                 .version = shape.version,
                 .gpu = shape.gpu,
                 .ranks = shape.communicator.ranks,
                 .from = shape.bytes,
                 .scale = 1 + a,
                 .offset = b * first};
}

double error_of(const FitRow& row, const Calibration& calibration) {
  return operation_time(row.shape, calibration, row.network) / row.time - 1;
}

Fit fit_calibration(const std::vector<FitRow>& rows, const NcclSystem& system,
                    NcclVersion version) {
  Fit fit;
  const std::vector<Knob> all = knobs(fit.calibration, rows, system, version);
  std::vector<ChunkPlan> cuts;
  cuts.reserve(rows.size());
  for (const FitRow& row : rows) cuts.push_back(cut_chunks(row.shape));
  const auto loss = [&](const std::vector<double>& x) {
    double sum = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      *all[i].value = all[i].usual * std::exp(x[i]);
      sum += x[i] * x[i] / (2 * all[i].spread * all[i].spread);
    }
    for (size_t i = 0; i < rows.size(); ++i) {
      const FitRow& row = rows[i];
      const double ratio =
          operation_time(row.shape, cuts[i], fit.calibration, row.network) / row.time;
      sum += robust(std::log(ratio) / kRowSpread);
    }
    return sum;
  };
  // A simplex may get stuck: it starts again where it ended, and from several places.
  std::vector<double> best;
  for (const double start : {0.0, -0.7, 0.7, 1.4}) {
    std::vector<double> x(all.size(), start);
    x[0] = 0;
    double value = 0;
    for (const double step : {0.7, 0.5, 0.3, 0.2, 0.1}) value = minimize(loss, x, step, 6000);
    if (best.empty() || value < fit.loss) {
      best = x;
      fit.loss = value;
    }
  }
  loss(best);
  return fit;
}

}  // namespace understudy
