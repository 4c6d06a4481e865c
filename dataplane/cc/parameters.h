// The knobs of every rate controller and the published sets of their values. A struct's
// defaults are the first set of its controller in control_presets().
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "dataplane/cc/window_rule.h"

namespace understudy {

/// No control: line rate, and the window if there is one.
struct NoControlParameters {
  WindowRule window;
  bool operator==(const NoControlParameters&) const = default;
};

/// DCQCN's reaction point (rule A6). Defaults: NVIDIA's adapters, NVIDIA's name of each in
/// brackets.
struct DcqcnParameters {
  enum class Echo {
    kCnp,  ///< CNPs alone
    kAck,  ///< acknowledgements that echo a CE mark count as CNPs too
  };
  enum class AlphaUpdate {
    kPeriod,  ///< every alpha_period: up if a CNP came in it, down if none
    kCnp,     ///< up at every CNP, after its cut; down alpha_period after the last change
  };
  double g = 5.0 / 1024;                ///< gain of alpha, in (0, 1] (1 - DCE_TCP_G / 1024)
  double initial_alpha = 1023. / 1024;  ///< at the first CNP, in [0, 1] (INITIAL_ALPHA_VALUE)
  AlphaUpdate alpha_update = AlphaUpdate::kPeriod;
  Duration alpha_period = Duration::us(1);  ///< above 0 (DCE_TCP_RTT)
  /// A cut at the end of each period in which a CNP came, counted from the first CNP; 0: at every
  /// CNP (RATE_REDUCE_MONITOR_PERIOD).
  Duration decrease_period = Duration::us(4);
  double min_dec_fac = 0.5;  ///< least share of the rate that one cut leaves (RPG_MIN_DEC_FAC)
  /// The target falls to the rate before a cut: always (CLAMP_TGT_RATE), or ...
  bool clamp_target_rate = false;
  /// ... if the timer has raised the rate since the last cut (CLAMP_TGT_RATE_AFTER_TIME_INC). If
  /// the byte counter has, it always does, as in QCN.
  bool clamp_target_rate_after_time_inc = true;
  /// Rate and target at the first CNP, before its cut; unlimited: unchanged
  /// (RATE_TO_SET_ON_FIRST_CNP).
  Rate rate_to_set_on_first_cnp = Rate::unlimited();
  Duration increase_period = Duration::us(300);  ///< above 0 (RPG_TIME_RESET)
  uint64_t byte_counter = 32'767;                ///< bytes; 0: none (RPG_BYTE_RESET)
  /// Increases of fast recovery by one clock, before additive increase (RPG_THRESHOLD).
  uint32_t fast_recovery = 1;
  Rate additive_increase = Rate::bits_per_second(5'000'000);  ///< RPG_AI_RATE
  Rate hyper_increase = Rate::bits_per_second(50'000'000);    ///< RPG_HAI_RATE
  Rate min_rate = Rate::bits_per_second(1'000'000);           ///< RPG_MIN_RATE
  Echo echo = Echo::kCnp;
  /// The notification point's: least time between CNPs for one queue pair
  /// (MIN_TIME_BETWEEN_CNPS). For the receiver; the reaction point does not know it.
  Duration cnp_interval = Duration::us(4);
  /// A new rate also changes the gap behind the packet that left last, as where a token bucket
  /// fills at the rate of the moment. Else that gap stays: behind a packet at 1 Mbit/s it is 33 ms.
  bool rate_changes_gap = true;
  WindowRule window;
  bool operator==(const DcqcnParameters&) const = default;
};

/// TIMELY (Mittal et al., SIGCOMM 2015). Defaults: HPCC's simulator, rdma-hw.cc and mix/config.txt.
struct TimelyParameters {
  double ewma_gain = 0.875;             ///< of the newest difference of round trips, in (0, 1]
  double beta = 0.8;                    ///< strength of decreases, in (0, 1]
  Duration t_low = Duration::us(50);    ///< below: increase
  Duration t_high = Duration::us(500);  ///< above: decrease whatever the gradient
  Duration min_rtt = Duration::us(20);  ///< unit of the gradient, above 0
  uint32_t hyper_after = 5;             ///< increases in a row before hyper increase
  Rate additive_increase = Rate::bits_per_second(50'000'000);
  Rate hyper_increase = Rate::bits_per_second(100'000'000);
  Rate min_rate = Rate::bits_per_second(100'000'000);
  WindowRule window;
  bool operator==(const TimelyParameters&) const = default;
};

/// DCTCP (Alizadeh et al., SIGCOMM 2010; RFC 8257) on a rate with a window of rate times base
/// round trip. Defaults: HPCC's simulator.
struct DctcpParameters {
  double g = 1.0 / 256;  ///< gain of alpha, in (0, 1]
  /// Of the rate per window of data without a cut; unlimited: one packet per base round trip, which
  /// is the papers' one packet per window.
  Rate additive_increase = Rate::bits_per_second(1'000'000'000);
  Rate min_rate = Rate::bits_per_second(100'000'000);
  WindowRule window = {WindowRule::Kind::kBdp, 0, true};
  bool operator==(const DctcpParameters&) const = default;
};

/// HPCC (Li et al., SIGCOMM 2019), one rate for all hops. Defaults: the paper's eta and maxStage,
/// and W_AI as the rate that its simulator's mix/config.txt has.
struct HpccParameters {
  double target_utilisation = 0.95;  ///< eta, in (0, 1]
  uint32_t max_stage = 5;            ///< additive increases in a row (maxStage)
  Rate additive_increase = Rate::bits_per_second(50'000'000);
  bool fast_react = true;  ///< at every acknowledgement; else once per window of data
  Rate min_rate = Rate::bits_per_second(100'000'000);
  WindowRule window = {WindowRule::Kind::kBdp, 0, true};
  bool operator==(const HpccParameters&) const = default;
};

/// Swift (Kumar et al., SIGCOMM 2020), the window for the fabric's delay; packets are the unit of
/// windows. The paper prints hardly a value: these are csg-htsim's (sim/swift.cpp), which calls
/// most of them guesses; min_cwnd is ours.
struct SwiftParameters {
  Duration base_target = Duration::us(20);          ///< above 0
  Duration hop_target = Duration::ns(3'053);        ///< more per switch on the way
  Duration flow_scaling_range = Duration::us(100);  ///< most that is added for small windows
  double flow_scaling_min_cwnd = 0.1;               ///< at which all of the range is added; above 0
  double flow_scaling_max_cwnd = 100;               ///< from which on nothing is added
  double additive_increase = 1;                     ///< packets per round trip, above 0
  double beta = 0.8;                                ///< strength of decreases, in (0, 1]
  double max_mdf = 0.5;     ///< most that one decrease takes, a share in (0, 1)
  double min_cwnd = 0.001;  ///< above 0
  double max_cwnd = 1000;
  bool operator==(const SwiftParameters&) const = default;
};

using ControlParameters = std::variant<NoControlParameters, DcqcnParameters, TimelyParameters,
                                       DctcpParameters, HpccParameters, SwiftParameters>;

/// A published set of values of a rate controller.
struct ControlPreset {
  std::string_view controller;  ///< as controller_name()
  std::string_view name;        ///< unique within its controller
  ControlParameters parameters;
};

/// All sets, those of one controller together. The first of each is its default.
std::span<const ControlPreset> control_presets();

/// The set of this name, or nothing; an empty name is the controller's default.
std::optional<ControlParameters> find_control_preset(std::string_view controller,
                                                     std::string_view name);

/// "none", "dcqcn" ...
std::string_view controller_name(const ControlParameters& parameters);

}  // namespace understudy
