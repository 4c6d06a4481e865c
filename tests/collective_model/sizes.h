// Sizes of what one operation that is alone is cut into.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "collective_model/schedule/schedule.h"

namespace understudy {

inline OperationCut cut_of(const Communicator& communicator, const Operation& operation) {
  auto cut = cut_group(communicator, {&operation, 1});
  EXPECT_TRUE(cut);
  return (*cut)[0];
}

inline std::vector<uint64_t> part_sizes(const Communicator& communicator,
                                        const Operation& operation) {
  std::vector<uint64_t> sizes;
  for (const ChannelPart& part : cut_of(communicator, operation).parts) sizes.push_back(part.bytes);
  return sizes;
}

/// Wire sizes of what rank 0 sends on its connection `connection`.
inline std::vector<uint64_t> sent(const Communicator& communicator, const Operation& operation,
                                  uint32_t connection = 0, uint32_t rank = 0) {
  OperationCut cut;
  if (!is_p2p(operation.collective)) cut = cut_of(communicator, operation);
  const auto schedule = rank_schedule(communicator, operation, cut, rank);
  std::vector<uint64_t> sizes;
  for (uint64_t k = 0; k < schedule->connections()[connection].messages; ++k) {
    sizes.push_back(schedule->message(connection, k).wire);
  }
  return sizes;
}

inline std::vector<uint64_t> joined(std::vector<uint64_t> a, const std::vector<uint64_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace understudy
