// The language between control and a shard: plain structs over two single-producer queues, with an
// effective time and a sequence number, acknowledged in order of execution (design rule 4).
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/base/ids.h"
#include "dataplane/base/spsc_chain.h"
#include "dataplane/base/units.h"
#include "dataplane/engine/state/counters.h"
#include "dataplane/engine/state/port_pfc.h"
#include "dataplane/engine/state/qp_control.h"
#include "dataplane/fabric/deadlock.h"
#include "dataplane/fabric/faults.h"
#include "dataplane/fabric/network.h"
#include "dataplane/node/datagram_qp.h"
#include "dataplane/node/endpoint.h"

namespace understudy {

enum class CommandKind : uint8_t {
  kAddQp,          ///< `qp`, `endpoint`, and `control` if it has one
  kAddDatagramQp,  ///< `datagrams`
  kRemoveQp,       ///< `qpn`, of either kind
  kModifyQp,       ///< `qpn`, `state`
  kAddRegion,      ///< `region_index`, `region`
  kRemoveRegion,   ///< `region_index`
  kSetLink,        ///< `change`, of its link, or without one of all links of `node`
  kSetTraffic,     ///< flows of `group` go on, or stop: `running`
  kSendDatagram,   ///< `node`, `datagram`: from QP1
  kReach,  ///< is the real NIC's MAC known? `node` asks for it from and to `datagram`'s addresses
  kWakeEndpoint,  ///< `endpoint`->on_wake(effective, cookie): install a plan, start a job
  kForget,        ///< no wake-up comes to `endpoints` any more; their queue pairs are gone
  kSnapshot,      ///< copies counters into `snapshot`
  kCountRc,       ///< those of the queue pairs to port `port` only, into `rc`
  kFindDeadlock,  ///< `deadlock`->find(), if a pause has lasted for a second
  kLookAtFlows,   ///< how those of the network fare, into `flows`
};

/// Counters of one shard at one moment; memory belongs to control.
struct ShardSnapshot {
  Time at;
  ShardCounters counters;
  PortPfcCounters pfc;
  // All sized by Shard::fit().
  std::vector<LinkCounters> up, down;        ///< by position in the node table
  std::vector<FaultCounters> faults;         ///< by position in the list of faults
  std::vector<NetworkLinkCounters> network;  ///< by link, if there are switches; then no up, down
  std::vector<ControlCounters> controls;     ///< by user of congestion control
};

/// A datagram from one QP1 to another. Stays control's property until the command's answer.
struct Datagram {
  RoceAddressing addressing;  ///< an unset destination MAC is the real NIC's
  std::vector<uint8_t> bytes;
};

struct Command {
  CommandKind kind = CommandKind::kSnapshot;
  bool needs_payload = true;  ///< kAddQp: contents of what arrives are looked at
  bool needs_small = false;   ///< kAddQp: these of messages of one packet
  QpState state = QpState::kError;
  bool running = false;
  uint32_t port = 0;
  uint64_t sequence = 0;
  Time effective;    ///< executed when the shard's time reaches it; zero: at once
  Qp* qp = nullptr;  ///< stays control's property; destroyed by it after kRemoveQp's answer
  DatagramQp* datagrams = nullptr;  ///< the same of kAddDatagramQp
  Endpoint* endpoint = nullptr;
  QpControl* control = nullptr;  ///< of `qp`, as long as it
  Qpn qpn = 0;
  uint32_t region_index = 0;
  Region region;
  NodeId node = kNoNode;
  uint32_t group = 0;
  RateChange change;
  uint64_t cookie = 0;
  /// By `kind`: what it brings, or where its answer goes.
  union {
    ShardSnapshot* snapshot = nullptr;
    RcCounters* rc;
    const Datagram* datagram;
    DeadlockSearch* deadlock;
    FlowsLook* flows;
    const std::vector<const Endpoint*>* endpoints;  ///< ascending
  };
};

enum class ReplyStatus : uint8_t {
  kDone,
  kNoSuchObject,
  kTableFull,
  kNotAllowed,
  kUnresolved,  ///< the real NIC's MAC is not known yet, and is being asked for
};

struct Reply {
  uint64_t sequence = 0;
  ReplyStatus status = ReplyStatus::kDone;
  Time at;  ///< when it was executed
};

/// Both directions. Control gives the room for a command and for its reply, so that the shard needs
/// none where a run's set-up comes at once, and a reply is never lost.
class CommandQueue {
 public:
  /// Control only.
  void push(const Command& command) {
    replies.make_room();
    commands.make_room();
    commands.push(command);
  }

  SpscChain<Command> commands;  ///< to be read by the shard
  SpscChain<Reply> replies;     ///< to be read by control
};

}  // namespace understudy
