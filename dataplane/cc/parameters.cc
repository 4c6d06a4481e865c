#include "dataplane/cc/parameters.h"

#include <array>

namespace understudy {
namespace {

constexpr Rate mbps(uint64_t v) { return Rate::bits_per_second(v * 1'000'000); }

/// DCQCN paper (SIGCOMM 2015): section 5's table for 40 Gbit/s (55 us, 10 MB, g = 1/256), F = 5 and
/// R_AI = 40 Mbit/s of its model. Cuts and rises of alpha at the CNP, the target always follows. It
/// prints no R_HAI: ten times R_AI as in QCN; no least rate: 100 Mbit/s as in HPCC's simulator.
DcqcnParameters dcqcn_paper() {
  DcqcnParameters p;
  p.g = 1.0 / 256;
  p.initial_alpha = 1;
  p.alpha_update = DcqcnParameters::AlphaUpdate::kCnp;
  p.alpha_period = Duration::us(55);
  p.decrease_period = Duration();
  p.clamp_target_rate = true;
  p.increase_period = Duration::us(55);
  p.byte_counter = 10'000'000;
  p.fast_recovery = 5;
  p.additive_increase = mbps(40);
  p.hyper_increase = mbps(400);
  p.min_rate = mbps(100);
  p.cnp_interval = Duration::us(50);
  return p;
}

/// The values in mix/config.txt of HPCC's simulator (alibaba-edu/High-Precision-Congestion-Control)
/// and the rate controller of its rdma-hw.cc: no byte counter, marks echoed by every
/// acknowledgement.
DcqcnParameters dcqcn_hpcc_simulator() {
  DcqcnParameters p;
  p.g = 1.0 / 256;
  p.initial_alpha = 1;
  p.alpha_period = Duration::us(1);
  p.decrease_period = Duration::us(4);
  p.increase_period = Duration::us(900);
  p.byte_counter = 0;
  p.fast_recovery = 1;
  p.additive_increase = mbps(50);
  p.hyper_increase = mbps(100);
  p.min_rate = mbps(100);
  p.echo = DcqcnParameters::Echo::kAck;
  p.rate_changes_gap = false;
  return p;
}

/// The same controller with the DCQCN paper's timers.
DcqcnParameters dcqcn_timers_of_paper() {
  DcqcnParameters p = dcqcn_hpcc_simulator();
  p.alpha_period = Duration::us(55);
  p.decrease_period = Duration::us(50);
  p.increase_period = Duration::us(55);
  p.fast_recovery = 5;
  p.additive_increase = mbps(40);
  p.hyper_increase = mbps(200);
  p.cnp_interval = Duration::us(50);
  return p;
}

/// eRPC's constants (erpc-io/eRPC, src/cc/timely.h and timely_sweep_params.h) in TIMELY's own
/// controller: eRPC itself updates at every packet and weighs by the time since the last update.
TimelyParameters timely_erpc() {
  TimelyParameters p;
  p.ewma_gain = 0.46;
  p.beta = 0.26;
  p.t_low = Duration::us(50);
  p.t_high = Duration::us(1000);
  p.min_rtt = Duration::us(2);
  p.additive_increase = mbps(40);  // 5 MB/s
  p.hyper_increase = mbps(200);    // five times that
  p.min_rate = mbps(120);          // 15 MB/s
  return p;
}

/// RFC 8257 and the DCTCP paper: g = 1/16, one packet per window.
DctcpParameters dctcp_paper() {
  DctcpParameters p;
  p.g = 1.0 / 16;
  p.additive_increase = Rate::unlimited();
  return p;
}

constexpr std::string_view kControllers[] = {"none", "dcqcn", "timely", "dctcp", "hpcc", "swift"};
static_assert(std::size(kControllers) == std::variant_size_v<ControlParameters>);

}  // namespace

std::span<const ControlPreset> control_presets() {
  static const std::array presets = {
      ControlPreset{"none", "none", NoControlParameters{}},
      ControlPreset{"dcqcn", "nvidia", DcqcnParameters{}},
      ControlPreset{"dcqcn", "paper", dcqcn_paper()},
      ControlPreset{"dcqcn", "hpcc-simulator", dcqcn_hpcc_simulator()},
      ControlPreset{"dcqcn", "timers-of-paper", dcqcn_timers_of_paper()},
      ControlPreset{"timely", "hpcc-simulator", TimelyParameters{}},
      ControlPreset{"timely", "erpc", timely_erpc()},
      ControlPreset{"dctcp", "hpcc-simulator", DctcpParameters{}},
      ControlPreset{"dctcp", "paper", dctcp_paper()},
      ControlPreset{"hpcc", "paper", HpccParameters{}},
      ControlPreset{"swift", "htsim", SwiftParameters{}},
  };
  return presets;
}

std::optional<ControlParameters> find_control_preset(std::string_view controller,
                                                     std::string_view name) {
  for (const ControlPreset& preset : control_presets()) {
    if (preset.controller == controller && (name.empty() || preset.name == name))
      return preset.parameters;
  }
  return std::nullopt;
}

std::string_view controller_name(const ControlParameters& parameters) {
  return kControllers[parameters.index()];
}

}  // namespace understudy
