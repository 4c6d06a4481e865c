// From measured times of slices to the constants of a [calibration] section.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace understudy {

/// Time of one slice, of the reduction and the copy averaged: a ring all-reduce has as many of
/// both.
struct SliceTime {
  uint64_t bytes = 0;  ///< of data
  double us = 0;
};

struct StepCost {
  double round = 0;  ///< us: one pass of a channel's threads
  double rate = 0;   ///< GB/s of a channel on top of the passes; 0: unlimited
  double fixed = 0;  ///< us of every slice: barrier, fence, counter
};

/// Data bytes that `threads` of Simple move in a pass.
uint64_t simple_pass(uint32_t threads);

/// Least squares of relative errors of fixed + round * passes + bytes / rate, none of them below 0.
/// Slices are at most one pass, or whole passes.
StepCost fit_simple(std::span<const SliceTime> times, uint32_t threads);
/// LL and LL128 take the larger of a pass and bytes / rate: the shortest slice is one pass. The
/// rate is the longest slice's.
StepCost fit_lines(std::span<const SliceTime> times);

struct GpuCosts {
  std::string gpu;  ///< what it was measured on
  double launch = 0;
  StepCost simple, ll, ll128;
  SliceTime message;  ///< of Simple: what a job's step_cost is
};
/// The section, with what it leaves out as comments.
std::string calibration_toml(const GpuCosts& costs);

}  // namespace understudy
