// DCQCN once more, for tests: a straight recomputation in which every clock ticks.
#pragma once

#include <algorithm>
#include <cstdint>

#include "dataplane/cc/parameters.h"

namespace understudy {

/// The difference equations with every clock as an event of its own; in picoseconds and bit/s.
struct Ticking {
  DcqcnParameters p;
  int64_t line;
  int64_t rate = line, target = line;
  double alpha = p.initial_alpha;
  bool started = false, cnp_for_alpha = false, cnp_for_cut = false, cut_before = false;
  int64_t alpha_at = 0, cut_at = 0, increase_at = 0;
  int64_t stage_t = 0, stage_b = 0, bytes = 0;

  int64_t least() const { return std::min<int64_t>(line, static_cast<int64_t>(p.min_rate.bps())); }
  bool has_period() const { return p.decrease_period.ps() != 0; }

  void increase() {
    const bool both = p.byte_counter != 0;
    const int64_t f = p.fast_recovery;
    const int64_t high = both ? std::max(stage_t, stage_b) : stage_t;
    const int64_t low = both ? std::min(stage_t, stage_b) : stage_t;
    if (high < f) {
    } else if (low <= f) {
      target += static_cast<int64_t>(p.additive_increase.bps());
    } else {
      target += static_cast<int64_t>(p.hyper_increase.bps());
    }
    target = std::min(target, line);
    const int64_t sum = rate + target;
    rate = std::min(sum / 2 + sum % 2, line);
  }

  void cut(int64_t now) {
    if (p.clamp_target_rate || stage_b > 0 || (p.clamp_target_rate_after_time_inc && stage_t > 0)) {
      target = rate;
    }
    double factor = 1 - alpha / 2;
    if (factor < p.min_dec_fac) factor = p.min_dec_fac;
    rate = std::max(least(), static_cast<int64_t>(static_cast<double>(rate) * factor));
    stage_t = stage_b = bytes = 0;
    cut_before = true;
    increase_at = now + p.increase_period.ps();
  }

  void run_until(int64_t now) {
    while (started) {
      int64_t next = alpha_at;
      if (has_period()) next = std::min(next, cut_at);
      if (cut_before) next = std::min(next, increase_at);
      if (next > now) return;
      if (alpha_at == next) {
        alpha = (1 - p.g) * alpha;
        if (cnp_for_alpha) alpha += p.g;
        cnp_for_alpha = false;
        alpha_at += p.alpha_period.ps();
      } else if (cut_before && increase_at == next) {
        increase();
        ++stage_t;
        increase_at += p.increase_period.ps();
      } else {
        cut_at += p.decrease_period.ps();
        if (cnp_for_cut) cut(next);
        cnp_for_cut = false;
      }
    }
  }

  void cnp(int64_t now) {
    run_until(now);
    const bool first = !started;
    if (first) {
      started = true;
      alpha_at = now + p.alpha_period.ps();
      cut_at = now + p.decrease_period.ps();
      const auto set = static_cast<int64_t>(p.rate_to_set_on_first_cnp.bps());
      if (set != 0) rate = std::clamp(set, least(), line);
      target = rate;
    }
    if (has_period()) {
      cnp_for_cut = true;
    } else {
      cut(now);
    }
    if (p.alpha_update == DcqcnParameters::AlphaUpdate::kCnp) {
      alpha = (1 - p.g) * alpha + p.g;
      alpha_at = now + p.alpha_period.ps();
    } else if (!first) {
      cnp_for_alpha = true;
    }
  }

  void sent(int64_t now, int64_t n) {
    run_until(now);
    if (p.byte_counter == 0 || !cut_before) return;
    bytes += n;
    while (bytes >= static_cast<int64_t>(p.byte_counter)) {
      bytes -= static_cast<int64_t>(p.byte_counter);
      increase();
      ++stage_b;
    }
  }
};

}  // namespace understudy
