// Flows as rates: each gets its max-min fair share of the links on its path as long as it has bytes
// to send. No packets, queues, losses or priorities; time goes from one flow's start or end to the
// next.
//
// A flow's wire bytes are its payload and what every packet of it adds. It has left when the sum of
// its rate over time is its wire bytes; it has come in, and flows that wait for it may start, when
// the latencies of its path have passed after that; where switches store and forward, also a full
// packet's (or the only one's) time on every link but the first. Flows of a connection leave one
// after another.
//
// A flow that is held (flow_carrier.h) starts when it is released, and its listeners hear when it
// has come in, and when its acknowledgement has come back over the reverse path.
//
// Of held flows it matters that links carry one packet after another (flow_model_short.cc). Single
// packets, and acknowledgements, go from link to link behind others of their kind, and behind the
// packet of a longer flow that is on the link just then; what starts at a NIC begins behind them. Where
// several flows leave at one moment that share the first or the last link of their ways, the last
// packet of each is one in front of the next one's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "dataplane/base/units.h"
#include "dataplane/fabric/flow.h"
#include "dataplane/fabric/graph.h"
#include "dataplane/fabric/recoveries.h"
#include "dataplane/fabric/routes.h"
#include "dataplane/flows/flow_carrier.h"
#include "dataplane/flows/flow_groups.h"
#include "dataplane/flows/max_min.h"

namespace understudy {

/// never() where it would be beyond all times.
inline Time later(Time time, Duration by) {
  if (by.ps() > 0 && time.ps() > INT64_MAX - by.ps()) return Time::never();
  return time + by;
}

/// Who sends: a connection, or a flow that has none of its own.
struct FlowSenders {
  /// Whose path is the routing's choice, which may change its mind.
  struct Ends {
    VertexId from = kNoVertex, to = kNoVertex;  ///< kNoVertex: the path is given
    uint64_t hash = 0;
  };
  std::vector<std::vector<LinkId>> paths;  ///< by sender
  std::vector<uint32_t> of;                ///< by flow: its sender
  std::vector<Ends> ends;                  ///< by sender; empty: all paths are given
};

struct FlowTimes {
  Time start = Time::never();     ///< never(): it has not begun
  Time received = Time::never();  ///< its last byte at the receiver
};

class FlowModel final : public FlowCarrier {
 public:
  /// Arguments but `changes` outlive this; links' outages are the graph's.
  FlowModel(const Graph& graph, const std::vector<FlowSpec>& flows, const FlowSenders& senders,
            const FlowSettings& frames, bool cut_through,
            const std::vector<RateChange>& changes = {},
            const std::vector<GroupChange>& group_changes = {});

  /// Before start(): senders whose path is the routing's choice take another one when a link has
  /// been down for `after`, and choose again when it has been up for so long. Without a way they
  /// wait.
  void reroute_after(Duration after, Routes routes);
  /// Before the first event: flows that wait for nothing get their times.
  void start();
  /// When something happens next, never() if nothing does, and that.
  Time next() const;
  void step();
  /// One that was not known before; its time is neither before now() nor after next().
  void change(const RateChange& change);
  void change(const GroupChange& change);
  /// One that comes later, after all of its time that are known.
  void plan(const RateChange& change) { plan(Change{change}); }
  void plan(const GroupChange& change) { plan(Change{{.at = change.at}, 0, change}); }

  // FlowCarrier. Listeners hear of flows that are held only.
  void hold(uint32_t flow) override;
  void listen(FlowListener& listener) override { listeners_.push_back(&listener); }
  void release(uint32_t flow, Time at) override;
  void wake_listener(Time at, uint32_t index) override {
    calls_.push({at, Call::kWake, called_++, index});
  }

