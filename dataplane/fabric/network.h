// Packets in the emulated network: NICs at its edge, links, and switches with queues, a shared
// buffer, ECN and PFC in between. It has no clock: time comes with the calls, and its calendar says
// when it wants the next one. Who sits at the NICs is a NetworkEnds.
//
// A link's wire is idle or sends one packet. Behind a NIC it pulls the next packet from the ends
// when it is idle; behind a switch it takes one from its queues. PFC frames go before all others.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/base/units.h"
#include "dataplane/cc/controller.h"
#include "dataplane/fabric/event_lanes.h"
#include "dataplane/fabric/graph.h"
#include "dataplane/fabric/queue_settings.h"
#include "dataplane/fabric/recoveries.h"
#include "dataplane/fabric/routing.h"
#include "dataplane/fabric/shared_buffer.h"
#include "dataplane/fabric/wire.h"
#include "dataplane/fabric/wire_faults.h"

namespace understudy {

using PacketId = uint32_t;
inline constexpr PacketId kNoPacketId = 0xffffffff;

/// One cache line.
struct alignas(64) NetPacket {
  Way way;  ///< where it goes to, and the link on which it is
  uint8_t priority = 0;
  bool ect : 1 = false, ce : 1 = false;
  bool telemetry : 1 = false;   ///< switches write into it
  bool tells_ce : 1 = false;    ///< the ends': an acknowledgement of a packet with a CE mark
  uint8_t epoch : 4 = 0;        ///< of Recoveries, when it left its NIC
  uint8_t kind = 0;             ///< the ends'
  uint32_t wire_bytes = 0;      ///< as links count: with Ethernet's overhead
  uint32_t buffer_bytes = 0;    ///< as queues and buffers count
  PacketId next = kNoPacketId;  ///< the network's, while it waits
  Time head, tail;              ///< when its first and last bytes are where it is
  // The ends' own:
  Time sent;
  uint32_t flow = 0;
  uint32_t number = 0;
};
static_assert(sizeof(NetPacket) == 64);

/// In-band telemetry of one packet.
struct TelemetryRecord {
  static constexpr size_t kMostHops = 8;
  std::array<IntHop, kMostHops> hops;
  uint8_t count = 0;
};

class Network;

class NetworkEnds {
 public:
  virtual ~NetworkEnds() = default;
  /// The wire of a NIC's link is idle: the packet that goes next, taken from the network's pool, or
  /// kNoPacketId. Classes in `blocked` have been paused. Its head and tail stay unset, or say when
  /// it came in from outside over a wire that is a part of this link.
  virtual PacketId pull(LinkId nic, uint8_t blocked, Time now) = 0;
  /// A packet has come in whole at its last NIC, or, behind a link that leads outside, begins to.
  /// It is given back by release().
  virtual void deliver(PacketId packet, Time now) = 0;
  /// A packet is lost; it is given back when this returns.
  virtual void lost(PacketId packet, PacketLoss why, Time now) = 0;
  /// A PFC frame for class `cls` begins to leave by `link`, which tells the one outside
  /// (lead_outside).
  virtual void pause_leaves(LinkId link, unsigned cls, bool pause, Time now) {
    static_cast<void>(link), static_cast<void>(cls), static_cast<void>(pause);
    static_cast<void>(now);
  }
  /// What wake_at() asked for.
  virtual void wake(uint32_t index, Time now) = 0;
  /// Which stream the packet belongs to, see recoveries.h.
  virtual uint64_t stream_of(const NetPacket& packet) const {
    static_cast<void>(packet);
    return 0;
  }
  /// A NIC's link that is down, or whose NIC stands still, keeps what is ready for it.
  virtual void held(LinkId nic, Time now) { static_cast<void>(nic), static_cast<void>(now); }
  /// The routing has another view of which links are up (NetworkSettings::reconverge): ways have
  /// changed. Rare.
  virtual void rerouted(Time now) { static_cast<void>(now); }
  /// That comes soon: time to ask the memory for what it will need. `stage` 0 comes first, 2 last,
  /// so that one may use what the one before has asked for.
  virtual void prefetch(uint32_t index, int stage) const {
    static_cast<void>(index);
    static_cast<void>(stage);
  }
  /// The same for a packet that comes to its last NIC soon.
  virtual void prefetch_delivery(const NetPacket& packet) const { static_cast<void>(packet); }
};

/// How flows fare, for somebody who is not on the packet path.
struct FlowsLook {
  uint32_t given_up = 0xffffffff;  ///< the first flow whose sender has given up; none
};

/// Ends that can share a network with others' packets: theirs have kinds below kOthersPacket.
class NetworkTraffic : public NetworkEnds {
 public:
  /// Before the first event.
  virtual void start(Network& network) = 0;
  /// How many want to send by this NIC's link: so many packets are its turn, where others send too.
  virtual uint32_t senders(LinkId nic) const {
    static_cast<void>(nic);
    return 1;
  }
  /// Whose turn it is among several ends of one NIC: when what it sends next by this link, but
  /// nothing of the classes in `blocked`, stood in line (Network::take_turn()); 0: it waits for
  /// nobody; kNoTurn: there is nothing.
  virtual uint64_t next_turn(LinkId nic, uint8_t blocked, Time now) const {
    static_cast<void>(nic), static_cast<void>(blocked), static_cast<void>(now);
    return kNoTurn;
  }
  static constexpr uint64_t kNoTurn = ~uint64_t{0};
  virtual void look(FlowsLook& out) const { out = {}; }
  /// A link of that network has become another one.
  virtual void link_changed(const RateChange& change) { static_cast<void>(change); }
  /// Flows of this group stop, or go on.
  virtual void set_running(uint32_t group, bool running, Time now) {
    static_cast<void>(group), static_cast<void>(running), static_cast<void>(now);
  }
};
inline constexpr uint8_t kOthersPacket = 0x80;

/// What else is on links, as rates.
class LinkLoad {
 public:
  virtual ~LinkLoad() = default;
  /// Of a link's rate, for packets now; never zero.
  virtual Rate left(LinkId link, Rate rate) const = 0;
};

struct NetworkLinkCounters {
  uint64_t packets = 0;
  uint64_t wire_bytes = 0;
  uint64_t queue_peak = 0;  ///< bytes, all classes
  Time queue_peak_at;
  uint64_t marked = 0;
  uint64_t not_ect = 0;  ///< would have been marked, had they been ECN-capable
  std::array<uint64_t, kPacketLosses> lost{};
  uint64_t pauses = 0;  ///< PFC frames that stopped this link's sender; `resumes` that let it go on
  uint64_t resumes = 0;
  Duration paused;  ///< sum over its classes
  Time first_pause = Time::never();
};

/// Of PFC storms on a link.
struct StormCounters {
  uint64_t pauses = 0;       ///< frames, which are among the link's pauses too
  uint64_t found = 0;        ///< by the watchdog, by class ...
  std::array<Time, 4> at{};  ///< ... and when it found the first ones
};

class Network {
 public:
  /// All arguments outlive this. `routing` may be null if all packets carry their links.
  Network(const Graph& graph, const NetworkSettings& settings, NetworkEnds& ends,
          Routing* routing = nullptr);

