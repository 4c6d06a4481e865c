// The knobs of every congestion-control law and the published sets of their values. A struct's
// defaults are the first set of its law in control_presets().
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
  WindowRule window;
  bool operator==(const DcqcnParameters&) const = default;
};

using ControlParameters = std::variant<NoControlParameters, DcqcnParameters>;

/// A published set of values of a law.
struct ControlPreset {
  std::string_view law;   ///< as law_name()
  std::string_view name;  ///< unique within its law
  ControlParameters parameters;
};

/// All sets, those of one law together. The first of a law is its default.
std::span<const ControlPreset> control_presets();

/// The set of this name, or nothing; an empty name is the law's default.
std::optional<ControlParameters> find_control_preset(std::string_view law, std::string_view name);

/// "none", "dcqcn" ...
std::string_view law_name(const ControlParameters& parameters);

}  // namespace understudy
