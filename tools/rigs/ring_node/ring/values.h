// What this rank puts into an all-reduce and what must come out of it, bit by bit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ctrl/peers/ring/ring_messages.h"
#include "tools/rigs/ring_node/ring/cutting.h"

namespace understudy {

/// `count` values from a seed that stays in this process: no integers, lowest mantissa bit set.
std::vector<float> input_values(uint64_t input_seed, uint32_t rank, uint64_t count);

/// Whether the result can be known here: payload is exact, and all other ranks' values follow from
/// the job or, of other real ranks, from an input seed that the user gave to all of them.
bool verifiable(const RingJobMessage& job, bool input_seed_given);

/// The sum as the ring makes it. fp32 addition is not associative: chunk k starts at rank k+1 and
/// each next rank adds its own to what it received (docs/nccl 3.10).
std::vector<float> expected_values(const RingJobMessage& job, uint64_t input_seed,
                                   std::span<const float> input);

/// Number of elements that differ in any bit.
uint64_t count_differences(std::span<const float> a, std::span<const float> b);

/// The first of them as a text for the user: index and both values. There must be one.
std::string first_difference(std::span<const float> got, std::span<const float> expected);

/// Index of the only element that differs in any bit; nothing if none or several do.
std::optional<uint64_t> only_difference(std::span<const float> a, std::span<const float> b);

}  // namespace understudy
