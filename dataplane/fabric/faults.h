// Faults injected into RoCE packets on purpose: which packets a fault concerns, and what becomes of
// them. Pure: facts about a packet and a time go in, a verdict comes out; equal configuration, seed
// and packets give equal verdicts. The engine carries them out (engine/send/fault_path.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dataplane/base/ids.h"
#include "dataplane/base/units.h"
#include "dataplane/wire/opcodes.h"

namespace understudy {

enum class FaultDirection : uint8_t { kToReal, kFromReal, kBoth };
enum class FaultAction : uint8_t { kDrop, kDuplicate, kReorder, kDelay, kCorrupt, kMarkCe };
/// Kinds of packets that a fault may be limited to.
enum class FaultPackets : uint8_t {
  kAny,
  kRequest,
  kResponse,
  kSend,
  kWrite,
  kRead,
  kAtomic,
  kReadResponse,
  kAtomicResponse,
  kAck,
  kNak,
  kRnr,
  kCnp,
  kUd
};

struct Fault {
  static constexpr uint64_t kAlways = uint64_t{1} << 32;

  FaultAction action = FaultAction::kDrop;
  // A packet matches if all of these hold.
  FaultDirection direction = FaultDirection::kBoth;
  NodeId node = kNoNode;    ///< the emulated end; kNoNode: any
  uint32_t queue_pair = 0;  ///< the node's first, second ... queue pair since the start; 0: any
  FaultPackets packets = FaultPackets::kAny;
  std::optional<uint32_t> psn;  ///< counted from the first PSN of the connection
  uint32_t round = 0;           ///< 1: sent for the first time, 2: once more, ...; 0: any
  Time from, to = Time::never();
  // Of those that match, all of these choose.
  uint64_t nth = 0;                ///< the n-th one only; 0: any
  uint64_t every = 1;              ///< each n-th one
  uint64_t probability = kAlways;  ///< in units of 2^-32
  uint64_t most = UINT64_MAX;      ///< acts no more often than this
  // How it acts.
  uint32_t count = 1;      ///< kDuplicate: copies; kReorder: packets that go first
  Duration delay;          ///< kDelay; kDuplicate: of the copies; kReorder: longest wait
  bool good_icrc = false;  ///< kCorrupt: the ICRC is made to fit
};

struct FaultCounters {
  uint64_t matched = 0;  ///< packets that it concerns
  uint64_t acted = 0;    ///< times it was carried out
  uint64_t skipped = 0;  ///< times it could not be, for want of room
};

/// What a fault can tell packets apart by.
struct FaultFacts {
  bool to_real = false;
  uint32_t slot = 0;  ///< of the queue pair, or FaultInjector::datagram_slot(), unknown_slot()
  uint8_t opcode = 0;
  uint8_t syndrome = 0;  ///< AETH
  Psn psn;
  uint32_t psns = 1;  ///< a READ request stands for those of its responses
};

struct FaultVerdict {
  static constexpr uint32_t kNone = 0xffffffff;
  struct Act {
    uint32_t fault = kNone;  ///< position in the list of faults
    bool any() const { return fault != kNone; }
  };
  Act drop, duplicate, reorder, corrupt;
  Duration delay;
  bool mark_ce = false;
  uint64_t damage = 0;  ///< random bits that say where kCorrupt strikes
};

class FaultInjector {
 public:
  /// `nodes`: by position; `queue_pairs`: slots that facts may name.
  FaultInjector(std::vector<Fault> faults, uint64_t seed, std::vector<NodeId> nodes,
                uint32_t queue_pairs);

  bool active() const { return !faults_.empty(); }
  const std::vector<Fault>& faults() const { return faults_; }
  const std::vector<FaultCounters>& counters() const { return counters_; }

  /// The slot that stands for the datagrams (QP1) of the node at this position.
  uint32_t datagram_slot(uint32_t position) const { return queue_pairs_ + position; }
  /// The slot that stands for all queue pairs of which nothing is known: faults that name a node, a
  /// queue pair, a PSN or a round do not concern their packets.
  uint32_t unknown_slot() const { return queue_pairs_ + static_cast<uint32_t>(nodes_.size()); }

  /// A queue pair of the node at this position begins in `slot`, with these first PSNs.
  void on_new_qp(uint32_t slot, uint32_t position, Psn first_sent, Psn first_expected);
  /// What becomes of a packet. Faults act in their order; one that is dropped meets no later ones.
  FaultVerdict judge(const FaultFacts& packet, Time now);
  /// `fault` could not be carried out.
  void skip(FaultVerdict::Act act);

 private:
  /// One direction of requests or of their answers.
  struct Stream {
    Psn first, newest, last;
    uint32_t round = 0;  ///< 0: nothing came yet
  };
  struct QueuePair {
    NodeId node = kNoNode;
    uint32_t ordinal = 0;
    Stream streams[4];
  };

  bool matches(const Fault& fault, const FaultFacts& packet, const QueuePair& qp,
               const Stream& stream, Time now) const;
  bool chosen(size_t fault);

  std::vector<Fault> faults_;
  std::vector<FaultCounters> counters_;
  std::vector<uint64_t> keys_;  ///< of each fault's random numbers
  std::vector<NodeId> nodes_;
  std::vector<uint32_t> ordinals_;  ///< by position of the node: its queue pairs so far
  uint32_t queue_pairs_ = 0;
  std::vector<QueuePair> qps_;  ///< and behind them the nodes' datagrams, and the unknown ones
};

}  // namespace understudy
