// One direction of one channel between two ranks, as a rank's kernel and proxy see it: room that the
// receiver offers, and messages in the slots of a buffer of 8 steps (docs/nccl 3.8).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "tests/rigs/nccl_rank/real_rank.h"

namespace understudy::nccl_rank {

/// Messages are counted from 0 since the connection was made. All of it throws Refused.
class DataConnection {
 public:
  explicit DataConnection(const Link& link) : link_(link) {}
  DataConnection(const DataConnection&) = delete;
  virtual ~DataConnection() = default;

  const Link& link() const { return link_; }

  /// How an operation uses it: steps of the buffer, by which each message's slot is found.
  struct Use {
    uint32_t step_bytes = 0, slice_steps = 1, chunk_steps = 1;
    uint32_t capacity = 0;  ///< bytes that a credit offers
  };
  void begin(const Use& use);

  // Of a receiver.
  /// Offers room for the next message.
  virtual void grant() = 0;
  uint64_t granted() const { return granted_; }
  uint64_t arrived() const { return arrived_; }
  /// Bytes of a message that has arrived, as its sender says.
  uint32_t size(uint64_t k) const { return sizes_[k % kKept]; }

  // Of a sender.
  /// Sends the next message out of its slot, if there is room for it.
  virtual bool post(uint32_t bytes) = 0;
  uint64_t posted() const { return posted_; }
  uint64_t acknowledged() const { return acknowledged_; }

  /// Of the current operation.
  uint64_t step(uint64_t k) const { return first_step_ + (k - first_) * use_.slice_steps; }
  std::byte* slot(uint64_t k) const { return buffer() + offset(k); }

 protected:
  static constexpr uint64_t kSteps = 8;
  static constexpr uint32_t kKept = 256;

  virtual std::byte* buffer() const = 0;
  /// A buffer of so many bytes, more than before.
  virtual void make_buffer(uint64_t bytes) = 0;
  uint64_t offset(uint64_t k) const { return step(k) % kSteps * use_.step_bytes; }

  const Link link_;
  Use use_;
  uint64_t granted_ = 0, arrived_ = 0, posted_ = 0, acknowledged_ = 0;
  std::vector<uint32_t> sizes_ = std::vector<uint32_t>(kKept);

 private:
  uint64_t buffer_bytes_ = 0;
  uint64_t first_ = 0;       ///< message of the operation
  uint64_t first_step_ = 0;  ///< its step
};

/// Between two ranks that are played by this process: through its memory.
class LocalConnection final : public DataConnection {
 public:
  using DataConnection::DataConnection;
  void join(LocalConnection& other) { other_ = &other; }

  void grant() override { ++granted_; }
  bool post(uint32_t bytes) override;

 private:
  std::byte* buffer() const override { return const_cast<std::byte*>(memory_.data()); }
  void make_buffer(uint64_t bytes) override { memory_.resize(bytes); }

  std::vector<std::byte> memory_;
  LocalConnection* other_ = nullptr;
};

/// Those of a node.
class LocalConnections {
 public:
  /// A rank's end.
  LocalConnection& end(uint32_t rank, const Link& link);

 private:
  std::map<std::pair<uint32_t, Link>, LocalConnection> ends_;
};

}  // namespace understudy::nccl_rank
