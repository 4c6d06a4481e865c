// What a configuration says of a network between its nodes' links.
#pragma once

#include "ctrl/config/config.h"

namespace understudy {

/// Whether it has anything there: [topology], [queues], [[traffic]], or a job with inner =
/// "packets". Without, a path is the two links of its ends.
bool asks_for_network(const Config& config);

/// There is a link without a rate.
bool has_unlimited_link(const Config& config);

/// Whether frames of real nodes can go through such a network: its links are paced, its classes are
/// those of [queues], and each link has a rate.
bool can_have_network(const Config& config);

/// Whether the job's messages between emulated ranks can go through a network packet by packet: its
/// operations are no guesses.
bool can_carry(const Config& config, const JobConfig& job);

}  // namespace understudy
