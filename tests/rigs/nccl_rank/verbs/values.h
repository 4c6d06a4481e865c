// What a rank puts into an operation's messages, and whether what comes out of it is right.
#pragma once

#include <cstddef>
#include <cstdint>

namespace understudy::nccl_rank {

class Values {
 public:
  virtual ~Values() = default;
  /// Message `k` of a connection, by its position in the schedule, has come as `bytes`.
  virtual void receive(uint32_t connection, uint64_t k, const std::byte* bytes) = 0;
  /// Writes that one, without flags.
  virtual void send(uint32_t connection, uint64_t k, std::byte* bytes) const = 0;
  /// How much of the result is not right, bit by bit.
  virtual uint64_t wrong() const = 0;
};

}  // namespace understudy::nccl_rank
