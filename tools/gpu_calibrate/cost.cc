#include "tools/gpu_calibrate/cost.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

constexpr uint64_t kHunk = 4096;    ///< of a warp
constexpr double kUnlimited = 1e5;  ///< GB/s: what lies above is noise
constexpr size_t kTerms = 3;        ///< fixed, round, bytes

using Terms = std::array<double, kTerms>;

/// Solves the normal equations for the terms in use; the others are 0.
Terms solve(const std::array<Terms, kTerms>& products, const Terms& right,
            const std::array<bool, kTerms>& used) {
  std::array<std::array<double, kTerms + 1>, kTerms> m{};
  for (size_t i = 0; i < kTerms; ++i) {
    for (size_t j = 0; j < kTerms; ++j) m[i][j] = used[i] && used[j] ? products[i][j] : 0;
    m[i][kTerms] = used[i] ? right[i] : 0;
    if (!used[i]) m[i][i] = 1;
  }
  for (size_t column = 0; column < kTerms; ++column) {
    size_t pivot = column;
    for (size_t row = column + 1; row < kTerms; ++row) {
      if (std::abs(m[row][column]) > std::abs(m[pivot][column])) pivot = row;
    }
    std::swap(m[column], m[pivot]);
    if (m[column][column] == 0) continue;
    for (size_t row = 0; row < kTerms; ++row) {
      if (row == column) continue;
      const double factor = m[row][column] / m[column][column];
      for (size_t j = column; j <= kTerms; ++j) m[row][j] -= factor * m[column][j];
    }
  }
  Terms result{};
  for (size_t i = 0; i < kTerms; ++i) result[i] = m[i][i] == 0 ? 0 : m[i][kTerms] / m[i][i];
  return result;
}

std::string us_text(double us) { return format_text("%.4fus", us); }

std::string cost_text(const StepCost& cost) {
  std::string text = "{ round = \"" + us_text(cost.round) + "\"";
  if (cost.rate > 0) text += format_text(", rate = \"%.3fGB/s\"", cost.rate);
  return text + " }";
}

}  // namespace

uint64_t simple_pass(uint32_t threads) { return threads / 32 * kHunk; }

StepCost fit_simple(std::span<const SliceTime> times, uint32_t threads) {
  const uint64_t pass = simple_pass(threads);
  std::array<Terms, kTerms> products{};
  Terms right{};
  for (const SliceTime& t : times) {
    const double passes = static_cast<double>((t.bytes + pass - 1) / pass);
    // Relative errors; in KB, so that all terms are of one order.
    const Terms row = {1 / t.us, passes / t.us, static_cast<double>(t.bytes) / 1000 / t.us};
    for (size_t i = 0; i < kTerms; ++i) {
      for (size_t j = 0; j < kTerms; ++j) products[i][j] += row[i] * row[j];
      right[i] += row[i];
    }
  }
  std::array<bool, kTerms> used = {true, true, true};
  for (;;) {
    const Terms x = solve(products, right, used);
    const auto lowest = std::ranges::min_element(x);
    if (*lowest < 0) {
      used[static_cast<size_t>(lowest - x.begin())] = false;
      continue;
    }
    const bool limited = x[2] > 1 / kUnlimited;
    return {x[1], limited ? 1 / x[2] : 0, x[0]};
  }
}

StepCost fit_lines(std::span<const SliceTime> times) {
  const auto [least, most] =
      std::ranges::minmax(times, {}, [](const SliceTime& t) { return t.bytes; });
  return {least.us, static_cast<double>(most.bytes) / most.us / 1000, 0};
}

std::string calibration_toml(const GpuCosts& costs) {
  return "# Measured by gpu_calibrate: " + costs.gpu + "\n[calibration]\n" + "launch = \"" +
         us_text(costs.launch) + "\"\n" + "simple = " + cost_text(costs.simple) + "\n" +
         "ll = " + cost_text(costs.ll) + "\n" + "ll128 = " + cost_text(costs.ll128) + "\n" +
         "# latency, network_latency and tail take several GPUs: `understudy calibrate` fits them "
         "to nccl-tests' tables.\n" +
         "# No latency is below a slice's barrier, fence and counter: " +
         us_text(costs.simple.fixed) + " here.\n" +
         format_text("# For a [[job]] of messages of %llu bytes by Simple: step_cost = \"%s\"\n",
                     static_cast<unsigned long long>(costs.message.bytes),
                     us_text(costs.message.us).c_str());
}

}  // namespace understudy
