// What NCCL has to be told so that it takes the algorithms and protocols of a job and of those on its
// children: one process has all of their communicators, and one environment.
#pragma once

#include <string>

#include "ctrl/config/config.h"

namespace understudy {

/// The value of a variable, or why there is none.
struct ChoiceValue {
  std::string value;   ///< as NCCL takes it; empty: it is not to be set
  std::string reason;  ///< of the value; or why the jobs' choices cannot be said, else empty
};

/// NCCL_ALGO and NCCL_PROTO. Where jobs want different ones a list by collective, from 2.24 on
/// (source: graph/tuning.cc, parseList); two of one collective cannot be said.
ChoiceValue algorithm_choice(const Config& config, const JobConfig& job);
ChoiceValue protocol_choice(const Config& config, const JobConfig& job);

}  // namespace understudy
