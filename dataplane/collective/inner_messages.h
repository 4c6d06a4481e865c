// Messages among a job's emulated ranks on the network: each message and each credit is a flow
// (flow_traffic.h), which meets the packets of real ranks and of all others. The plan says when a
// message may leave and when its credit is granted; the network says when they come.
//
// With NCCL's port failover on (docs/nccl 3.15), what a device of a merged NIC could not deliver
// goes over another one, and so does all that comes behind it; a device is not used again. The delay
// of NCCL's probe is left out: it is short beside the timeouts before it.
//
// Messages of a connection take a few flows in turn, and so do its credits: what they need does not
// grow with the number of messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "dataplane/base/units.h"
#include "dataplane/collective/packet_level_ranks.h"
#include "dataplane/fabric/flow.h"
#include "dataplane/flows/flow_traffic.h"
#include "dataplane/nccl/message_parts.h"

namespace understudy {

/// A connection between two emulated ranks, for the data of one direction and, backwards, its
/// credits.
struct InnerConnection {
  MessageWays ways;
  uint32_t window = 8;  ///< messages in flight
};

/// Hears of the messages of a connection, by its position.
class InnerListener {
 public:
  virtual ~InnerListener() = default;
  /// The next message has come in whole; the next one that was sent is acknowledged.
  virtual void inner_received(uint32_t connection, Time now) = 0;
  virtual void inner_acknowledged(uint32_t connection, Time now) = 0;
  /// What was posted reaches its NIC at `at`: InnerMessages::reach(flow) then, in turn with what
  /// queue pairs of that NIC were asked to send.
  virtual void inner_reaches(uint32_t flow, Time at) = 0;
};

struct InnerCounters {
  uint64_t messages = 0;  ///< posted ...
  uint64_t received = 0;  ///< and come in whole
  uint64_t bytes = 0;     ///< of those posted
  uint64_t failed = 0;    ///< devices of connections' ends that were given up
  uint64_t repeated = 0;  ///< parts of messages, and credits, that went again over another one
};

/// NCCL's port failover among emulated ranks.
enum class InnerFailover : uint8_t {
  kNone,
  kOnce,   ///< of one device of a connection's end (2.30)
  kWhile,  ///< while one is left (2.29.7)
};

class InnerMessages final : public FlowListener {
 public:
  InnerMessages(std::vector<InnerConnection> connections, const PacketLevelRanksSettings& settings);
  /// Before the first event, and after forget() again.
  void listen(InnerListener& listener) { listener_ = &listener; }
  /// Before the first event.
  void fail_over(InnerFailover how) { failover_ = how; }
  /// Before the first event: others listen after these, so that close() leaves its flows open.
  void keep_open() { kept_open_ = true; }

  /// Appends the flows. Connections get numbers from `first_connection` on; gives the first free
  /// one.
  uint32_t add_flows(std::vector<FlowSpec>& flows, uint32_t first_connection);
  /// Before traffic.start(); these are the flows that were added, with a path each. `at_once`:
  /// messages leave as queue pairs' do, which stand in line with them (FlowTraffic::send).
  void attach(FlowTraffic& traffic, bool at_once);

  /// The connection's next message, of `bytes`, may leave now, once its credit has come.
  void post(uint32_t connection, uint64_t bytes, Time now);
  /// Its receiver grants the credit for the next one.
  void grant(uint32_t connection, Time now);
  /// As InnerListener::inner_reaches() asked for.
  void reach(uint32_t flow, Time now) {
    posted_[flow - first_flow_] = false;
    traffic_->reach(flow, now);
  }
  /// Nothing comes any more; what is under way still arrives.
  void close();
  /// Whoever listened is no more: what waits is dropped, and nothing is heard of what is under way,
  /// which still takes its room on links.
  void forget(Time now);

  size_t connections() const { return connections_.size(); }
  /// Of a connection, its parts; and the first flow of one of these.
  uint32_t parts(uint32_t connection) const { return ends_[connection].parts; }
  uint32_t first_flow(uint32_t connection, uint32_t part) const {
    return ends_[connection].lanes[part].first;
  }
  const InnerCounters& counters() const { return counters_; }

  // FlowListener
  void on_received(uint32_t flow, Time now) override;
  void on_acknowledged(uint32_t flow, Time now) override;
  void on_wake(uint32_t, Time) override {}
  bool on_given_up(uint32_t flow, Time now) override;

 private:
  /// A part of a message, or a credit.
  struct Piece {
    uint64_t bytes = 0;
    uint64_t number = 0;  ///< of its message, or of the credit
  };
  /// What waits, in order, for the flows that it takes in turn.
  struct Lane {
    uint32_t first = 0, count = 0;  ///< flows
    uint64_t left = 0;              ///< messages that have taken one
    std::vector<Piece> waiting;     ///< from waiting_at
    size_t waiting_at = 0;
    bool failed = false;
  };
  /// Of a connection over merged NICs.
  struct Split {
    std::deque<uint64_t> waiting;  ///< bytes of messages that have no credit
    WholeMessages received, acknowledged, credits;
  };
  struct Ends {
    std::vector<Lane> lanes;  ///< of data, by part, then of credits, in turn
    uint32_t parts = 1;
    uint64_t may_leave = 0;  ///< credits that have come and that no message has taken
    uint64_t granted = 0;
    uint64_t cut = 0;  ///< messages whose parts wait or have left
    std::unique_ptr<Split> split;
  };
  struct Owner {
    uint32_t connection = 0;
    uint32_t lane = 0;  ///< behind those of data: of credits
  };

  void make_split(Ends& ends) const;
  void add_lane(std::vector<FlowSpec>& flows, const FlowSpec& flow, uint32_t connection);
  static void wait(Lane& lane, const Piece& piece);
  static uint32_t lane_for(const Ends& ends, uint32_t lane);
  static uint32_t lanes_like(const Ends& ends, uint32_t lane, uint32_t& first);
  bool leave(Lane& lane, Time now);
  void send_data(Ends& ends, Time now);
  void send_parts(Ends& ends, Time now);
  void leave_all(Lane& lane, Time now);
  void credit_came(Ends& ends, uint64_t number, Time now);
  void acknowledged(uint32_t connection, uint64_t message, Time now);
  bool ours(uint32_t flow) const {
    return flow >= first_flow_ && flow < first_flow_ + owners_.size();
  }

  std::vector<InnerConnection> connections_;
  PacketLevelRanksSettings settings_;
  InnerListener* listener_ = nullptr;
  std::vector<Ends> ends_;
  std::vector<Owner> owners_;   ///< by flow, from first_flow_ on
  std::vector<bool> posted_;    ///< by flow: it has not reached its NIC yet
  std::vector<bool> stale_;     ///< by flow: it carries what was said before forget(), or given up
  std::vector<Piece> carried_;  ///< by flow: the newest piece that took it
  std::vector<bool> arrived_;   ///< by flow: and that has come
  InnerFailover failover_ = InnerFailover::kNone;
  uint32_t first_flow_ = 0;
  FlowTraffic* traffic_ = nullptr;
  bool at_once_ = false;
  InnerCounters counters_;
  bool closed_ = false, kept_open_ = false;
};

}  // namespace understudy