  Routing& routing() { return *routing_; }

  PacketId take();
  void release(PacketId id) { free_.push_back(id); }
  NetPacket& operator[](PacketId id) { return packets_[id]; }
  const TelemetryRecord& telemetry(PacketId id) const { return telemetry_[id]; }
  TelemetryRecord& telemetry(PacketId id) { return telemetry_[id]; }

  bool has_telemetry() const { return settings_.telemetry; }
  /// Position in the settings' classes.
  unsigned class_of(uint8_t priority) const { return class_of_[priority]; }

  /// A place behind all that stand in line at this NIC so far.
  uint64_t take_turn(VertexId nic) { return ++turns_[nic]; }
  /// The ends have something to send on this NIC's link: it will pull if it can.
  void ready(LinkId nic, Time now);
  /// Of what happens at one moment, events of the network and wake-ups of rank 0 come first, in the
  /// order in which they were asked for, then others by rank.
  void wake_at(Time at, uint32_t index, uint32_t rank = 0) {
    calendar_.push(at, kWake, index, rank);
  }

  /// Take effect with the next packet that starts.
  void set_rate(LinkId link, Rate rate);
  void set_latency(LinkId link, Duration latency) { links_[link].set_latency(latency); }
  /// At its time, which is not before the last event. An outage loses the packet on the wire; those
  /// that are all on the way come in, and those that wait go on waiting: until a routing that
  /// reacts takes the link out, which loses them.
  void change(const RateChange& change);
  /// Nothing will come through this link any more, unless it changes again.
  bool is_closed(LinkId link, Time now) const;
  /// Its routing leaves out links that are down.
  bool reacts() const { return settings_.reconverge.has_value(); }
  /// What became of the outages that changes have begun, by number.
  std::vector<Recovery> recoveries() const { return recoveries_.all(); }
  /// From now on packets get what `load` leaves of each link; it outlives this.
  void share_with(const LinkLoad& load) { load_ = &load; }
  /// Packets leave this network behind `link`, which ends at a NIC: they are delivered as soon as
  /// their head is there, for a real wire takes its own time for them. `tells`: PFC frames on it
  /// are handed to the ends as well, when their head is there.
  void lead_outside(LinkId link, bool tells) {
    links_[link].to_outside = true;
    links_[link].tells = tells;
  }
  /// The NIC outside that sends by `link` stops what comes to it in class `cls`, or lets it go on:
  /// at the far end once that has crossed the link, behind the packet that is on it, but in no time
  /// of the wire, which is outside. `frame`: it says so now; else what it said has run out.
  void pause_from_outside(LinkId link, unsigned cls, bool pause, bool frame, Time now);
  /// Whether a packet whose first byte came to `link` at `head` was under way when the class was
  /// paused: it passes.
  bool began_before_pause(LinkId link, unsigned cls, Time head) const {
    return std::max(head, links_[link].free_at()) < queues_[link * classes_ + cls].paused_at;
  }
  /// So many bytes wait at the ends, in front of a NIC's link: its queue, in counters and series.
  void note_backlog(LinkId nic, uint64_t bytes, Time now);
  /// Time that this link takes for a PFC frame, if nothing else shares its rate.
  Duration pfc_time_on(LinkId link) const {
    return std::max(links_[link].own_rate.time_for(settings_.pfc_frame_bytes),
                    graph_.link(link).limits.time_for(settings_.pfc_frame_bytes));
  }
  /// Room for as many packets at once before the first allocation.
  void reserve(size_t packets);

