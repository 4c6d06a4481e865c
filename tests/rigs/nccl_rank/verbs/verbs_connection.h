// One of net_ib's connections with real queue pairs (docs/nccl 2.4, 3.1 to 3.4): the credits and
// messages of one direction, over all devices of a rank's NIC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/rigs/nccl_rank/verbs/credits.h"
#include "tests/rigs/nccl_rank/verbs/data_connection.h"
#include "tools/rigs/ring_node/verbs/verbs_queue_pair.h"

namespace understudy::nccl_rank {

class VerbsConnection final : public DataConnection {
 public:
  struct Settings {
    nccl_decode::Release release;
    int queue_pairs = 1;  ///< of the connection
    int parts = 1;        ///< of them that a message is cut over: of both ends' devices the more
    bool split = false;   ///< over all of them, else they take turns
    uint32_t number = 0;  ///< in work requests
    uint32_t sender = 0;  ///< rank
  };
  /// `devices`: of the NIC. They outlive this.
  VerbsConnection(const std::deque<VerbsDevice>& devices, const Settings& settings,
                  const Link& link);

  const IbSide& own() const { return own_; }
  void connect(const IbSide& theirs);

  void grant() override;
  bool post(uint32_t bytes) override;

  enum class Kind : uint64_t { kData, kReceive, kCredit };
  static uint32_t number_of(uint64_t id) { return static_cast<uint32_t>(id >> 34); }
  static Kind kind_of(uint64_t id) { return static_cast<Kind>(id >> 32 & 3); }
  /// A completion of its own.
  void complete(uint64_t id, uint32_t immediate);

 private:
  std::byte* buffer() const override { return buffer_->data(); }
  void make_buffer(uint64_t bytes) override;
  uint64_t id(Kind kind, uint64_t k) const {
    return uint64_t{settings_.number} << 34 | static_cast<uint64_t>(kind) << 32 | (k & 0xffffffff);
  }
  unsigned parts() const {
    return settings_.split ? static_cast<unsigned>(qps_.size())
                           : static_cast<unsigned>(settings_.parts);
  }
  /// The queue pair of a message's part.
  size_t part(uint64_t k, unsigned part) const { return (k * parts() + part) % qps_.size(); }
  /// Of a queue pair, at either end.
  size_t own_device(size_t q) const { return q % devices_.size(); }
  size_t their_device(size_t q) const { return q % theirs_.gids.size(); }

  const std::deque<VerbsDevice>& devices_;
  Settings settings_;
  const CreditLayout& layout_;
  IbSide own_, theirs_;
  RegisteredMemory fifo_;                     ///< credits, that come or that go
  std::unique_ptr<RegisteredMemory> buffer_;  ///< of messages
  std::vector<VerbsQueuePair> qps_;
  std::vector<uint8_t> missing_ = std::vector<uint8_t>(kKept);  ///< completions of a message
};

/// All connections of a rank.
class VerbsAdapter final : public IbAdapter {
 public:
  /// `in_child`: its rank in the child whose connections these are.
  VerbsAdapter(const World& world, int rank, std::optional<int> in_child = std::nullopt);

  IbSide open(const Link& link) override;
  void connect(const IbSide& own, const IbSide& theirs) override;
  /// That has been made for this link.
  VerbsConnection& connection(const Link& link) { return *connections_.at(by_link_.at(link)); }
  /// Tells connections of their completions; false: there were none.
  bool poll();
  std::string text() const;

 private:
  bool poll(const VerbsDevice& device);

  const World& world_;
  const int rank_, number_;
  std::deque<VerbsDevice> devices_;  ///< of its NIC
  std::vector<std::unique_ptr<VerbsConnection>> connections_;
  std::map<uint32_t, uint32_t> by_qpn_;  ///< of their first queue pair, on the first device
  std::map<Link, uint32_t> by_link_;
};

}  // namespace understudy::nccl_rank