  const std::vector<FlowTimes>& times() const { return times_; }
  size_t finished() const { return finished_; }
  /// How many flows that have not ended stand still, for they were stopped.
  size_t stopped() const { return groups_.stopped(); }
  /// Nothing comes through this link now.
  bool is_closed(LinkId link) const { return down_[link] != 0 || closed_[link] != 0; }
  const std::vector<FlowSpec>& specs() const { return specs_; }
  /// Its routing leaves out links that are down.
  bool reacts() const { return reaction_ != nullptr; }
  /// The flow's path is the routing's choice.
  bool is_routed(uint32_t flow) const {
    return !routes_.ends.empty() && routes_.ends[routes_.of[flow]].to != kNoVertex;
  }
  /// What became of the outages that changes have begun, by number: a sender is stopped when its
  /// rate becomes zero, and flows again when it is above zero.
  const std::vector<Recovery>& recoveries() const { return recoveries_; }
  /// Flows that have begun and do not leave, though nobody has stopped them.
  std::vector<uint32_t> stuck() const;
  /// The links that the sender of a flow takes now; empty: there is no way.
  std::span<const LinkId> path(uint32_t flow) const {
    const uint32_t sender = routes_.of[flow];
    return senders_[sender].cut_off ? std::span<const LinkId>() : rates_.path(sender);
  }
  Time now() const { return now_; }
  uint64_t events() const { return events_; }
  const MaxMin& rates() const { return rates_; }
  /// Of a flow now; zero bits: it does not leave.
  Rate rate(uint32_t flow) const;
  /// Flows that leave now and their rates, in no order.
  std::vector<std::pair<uint32_t, MaxMin::Share>> leaving() const;
  /// What went over each link, by link: wire bytes of all flows that have left whole.
  std::vector<uint64_t> link_bytes() const;

 private:
  /// 2^-12 bit/s times 1 ps: what a share carries in a picosecond.
  using Work = unsigned __int128;
  static constexpr uint32_t kNone = 0xffffffff;
  static constexpr uint8_t kDown = 1, kPaused = 2, kFromDead = 4, kToDead = 8,
                           kStorm = 16;  ///< in closed_

  struct Sender {
    uint32_t first = kNone, last = kNone;  ///< flows that have bytes to send, by next_
    Work left = 0;                         ///< of the first one, at `since`
    Time since;
    Time begun;                   ///< the first one
    MaxMin::Share rate = 0;       ///< since `since`
    uint64_t bytes = 0;           ///< wire bytes of all that have left, since it has its path
    uint64_t elsewhere = 0;       ///< of the first one, that left by another path
    uint32_t place = kNone;       ///< in heap_
    uint32_t others = 0;          ///< 1: in others_
    bool active = false;          ///< known to rates_
    bool stopped = false;         ///< with its group
    bool cut_off = false;         ///< there is no way
    uint32_t outage = kNoOutage;  ///< that has stopped it
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
    uint32_t order;  ///< at one moment: of flows that somebody hears of their connection's number
    bool operator>(const Start& o) const {
      if (at != o.at) return at > o.at;
      return order != o.order ? order > o.order : flow > o.flow;
    }
  };

  /// Of a listener. At one moment flows come in before anybody wakes; then in the order in which it
  /// became known.
  struct Call {
    enum Kind : uint8_t { kReceived, kAcknowledged, kWake };
    Time at;
    Kind kind;
    uint64_t number;
    uint32_t index;  ///< of a flow, or a wake-up
    bool operator>(const Call& o) const {
      if (at != o.at) return at > o.at;
      if ((kind == kWake) != (o.kind == kWake)) return kind == kWake;
      return number > o.number;
    }
  };

  struct Change {
    RateChange to;
    int down = 0;  ///< 1: an outage begins, -1: one ends
    GroupChange group = {};
  };

  /// A flow of a listener that leaves now.
  struct Left {
    LinkId first = kNoLink, last = kNoLink;  ///< of its way
    uint32_t sender = 0, flow = 0;
    Duration behind;    ///< what its last packet waits for behind others further on
    Duration in_front;  ///< of now, when its last packet left
  };

  /// A single packet, or an acknowledgement, reaches the next link of its way.
  struct Crossing {
    Time at;
    uint64_t number;
    uint32_t flow;
    uint32_t hop;
    bool acknowledges;
    bool operator>(const Crossing& o) const { return at != o.at ? at > o.at : number > o.number; }
  };
  /// Packets of a longer flow, as they come over a link.
  struct Stream {
    Time from;            ///< the first one's begin
    Time to;              ///< the last one's end; never(): it has not left
    Duration apart;       ///< from one packet to the next; of one that has not left by its rate now
    Duration offset;      ///< from its first link
    uint32_t sender = 0;  ///< while it has not left
    Duration behind;      ///< single packets that were let in between, in all
  };

