// A shard's queue pairs by slot, and the numbers that name slots.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/base/big_array.h"
#include "dataplane/base/ids.h"
#include "dataplane/engine/state/link_ids.h"
#include "dataplane/engine/state/packet_pool.h"
#include "dataplane/engine/state/qp_control.h"
#include "dataplane/engine/state/shard_config.h"
#include "dataplane/node/datagram_qp.h"
#include "dataplane/node/endpoint.h"

namespace understudy {

inline constexpr uint32_t kNoSlot = 0xffffffff;

/// Queue pairs stand in a line for each class of what they send, and in one for ACKs, which go
/// before: hardware that receives sends them past the turns of what it was asked to send.
inline constexpr uint32_t kLines = kLinkClasses + 1, kAckLine = kLinkClasses;

/// What packets ask of a queue pair's slot: one cache line.
struct alignas(64) QpSlot {
  Qp* qp = nullptr;
  QpControl* control = nullptr;  ///< null: it sends as fast as its link allows
  Duration uncertainty;          ///< most of the arrivals of the message that is coming in
  Time timer = Time::never();    ///< earliest kTimer event outstanding
  uint32_t node = 0;             ///< position in the node table
  uint32_t real = 0;             ///< the same of its peer's NIC
  uint32_t generation = 0;       ///< queue pairs that had this slot before
  uint32_t next[kLines] = {};    ///< the slot behind it in the node's line ...
  bool queued[kLines] = {};      ///< ... where it waits
  bool datagrams = false;        ///< it takes these: `qp` is null
  bool wants_payload = true;     ///< contents of what it receives are needed
  bool wants_small = false;      ///< these of messages of one packet
  bool ack_pending = false;      ///< it is to be asked for an answer when this moment is over

  bool is_taken() const { return qp != nullptr || datagrams; }
};

/// The rest of it.
struct QpRest {
  Endpoint* endpoint = nullptr;
  DatagramQp* datagrams = nullptr;  ///< instead of a queue pair
  uint64_t turn = 0;                ///< when it came into line 0, in a network with switches
  Time last_cnp;                    ///< if cnp_sent
  uint32_t next_cnp = 0;            ///< the slot behind it among those whose CNP waits ...
  bool cnp_waits = false;           ///< ... for its node's link
  bool cnp_sent = false;
};

/// False once the packet's queue pair has been removed: what it refers to may be gone, and its
/// number may be another one's.
inline bool belongs(const Packet& packet, const QpSlot& slot) {
  return slot.generation == packet.owner;
}

class QpTable {
 public:
  explicit QpTable(const ShardConfig& config)
      : index_(config.index),
        queue_pairs_(config.queue_pairs),
        slots_(config.queue_pairs + config.nodes.nics().size()),
        rest_(slots_.size()),
        paused_(config.nodes.nics().size()) {
    for (uint32_t i = 0; i < config.nodes.nics().size(); ++i) slots_[finished_slot(i)].node = i;
  }

  QpSlot& operator[](uint32_t slot) { return slots_[slot]; }
  const QpSlot& operator[](uint32_t slot) const { return slots_[slot]; }
  QpRest& rest(uint32_t slot) { return rest_[slot]; }
  auto begin() const { return slots_.begin(); }
  auto end() const { return slots_.end(); }

  /// Local QPN of a slot: unique over all shards (design rule 3).
  Qpn qpn_of(uint32_t slot) const { return index_ << kQpnShardShift | (slot + kFirstQpn); }
  /// kNoSlot if no slot of this shard has this number.
  uint32_t slot_of(Qpn qpn) const {
    if (qpn >> kQpnShardShift != index_) return kNoSlot;
    const uint32_t slot = (qpn & ((1u << kQpnShardShift) - 1)) - kFirstQpn;
    return slot < queue_pairs_ ? slot : kNoSlot;
  }
  /// The slot under which finished frames of the node at this position stand in line.
  uint32_t finished_slot(uint32_t node) const { return queue_pairs_ + node; }
  /// The node at this position stands still: so do the timers of its queue pairs.
  void pause(uint32_t node, bool paused) { paused_[node] = paused ? 1 : 0; }
  bool is_paused(uint32_t node) const { return paused_[node] != 0; }
  /// How many PSNs a request stands for: a READ's are as many as its responses have.
  uint32_t psns_of(uint8_t opcode, uint32_t length, uint32_t slot) const {
    if (opcode_info(opcode).kind != OpKind::kReadRequest || length == 0) return 1;
    const uint32_t mtu = slots_[slot].qp->config().mtu;
    return static_cast<uint32_t>((uint64_t{length} + mtu - 1) / mtu);
  }

 private:
  uint32_t index_, queue_pairs_;
  BigArray<QpSlot> slots_;       ///< and behind those of queue pairs one for each node
  BigArray<QpRest> rest_;        ///< by slot
  std::vector<uint8_t> paused_;  ///< by node
};

}  // namespace understudy
