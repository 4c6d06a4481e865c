// What is done with the elements of a buffer: filled with a rank's contribution, and reduced as
// NCCL's kernels do it, element by element. Sums and products of whole numbers wrap around; those of
// float16 and bfloat16 are rounded to the nearest (even) after each step, those of float8 to float16
// and then to float8.
#pragma once

#include <cstdint>
#include <span>

#include "collective_model/schedule/schedule.h"
#include "dataplane/base/pattern.h"

namespace understudy {

/// How elements of a job are reduced.
struct ElementRule {
  DataType type = DataType::kFloat32;
  ReduceOp reduction = ReduceOp::kSum;
};

/// Fills `out` with a contribution from its byte `from` on, which may be inside an element: what is
/// only moved is cut to bytes.
void fill_pattern(DataType type, const Pattern& pattern, uint64_t from, std::span<uint8_t> out);

/// Reduces a contribution from its byte `from` on, where an element begins, into `values`.
void reduce_pattern(const ElementRule& rule, const Pattern& pattern, uint64_t from,
                    std::span<uint8_t> values);

/// Reduces as many bytes at `other` into `values`.
void reduce_values(const ElementRule& rule, const uint8_t* other, std::span<uint8_t> values);

/// Elements of two buffers of which any bit differs.
uint64_t count_different(DataType type, std::span<const uint8_t> a, std::span<const uint8_t> b);

}  // namespace understudy