  /// When something happens next, never() if nothing does.
  Time next() { return calendar_.next(); }
  /// The next event, or all that happens until `now`.
  void step();
  void run(Time now) {
    while (next() <= now) step();
  }

  /// Links paused for ever: each waits for the one behind it, the last for the first. Empty: none.
  /// Allocates: see deadlock.h.
  std::vector<LinkId> deadlock() const;
  /// Of the pauses that last at `now`.
  Duration longest_pause(Time now) const;

  const NetworkLinkCounters& counters(LinkId link) const { return links_[link].counters; }
  /// The same with the pauses that last at `now`.
  NetworkLinkCounters counters_at(LinkId link, Time now) const;
  /// Of all links; empty: there was no storm.
  std::vector<StormCounters> storms_at(Time now) const;
  uint64_t queued_bytes(LinkId link) const { return links_[link].queued; }
  /// In units of 2^-kBitFraction bit: what has left on the link by `at`, with the packet on the
  /// wire as far as it has gone then. `at`: not before the last event and not after the next.
  unsigned __int128 sent_bits(LinkId link, Time at) const;
  static constexpr unsigned kBitFraction = 32;
  uint64_t buffer_peak(VertexId vertex) const { return buffers_[vertex].peak(); }
  bool paused_now() const { return paused_now_ != 0; }
  uint64_t events() const { return events_; }
  uint64_t delivered() const { return delivered_; }
  uint64_t packets_in_flight() const { return packets_.size() - free_.size(); }
  size_t memory_bytes() const;
  /// Ends what is measured over time (pauses) at `now`.
  void finish(Time now);

 private:
  static constexpr unsigned kClassShift = 3;  ///< of a PFC event's index: link << 3 | class
  friend class DeadlockSearch;
  enum Kind : uint32_t {
    kFree,
    kArrive,
    kPause,
    kResume,
    kWake,
    kUp,
    kPauseLeaves,
    kResumeLeaves,
    kReroute,
    kPoll,
    kRestore
  };
  struct Queue {
    PacketId first = kNoPacketId, last = kNoPacketId;
    uint64_t bytes = 0;
    int64_t deficit = 0;  ///< weighted round robin: bytes that it may still send in its turn
    Time paused_at;
  };
  /// Its wire is at what is left of its rate, and awaited while a kFree event is on its way. What
  /// every packet needs comes first, in three cache lines.
  struct alignas(64) Link : Wire {
    using Wire::Wire;

    Time started;             ///< when the last packet began to leave ...
    uint32_t last_bytes = 0;  ///< ... and its wire bytes; 0: that was a PFC frame
    VertexId from = 0, to = 0;
    bool from_nic = false, to_nic = false, to_outside = false;
    bool faulty = false;       ///< it loses packets, or is down at times
    bool tells = false;        ///< the one outside is told of pauses
    bool into_faster = false;  ///< some link behind its far end is faster
    uint8_t paused = 0;        ///< classes that the far end has stopped
    uint8_t waiting = 0;       ///< classes that have packets
    uint8_t turn = 0;          ///< class whose turn it is among those with a weight
    uint8_t dropping = 0;      ///< classes whose packets the watchdog drops
    uint8_t ignoring = 0;      ///< classes that it sends in spite of PAUSEs
    bool out = false;          ///< by an outage of recoveries_
    std::vector<uint8_t> pfc;  ///< frames that wait: class, and 0x80 for pause
    uint64_t queued = 0;       ///< bytes of all classes
    NetworkLinkCounters counters;
    Rate own_rate;
    WireFaults faults;  ///< without the known outages of the graph
    Time heard;         ///< when the last pause from outside took effect
  };

