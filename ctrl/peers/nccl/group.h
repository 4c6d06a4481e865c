// The emulated ranks of one communicator, the first or one that was split off it: its ring, what
// its all-gathers are about, messages from real ranks, children.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ctrl/peers/nccl/bootstrap/frames.h"
#include "ctrl/peers/nccl/bootstrap/rank_barrier.h"
#include "ctrl/peers/nccl/bootstrap/ring_gather.h"
#include "ctrl/peers/nccl/bootstrap/slices.h"
#include "ctrl/peers/nccl/bootstrap/split_rule.h"
#include "ctrl/peers/nccl/communicator.h"
#include "ctrl/peers/nccl/transport/one_sided.h"
#include "ctrl/peers/nccl/transport/transport_setup.h"

namespace understudy {

class NcclGroup;

/// What a communicator needs of the sockets around it. Emulated ranks by their numbers in the first
/// communicator.
class NcclGroupUser {
 public:
  virtual ~NcclGroupUser() = default;
  /// Where the emulated rank listens for messages of this communicator, and for its ring.
  virtual SocketAddress address(const NcclGroup& group, uint32_t rank) = 0;
  /// Connects, sends, closes.
  virtual void send_once(uint32_t rank, const SocketAddress& to, std::vector<uint8_t> bytes,
                         std::string what) = 0;
  virtual void ring_send(NcclGroup& group, size_t segment, bool to_first,
                         std::span<const uint8_t> bytes) = 0;
  virtual void say(const std::string& line) = 0;
  virtual void failed(const std::string& why) = 0;
  /// What the configuration says of the next child that a communicator of these begins, if it says
  /// anything.
  virtual std::optional<RankPartition> configured_child() = 0;
  /// That need not fit.
  virtual bool expects_children() const = 0;
  /// Real and emulated ranks have agreed on a child, in the order of its ranks. `made_by`: NCCL's
  /// function; `reason`: why these are its ranks.
  virtual void child(NcclGroup& parent, std::vector<NcclMember> members, std::string made_by,
                     std::string reason) = 0;
  /// A real rank told an emulated one the child's ring address. False: nothing waits for it.
  virtual bool child_ring(NcclGroup& parent, uint32_t real, uint32_t emulated,
                          const SocketAddress& ring) = 0;
};

struct NcclGroupSettings {
  uint32_t number = 0;
  NcclVersion version;
  uint64_t magic = 0;  ///< 0: not known yet
  uint64_t seed = 1;
  bool child = false;
};

class NcclGroup : RingGatherUser, TransportSetupUser, OneSidedUser {
 public:
  NcclGroup(NcclGroupSettings settings, std::vector<NcclMember> members, NcclHost& host,
            NcclGroupUser& user);

  const NcclGroupSettings& settings() const { return settings_; }
  const BootstrapLayout& layout() const { return *layout_; }
  const std::vector<NcclMember>& members() const { return members_; }
  const std::vector<RingSegment>& segments() const { return shape_.segments(); }
  RingGather& ring() { return ring_; }
  void set_magic(uint64_t magic) { settings_.magic = magic; }
  /// " of communicator 3", empty for the first.
  std::string name() const;

  void ring_event(size_t segment, bool from_first, const FrameReader::Event& event);
  void message(uint32_t from, uint32_t to, uint32_t tag, std::span<const uint8_t> payload);
  void connector_ready(const NcclConnector& connector) {
    if (!one_sided_.ready(connector)) setup_.ready(*layout_, connector);
  }
  void relayed(const NcclConnector& connector, std::span<const uint8_t> bytes) {
    one_sided_.relayed(connector, bytes);
  }
  bool connecting(const NcclConnector& connector) const {
    return setup_.connecting(connector) || one_sided_.connecting(connector);
  }
  void disconnect() {
    setup_.disconnect();
    one_sided_.disconnect();
  }
  uint32_t search_channels() const { return edges_.search_channels(*layout_); }

  /// A message from an emulated rank to a real one, by the header of the release.
  void send(uint32_t from, uint32_t to, uint32_t tag, std::span<const uint8_t> payload);
  /// allGatherInfo and all that began since are through, on this segment's ends and with this real
  /// rank: others may still be at it.
  bool at_rest(size_t segment, uint32_t real) const {
    return set_up_ && ring_.at_rest(segment) && !setup_.open_with(real) && !one_sided_.under_way();
  }
  /// Lines about what is waited for once the ring stands.
  void waiting(std::vector<std::string>& lines) const;

 private:
  bool gather_begins(uint64_t gather, uint32_t rank, uint32_t size) override;
  bool copies(uint64_t gather) override;
  bool follows_all(uint64_t gather) override { return splits_.contains(gather); }
  void append_slice(uint64_t gather, uint32_t rank, std::span<const uint8_t> model,
                    std::vector<uint8_t>& to) override;
  void slice_came(uint64_t gather, uint32_t rank, std::span<const uint8_t> slice) override;
  void gather_came(uint64_t gather) override;
  void ring_send(size_t segment, bool to_first, std::span<const uint8_t> bytes) override;
  void ring_failed(const std::string& why) override { user_.failed(why + name()); }
  void answer(const NcclMessage& message) override;
  void setup_failed(const std::string& why) override { user_.failed(why + name()); }
  void one_sided_failed(const std::string& why) override { user_.failed(why + name()); }

  /// Of one-sided operations; nothing: it is of other things.
  std::optional<GatherKind> one_sided_gather(uint32_t size);
  /// What the next all-gather is, by its size and those before it.
  std::optional<GatherKind> classify(uint32_t rank, uint32_t size);
  std::nullopt_t refuse_size(uint32_t rank, uint32_t size, const std::string& what,
                             uint32_t expected, const std::string& releases);
  void address_came(uint32_t rank, std::span<const uint8_t> slice);
  void split_came(SplitRule& split);
  struct ChildRing {
    uint32_t real = 0, emulated = 0;
    SocketAddress ring;
  };
  void child_ring_came(const ChildRing& c);
  void sort_early();
  void shrink(const ChildRing& c);
  std::vector<NcclMember> members_at(const std::vector<uint32_t>& ranks) const;

  NcclGroupSettings settings_;
  std::vector<NcclMember> members_;
  NcclGroupUser& user_;
  const BootstrapLayout* layout_;
  RingShape shape_;
  RingGather ring_;
  NcclSlices slices_;
  GraphEdges edges_;
  TransportSetup setup_;
  OneSided one_sided_;
  std::map<uint32_t, RankBarrier> barriers_;  ///< by tag

  std::map<uint64_t, GatherKind> kinds_;  ///< of the latest all-gathers
  GatherKind last_ = GatherKind::kOther;
  bool set_up_ = false;                                    ///< allGatherInfo has begun
  std::map<uint64_t, std::shared_ptr<SplitRule>> splits_;  ///< by all-gather, as kinds_
  std::map<uint32_t, SocketAddress> real_addresses_;
  struct Unsent {
    uint32_t from = 0, to = 0, tag = 0;
    std::vector<uint8_t> payload;
  };
  std::vector<Unsent> unsent_;    ///< to real ranks whose addresses are still on their way
  std::vector<ChildRing> early_;  ///< came while an all-gather was under way
  std::map<uint32_t, uint32_t> other_sizes_;  ///< all-gathers copied unchanged, told once a size
};

const char* gather_name(GatherKind kind);
/// Of messages with the address of a child's ring.
uint32_t split_tag(const BootstrapLayout& layout);

}  // namespace understudy
