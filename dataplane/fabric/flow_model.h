// Flows as rates: each gets its max-min fair share of the links on its path as long as it has bytes
// to send. No packets, queues, losses or priorities; time goes from one flow's start or end to the
// next.
//
// A flow's wire bytes are its payload and what every packet of it adds. It has left when the sum of
// its rate over time is its wire bytes; it has come in, and flows that wait for it may start, when
// the latencies of its path have passed after that; where switches store and forward, also a full
// packet's (or the only one's) time on every link but the first. Flows of a connection leave one
// after another.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "dataplane/base/units.h"
#include "dataplane/fabric/flow.h"
#include "dataplane/fabric/graph.h"
#include "dataplane/fabric/max_min.h"

namespace understudy {

/// Who sends: a connection, or a flow that has none of its own.
struct FlowSenders {
  std::vector<std::vector<LinkId>> paths;  ///< by sender
  std::vector<uint32_t> of;                ///< by flow: its sender
};

struct FlowTimes {
  Time start = Time::never();     ///< never(): it has not begun
  Time received = Time::never();  ///< its last byte at the receiver
};

class FlowModel {
 public:
  /// Arguments but `changes` outlive this; links' outages are the graph's.
  FlowModel(const Graph& graph, const std::vector<FlowSpec>& flows, const FlowSenders& senders,
            const FlowSettings& frames, bool cut_through, std::vector<RateChange> changes = {});

  /// Until every flow has come in or nothing moves any more. `progress` is called now and then,
  /// `before` with the time of each event before it happens.
  void run(const std::function<void(const FlowModel&)>& progress = {},
           const std::function<void(Time)>& before = {});
  /// The same by hand: when something happens next, never() if nothing does, and that.
  Time next() const;
  void step();
  /// One that was not known before; its time is neither before now() nor after next().
  void change(const RateChange& change);

  const std::vector<FlowTimes>& times() const { return times_; }
  size_t finished() const { return finished_; }
  Time now() const { return now_; }
  uint64_t events() const { return events_; }
  const MaxMin& rates() const { return rates_; }
  /// Flows that leave now and their rates, in no order.
  std::vector<std::pair<uint32_t, MaxMin::Share>> leaving() const;
  /// What went over each link, by link: wire bytes of all flows that have left whole.
  std::vector<uint64_t> link_bytes() const;

 private:
  /// 2^-12 bit/s times 1 ps: what a share carries in a picosecond.
  using Work = unsigned __int128;
  static constexpr uint32_t kNone = 0xffffffff;

  struct Sender {
    uint32_t first = kNone, last = kNone;  ///< flows that have bytes to send, by next_
    Work left = 0;                         ///< of the first one, at `since`
    Time since;
    MaxMin::Share rate = 0;  ///< since then
    uint64_t bytes = 0;      ///< wire bytes of all that have left
    uint32_t place = kNone;  ///< in heap_
    bool active = false;     ///< known to rates_
  };
  /// A sender's first flow leaves at this time, if rates stay.
  struct Leaving {
    Time at;
    uint32_t sender;
    bool operator<(const Leaving& o) const { return at != o.at ? at < o.at : sender < o.sender; }
  };
  struct Start {
    Time at;
    uint32_t flow;
    bool operator>(const Start& o) const { return at != o.at ? at > o.at : flow > o.flow; }
  };

  struct Change {
    RateChange to;
    int down = 0;  ///< 1: an outage begins, -1: one ends
  };

  uint64_t wire_bytes(uint64_t payload) const;
  Duration path_time(uint32_t sender, uint64_t wire_bytes) const;
  void begin(uint32_t flow);
  void begin_next(uint32_t sender);
  void leave(uint32_t sender);
  void received(uint32_t flow, Time at);
  void apply(const Change& change);
  void settle();
  void plan(uint32_t sender);
  // heap_: a heap of senders by the time at which their first flow leaves.
  void put(size_t at, const Leaving& leaving);
  void sift(size_t at, const Leaving& leaving);
  void schedule(uint32_t sender, Time at);
  void unschedule(uint32_t sender);

  const FlowSenders& routes_;
  const FlowSettings& frames_;
  const bool cut_through_;
  MaxMin rates_;
  // By link.
  std::vector<MaxMin::Share> capacity_;  ///< while it is up
  std::vector<uint32_t> down_;           ///< outages that hold now
  std::vector<Duration> latency_;
  // By flow.
  std::vector<uint64_t> wire_bytes_;
  std::vector<Duration> offset_;     ///< its FlowSpec's start
  std::vector<uint32_t> next_;       ///< the one behind it in its sender's list
  std::vector<uint32_t> waits_for_;  ///< flows that have to come in before it starts
  std::vector<Time> ready_;          ///< when the last of those that have came in
  std::vector<uint32_t> first_follower_, followers_;  ///< flows that wait for it
  std::vector<FlowTimes> times_;

  std::vector<Sender> senders_;
  std::vector<Leaving> heap_;
  std::vector<uint32_t> idle_;  ///< senders whose last flow has just left
  std::priority_queue<Start, std::vector<Start>, std::greater<>> starts_;
  std::vector<Change> changes_;  ///< by time
  size_t next_change_ = 0;
  Time now_;
  size_t finished_ = 0;
  uint64_t events_ = 0;
};

}  // namespace understudy
