// The feed of a GPU node's profiler plugin (feed_record.h): bytes in, operations out.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collective_model/nccl/operation.h"
#include "ctrl/peers/feed_record.h"
#include "ctrl/peers/peer.h"

namespace understudy {

/// An operation that NCCL has started, as told by one of its ranks.
struct FedOperation {
  uint32_t rank = 0;
  uint64_t communicator = 0;  ///< 0: not told
  uint64_t sequence = 0;      ///< of collectives, by function
  /// A collective with root, algorithm, protocol and channels; or kSendRecv, one half of a pair.
  Operation operation;
  bool sends = false;  ///< kSendRecv: the rank is the sender
  uint32_t peer = 0;   ///< kSendRecv
  /// Operations that one kernel carries out follow each other with the same number; 0: it is alone.
  uint32_t group = 0;
  bool last = true;  ///< of its group
};

/// The record that tells it, in the newest version, after `dropped` ones that could not be sent.
std::vector<uint8_t> record_of(const FedOperation& fed, uint32_t dropped = 0);

/// Collects records, which may come in pieces of any size.
class FeedDecoder {
 public:
  /// Takes bytes; what they tell is appended to `operations`. False once something was wrong: then
  /// error() says what, and nothing more is taken.
  bool take(std::span<const uint8_t> bytes, std::vector<FedOperation>& operations);
  const std::string& error() const { return error_; }
  /// Records that the plugin could not send.
  uint64_t dropped() const { return dropped_; }
  uint64_t records() const { return records_; }
  /// A record has begun and is not complete.
  bool in_record() const { return !pending_.empty(); }

 private:
  std::optional<FedOperation> operation_of(const FeedRecord& record);

  std::vector<uint8_t> pending_;
  uint64_t records_ = 0;
  uint64_t dropped_ = 0;
  std::string error_;
};

/// One connection of a plugin.
class FeedPeer : public Peer {
 public:
  using Take = std::function<void(Time, const FedOperation&)>;
  /// `lost` is told how many records are known to be missing, `ended` that nothing more will come,
  /// and why, empty if the other side has closed the connection.
  FeedPeer(Take take, std::function<void(Time, uint64_t)> lost,
           std::function<void(Time, const std::string&)> ended)
      : take_(std::move(take)), lost_(std::move(lost)), ended_(std::move(ended)) {}
  void on_bytes(Time now, std::span<const uint8_t> bytes) override;
  void on_endpoint(Time, const EndpointReady&) override {}
  void on_closed(Time now) override;

 private:
  Take take_;
  std::function<void(Time, uint64_t)> lost_;
  std::function<void(Time, const std::string&)> ended_;
  FeedDecoder decoder_;
  std::vector<FedOperation> operations_;
  uint64_t told_lost_ = 0;
};

}  // namespace understudy
