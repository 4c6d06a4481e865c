// Posted receives, of one queue pair or shared by several.
#pragma once

#include <infiniband/verbs.h>

#include <span>
#include <vector>

namespace understudy::soft_nic {

/// Where a program wants one message.
struct Receive {
  uint64_t id = 0;
  std::vector<ibv_sge> pieces;
  uint64_t length() const;  ///< bytes of all pieces
};

class ReceiveQueue {
 public:
  ReceiveQueue(uint32_t entries, uint32_t pieces);

  uint32_t entries() const { return static_cast<uint32_t>(ring_.size()); }
  size_t waiting() const { return count_; }
  /// 0, ENOMEM when it is full, EINVAL for more pieces than it was made for.
  int post(uint64_t id, std::span<const ibv_sge> pieces);
  /// The oldest one; false when there is none.
  bool take(Receive& out);
  void clear() { first_ = count_ = 0; }

 private:
  std::vector<Receive> ring_;
  size_t first_ = 0, count_ = 0;
  uint32_t pieces_;
};

}  // namespace understudy::soft_nic
