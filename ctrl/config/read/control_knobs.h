// The knobs of every rate controller by their keys: one list each, for whoever visits them:
// the reader of [[control]], and the list of a controller's keys.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "dataplane/cc/parameters.h"

namespace understudy {

/// What a number may be.
enum class NumberRange {
  kGain,      ///< above 0 and at most 1
  kShare,     ///< from 0 to 1
  kPart,      ///< above 0 and below 1
  kPositive,  ///< above 0 and at most a million
};
enum class Zero { kAllowed, kRefused };

template <typename V>
void visit_knobs(V& v, NoControlParameters& p) {
  v.window(p.window);
}

template <typename V>
void visit_knobs(V& v, DcqcnParameters& p) {
  v.number("g", p.g, NumberRange::kGain);
  v.number("initial_alpha", p.initial_alpha, NumberRange::kShare);
  v.choice("alpha_update",
           {{"period", DcqcnParameters::AlphaUpdate::kPeriod},
            {"cnp", DcqcnParameters::AlphaUpdate::kCnp}},
           p.alpha_update);
  v.duration("alpha_period", p.alpha_period, Zero::kRefused);
  v.duration("decrease_period", p.decrease_period, Zero::kAllowed);
  v.number("min_dec_fac", p.min_dec_fac, NumberRange::kShare);
  v.flag("clamp_target_rate", p.clamp_target_rate);
  v.flag("clamp_target_rate_after_time_inc", p.clamp_target_rate_after_time_inc);
  v.rate_or("rate_to_set_on_first_cnp", "unchanged", p.rate_to_set_on_first_cnp);
  v.duration("increase_period", p.increase_period, Zero::kRefused);
  v.size("byte_counter", p.byte_counter);
  v.count("fast_recovery", p.fast_recovery);
  v.rate("additive_increase", p.additive_increase);
  v.rate("hyper_increase", p.hyper_increase);
  v.rate("min_rate", p.min_rate);
  v.choice("echo", {{"cnp", DcqcnParameters::Echo::kCnp}, {"ack", DcqcnParameters::Echo::kAck}},
           p.echo);
  v.duration("cnp_interval", p.cnp_interval, Zero::kAllowed);
  v.flag("rate_changes_gap", p.rate_changes_gap);
  v.window(p.window);
}

template <typename V>
void visit_knobs(V& v, TimelyParameters& p) {
  v.number("ewma_gain", p.ewma_gain, NumberRange::kGain);
  v.number("beta", p.beta, NumberRange::kGain);
  v.duration("t_low", p.t_low, Zero::kAllowed);
  v.duration("t_high", p.t_high, Zero::kAllowed);
  v.duration("min_rtt", p.min_rtt, Zero::kRefused);
  v.count("hyper_after", p.hyper_after);
  v.rate("additive_increase", p.additive_increase);
  v.rate("hyper_increase", p.hyper_increase);
  v.rate("min_rate", p.min_rate);
  v.window(p.window);
}

template <typename V>
void visit_knobs(V& v, DctcpParameters& p) {
  v.number("g", p.g, NumberRange::kGain);
  v.rate_or("additive_increase", "packet", p.additive_increase);
  v.rate("min_rate", p.min_rate);
  v.window(p.window);
}

template <typename V>
void visit_knobs(V& v, HpccParameters& p) {
  v.number("target_utilisation", p.target_utilisation, NumberRange::kGain);
  v.count("max_stage", p.max_stage);
  v.rate("additive_increase", p.additive_increase);
  v.flag("fast_react", p.fast_react);
  v.rate("min_rate", p.min_rate);
  v.window(p.window);
}

template <typename V>
void visit_knobs(V& v, SwiftParameters& p) {
  v.duration("base_target", p.base_target, Zero::kRefused);
  v.duration("hop_target", p.hop_target, Zero::kAllowed);
  v.duration("flow_scaling_range", p.flow_scaling_range, Zero::kAllowed);
  v.number("flow_scaling_min_cwnd", p.flow_scaling_min_cwnd, NumberRange::kPositive);
  v.number("flow_scaling_max_cwnd", p.flow_scaling_max_cwnd, NumberRange::kPositive);
  v.number("additive_increase", p.additive_increase, NumberRange::kPositive);
  v.number("beta", p.beta, NumberRange::kGain);
  v.number("max_mdf", p.max_mdf, NumberRange::kPart);
  v.number("min_cwnd", p.min_cwnd, NumberRange::kPositive);
  v.number("max_cwnd", p.max_cwnd, NumberRange::kPositive);
}

/// The keys of a controller's knobs.
struct KnobNames {
  std::vector<std::string_view> keys;

  template <typename... Rest>
  void number(std::string_view key, Rest&&...) {
    keys.push_back(key);
  }
  template <typename... Rest>
  void duration(std::string_view key, Rest&&...) {
    keys.push_back(key);
  }
  template <typename... Rest>
  void rate_or(std::string_view key, Rest&&...) {
    keys.push_back(key);
  }
  template <typename E>
  void choice(std::string_view key, std::initializer_list<std::pair<std::string_view, E>>, E&) {
    keys.push_back(key);
  }
  void rate(std::string_view key, Rate&) { keys.push_back(key); }
  void size(std::string_view key, uint64_t&) { keys.push_back(key); }
  void count(std::string_view key, uint32_t&) { keys.push_back(key); }
  void flag(std::string_view key, bool&) { keys.push_back(key); }
  void window(WindowRule&) { keys.insert(keys.end(), {"window", "variable_window"}); }

  bool has(std::string_view key) const {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  }
};

inline KnobNames knobs_of(ControlParameters parameters) {
  KnobNames names;
  std::visit([&](auto& p) { visit_knobs(names, p); }, parameters);
  return names;
}

}  // namespace understudy