  uint64_t wire_bytes(const FlowSpec& flow) const;
  Duration path_time(uint32_t sender, uint64_t wire_bytes) const;
  MaxMin::Share capacity_of(LinkId link, Rate rate) const;
  Duration on_link(LinkId link, uint64_t bytes) const;
  /// What the NIC takes for messages where a flow begins, and where it ends; an ideal one's.
  const NicLimits& nic_from(uint32_t flow) const {
    return nics_.empty() ? ideal_ : nics_[specs_[flow].from];
  }
  const NicLimits& nic_to(uint32_t flow) const {
    return nics_.empty() ? ideal_ : nics_[specs_[flow].to];
  }
  void come_to_nic(uint32_t flow, Time at);
  void start_at(Time at, uint32_t flow);
  bool is_short(uint32_t flow) const;
  bool crosses_alone(uint32_t flow);
  void cross_from_front(uint32_t sender);
  void cross_all();
  void cross(const Crossing& crossing);
  Time link_free(LinkId link, Time at);
  void note_stream(uint32_t sender);
  void drop_stream(uint32_t sender);
  Duration end_stream(uint32_t sender, uint64_t bytes);
  void push_back(LinkId link, Time at, Duration by);
  bool waits_in_line(uint32_t flow);
  void begin(uint32_t flow);
  void note_outage(const RateChange& change);
  void note_rate(Sender& sender, MaxMin::Share rate);
  void begin_next(uint32_t sender);
  void activate(uint32_t sender);
  void count(uint32_t sender, uint32_t others);
  void start_by_clock(uint32_t flow, Time due);
  void leave(uint32_t sender);
  void come_in();
  void put_in_front(std::span<Left> flows, LinkId link);
  void received(uint32_t flow, Time at);
  void call(const Call& call);
  void apply(const Change& change);
  void apply(const GroupChange& change);
  void plan(Change change);
  bool is_down(LinkId link) const;
  void await_reroute(LinkId link, Time changed);
  void reroute();
  void move(uint32_t sender);
  void rest(uint32_t sender);
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
  std::vector<Rate> rate_;               ///< while it is up ...
  std::vector<PacketLimits> limits_;     ///< ... its NIC's ...
  std::vector<MaxMin::Share> capacity_;  ///< ... and what both leave to full packets
  std::vector<uint32_t> down_;           ///< outages that hold now
  std::vector<uint8_t> closed_;          ///< by changes of the link: kDown ...
  std::vector<Duration> latency_;
  std::vector<NicLimits> nics_;  ///< by vertex; empty: none delays anything
  const NicLimits ideal_;
  // By flow.
  std::vector<uint64_t> wire_bytes_;
  std::vector<Duration> offset_;                      ///< its FlowSpec's start
  std::vector<uint32_t> next_;                        ///< the one behind it in its sender's list
  std::vector<uint32_t> waits_for_;                   ///< flows and releases that it waits for
  std::vector<bool> heard_;                           ///< listeners hear of it
  std::vector<Time> ready_;                           ///< when the last of those that have came in
  std::vector<uint32_t> first_follower_, followers_;  ///< flows that wait for it
  std::vector<FlowTimes> times_;
  std::vector<Time> due_;   ///< of those in groups: by the group's clock, when it starts
  std::vector<bool> held_;  ///< until the group goes on
  const std::vector<FlowSpec>& specs_;
  FlowGroups groups_;

  std::vector<Sender> senders_;
  std::vector<Leaving> heap_;
  std::vector<uint32_t> idle_;  ///< senders whose last flow has just left
  std::vector<Left> left_;
  std::vector<Time> line_;  ///< by link: single packets of held flows are on it until then
  std::vector<std::vector<Stream>> streams_;  ///< by link: longer held flows that are or were on it
  std::vector<uint32_t> others_;              ///< by link: senders on it that nobody hears of
  std::priority_queue<Crossing, std::vector<Crossing>, std::greater<>> crossings_;
  uint64_t crossed_ = 0;
  std::vector<bool> has_place_;  ///< by flow: in a line
  std::priority_queue<Start, std::vector<Start>, std::greater<>> starts_;
  std::vector<FlowListener*> listeners_;
  std::priority_queue<Call, std::vector<Call>, std::greater<>> calls_;
  uint64_t called_ = 0;
  /// A routing that reacts. findings: links that have changed, by the time when it will find out,
  /// if they stay so until then.
  struct Reaction {
    Duration after;
    Routes routes;
    std::multimap<Time, LinkId> findings;
    std::vector<Time> moved;          ///< by link: when it went down or came up last
    std::vector<bool> left_out;       ///< by link: paths avoid it
    std::vector<uint32_t> outage_of;  ///< by link: the last one
    std::vector<uint64_t> carried;    ///< by link: wire bytes of senders that have left it
  };
  std::unique_ptr<Reaction> reaction_;
  std::vector<Recovery> recoveries_;
  uint32_t last_outage_ = kNoOutage;
  std::vector<Change> changes_;  ///< by time
  size_t next_change_ = 0;
  Time now_;
  size_t finished_ = 0;
  uint64_t events_ = 0;
};

}  // namespace understudy