  void prefetch(bool from_lane);
  void prefetch_link(LinkId link) const;
  LinkId expected_link(const Way& way, VertexId at);
  Time arrival_at_switch(LinkId link, const NetPacket& p);
  void note_faster(VertexId vertex);
  void arrive(PacketId id, Time now);
  static void note_peak(Link& l, Time now);
  void enqueue(LinkId link, PacketId id);
  void serve(LinkId link, Time now);
  void serve_or_wait(LinkId link, Time now);
  void await_free(LinkId link) {
    links_[link].await();
    calendar_.push_in_order(links_[link].free_at(), kFree, link);
  }
  unsigned pick(LinkId link, uint8_t eligible);
  PacketId dequeue(LinkId link, unsigned cls, Time now);
  void leave_switch(LinkId link, unsigned cls, PacketId id, Time now);
  void note_telemetry(LinkId link, PacketId id, Time now);
  void transmit(LinkId link, PacketId id, Time start, Time now);
  void transmit_pfc(LinkId link, Time now);
  void send_pfc(LinkId ingress, unsigned cls, bool pause, Time now);
  void paused(LinkId link, unsigned cls, bool pause, Time now);
  void lose(PacketId id, LinkId link, PacketLoss why, Time now);
  Duration time_on(LinkId link, uint32_t bytes);
  bool holds(LinkId link, Time now);
  bool is_down(LinkId link, Time now) const;
  void drop_queued(LinkId link, Time now);
  void drop_class(LinkId link, unsigned cls, PacketLoss why, Time now);
  void storm(LinkId link, const PfcStorm& given, Time now);
  bool is_stormed(LinkId link) const;
  void note_outage(const RateChange& change);
  void note_stopped(LinkId link, const NetPacket& packet, PacketLoss why);
  void let_go_on(LinkId link, unsigned cls, Time now);
  void arm_poll(Time now);
  void poll(Time now);
  void trip(LinkId link, unsigned cls, Time now);
  void restore(LinkId link, unsigned cls, Time now);
  void leave_buffer(LinkId link, unsigned cls, PacketId id, Time now);
  void await_reroute(LinkId link, Time changed);
  void reroute(Time now);
  std::optional<PacketLoss> lost_on(LinkId link, const NetPacket& p);

  const Graph& graph_;
  const NetworkSettings& settings_;
  NetworkEnds& ends_;
  Routing* routing_;
  const LinkLoad* load_ = nullptr;
  unsigned classes_;
  std::array<uint8_t, kPriorities> class_of_{};
  std::vector<Link> links_;
  std::vector<Queue> queues_;            ///< [link * classes_ + class]
  std::vector<IngressUse> ingress_;      ///< [link * classes_ + class], at the link's far end
  std::vector<const EcnSettings*> ecn_;  ///< [link * classes_ + class], null: no marking
  std::vector<SharedBuffer> buffers_;    ///< by vertex
  std::vector<uint64_t> turns_;          ///< by vertex: taken so far
  std::vector<NetPacket> packets_;
  std::vector<PacketId> free_;
  std::vector<TelemetryRecord> telemetry_;  ///< beside packets_, if the settings want it
  EventLanes calendar_;
  uint64_t events_ = 0;
  uint64_t delivered_ = 0;
  uint64_t paused_now_ = 0;  ///< links' classes
  struct Storm {
    LinkId link;
    uint8_t classes;
    Time since, end;
    Duration refresh;
    uint64_t frames(Time now) const {
      const int64_t lasted = (std::min(now, end) - since).ps();
      return static_cast<uint64_t>((lasted + refresh.ps() - 1) / refresh.ps());
    }
  };
  std::vector<Storm> storms_;                  ///< that rage
  std::vector<StormCounters> storm_counters_;  ///< by link; empty: there was no storm
  Recoveries recoveries_;
  std::vector<uint32_t> outage_of_;  ///< by link: the last one; empty: there was none
  /// What the watchdog knows of a queue.
  struct Watched {
    uint32_t polls = 0;    ///< in a row
    bool tripped = false;  ///< it takes it for stormed
    bool told = false;     ///< to pause, by the last frame
    Time lifted;           ///< when it was let go on last
  };
  std::vector<Watched> watched_;   ///< as queues_; empty: there is no watchdog
  Time polls_at_ = Time::never();  ///< the next look that is planned
  /// Links that have changed: what the routing will find out at `at`, if they stay so until then.
  struct Finding {
    Time at;
    LinkId link;
  };
  std::vector<Finding> findings_;
  std::vector<Time> moved_;     ///< by link: when it went down or came up last, by change()
  std::vector<bool> left_out_;  ///< by link: the routing avoids it
};

}  // namespace understudy
