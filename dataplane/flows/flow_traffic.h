// Flows carried packet by packet: the NICs' ends of a network (fabric/network.h). Each flow is a
// queue pair with nothing but its bytes: a paced sender under its congestion control, a receiver
// that acknowledges, go-back-N for what is lost. Headers, verbs and contents are left to
// dataplane/rc; a flow costs some hundred bytes, so that a hundred thousand of them are no matter.
//
// What happens at one moment happens in an order that does not depend on who asked for it first:
// packets move, then listeners wake, then flows start, those of one connection in the order in
// which they were released, connections by their numbers. So ranks that a plan speaks for, which
// knows some moments earlier than a rank that is played, meet all others at the same packet.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "dataplane/base/units.h"
#include "dataplane/cc/pacing.h"
#include "dataplane/fabric/flow.h"
#include "dataplane/fabric/network.h"
#include "dataplane/flows/flow_carrier.h"
#include "dataplane/flows/flow_groups.h"

namespace understudy {

/// A flow's congestion control, and how its receiver tells of CE marks.
struct FlowControl {
  std::unique_ptr<Controller> controller;
  bool cnps = false;  ///< by congestion notification packets; else acknowledgements echo the marks
  Duration cnp_interval = Duration::us(4);  ///< least time between CNPs that leave (rule A6)
};

struct FlowResult {
  Time start = Time::never();         ///< never(): it has not begun
  Time received = Time::never();      ///< its last byte at the receiver
  Time acknowledged = Time::never();  ///< the last acknowledgement at the sender
  uint64_t packets = 0;               ///< data packets sent, repeated ones included
  uint64_t repeated = 0;
  uint64_t marked = 0;  ///< that came in with a CE mark
  uint64_t lost = 0;
  uint64_t cnps = 0;
  uint64_t delivered = 0;  ///< payload bytes, in order, once
};

class FlowTraffic final : public NetworkTraffic, public FlowCarrier {
 public:
  /// The congestion control of a flow; `base_rtt` is that of its idle path.
  using MakeControl = std::function<FlowControl(const FlowSpec&, Rate line, Duration base_rtt)>;

  /// All flows need a path, or a number and a network with a routing. Arguments outlive this.
  FlowTraffic(const Graph& graph, const std::vector<FlowSpec>& flows, const FlowSettings& settings,
              MakeControl make);

  /// Before the first event: flows that wait for nothing get their times.
  void start(Network& network) override;

  // FlowCarrier. Listeners hear of all flows and all wake-ups.
  void hold(uint32_t flow) override { ++flows_[flow].waits_for; }
  void listen(FlowListener& listener) override { listeners_.push_back(&listener); }
  void release(uint32_t flow, Time at) override;
  void wake_listener(Time at, uint32_t index) override {
    network_->wake_at(at, index << kWakeShift | kListener, kListenerRank);
  }

  /// Before start(): `flow` is a place for messages, one after another; its own bytes count for
  /// nothing, and all_finished() does not ask for it. Its connection lasts until it is closed.
  void lend(uint32_t flow) {
    hold(flow);
    flows_[flow].lent = true;
    ++finished_;
  }
  /// The next message of a flow that is lent, and whose last one has been acknowledged, leaves: at
  /// once, or, as one that was released, behind what else happens at this moment.
  void send(uint32_t flow, uint64_t bytes, Time now, bool at_once);
  /// The same in two steps: it is posted, and reaches its NIC, lead() later.
  void post(uint32_t flow, uint64_t bytes);
  void reach(uint32_t flow, Time now) { begin(flow, now); }
  /// From when a flow is started until it stands in front of its NIC's link.
  Duration lead(uint32_t flow) const {
    return nics_delay_ ? nic(specs_[flow].from).lead : Duration();
  }
  bool idle(uint32_t flow) const { return !flows_[flow].busy; }
  /// An idle flow that is lent carries no more.
  void close(uint32_t flow);

  const std::vector<FlowResult>& results() const { return results_; }
  size_t finished() const { return finished_; }
  uint64_t delivered_bytes() const { return delivered_; }  ///< payload, in all
  size_t memory_bytes() const;
  bool all_finished() const { return finished_ == specs_.size(); }
  /// How many flows that have not ended stand still, for they were stopped.
  size_t stopped() const { return groups_.stopped(); }
  /// All that are not stopped have ended.
  bool at_rest() const { return finished_ + stopped() == specs_.size(); }
  /// Without FlowSettings::retries: nothing that could open a closed way happens after `time`.
  /// Unless that is said senders try for ever.
  void give_up_after(Time time) { no_change_after_ = time; }
  /// After which a sender gives up.
  uint32_t retries() const { return settings_.retries.value_or(FlowSettings::kRetries); }
  const std::vector<FlowSpec>& specs() const { return specs_; }
  /// Some sender has given up; it sends nothing more.
  bool has_given_up() const { return !given_up_.empty(); }
  /// Flows that do not end: of each sender that has given up the one that it could not deliver, in
  /// the order of time; if none has, those that have begun and not ended.
  std::vector<uint32_t> stuck() const;
  /// A flow's way forth, and that of its acknowledgements, as packets would find them.
  struct WayNow {
    bool open = true;
    std::vector<LinkId> closed;  ///< links of it through which nothing comes
  };
  WayNow way_of(uint32_t flow, Time now) const;

  Rate rate(size_t flow) const;  ///< of its sender now; zero bits: it does not run
  /// Bytes that its sender may have on the way; Controller::kNoWindow without limit, or if the flow
  /// does not run.
  uint64_t window(size_t flow) const;
  /// From now on every flow that begins is appended to `begun`, which outlives this.
  void note_starts(std::vector<uint32_t>& begun) { begun_ = &begun; }

  // NetworkTraffic
  uint32_t senders(LinkId nic) const override;
  uint64_t next_turn(LinkId nic, uint8_t blocked, Time now) const override;
  /// Senders of a group that is stopped send nothing; what is on its way comes in.
  void set_running(uint32_t group, bool running, Time now) override;
  void look(FlowsLook& out) const override {
    out = {given_up_.empty() ? kNone : given_up_.front()};
  }

  // NetworkEnds
  PacketId pull(LinkId nic, uint8_t blocked, Time now) override;
  void deliver(PacketId packet, Time now) override;
  void lost(PacketId packet, PacketLoss why, Time now) override;
  void wake(uint32_t index, Time now) override;
  void rerouted(Time now) override;
  void held(LinkId nic, Time now) override;
  uint64_t stream_of(const NetPacket& packet) const override {
    return uint64_t{packet.flow} << 1 | (packet.kind == kData ? 0 : 1);
  }
  void prefetch(uint32_t index, int stage) const override;
  void prefetch_delivery(const NetPacket& packet) const override;

 private:
  enum Kind : uint8_t { kData, kAck, kNak, kCnp };
  enum Wake : uint32_t {
    kStart,
    kSend,
    kControl,
    kTimeout,
    kListener,
    kReceived,
    kAcknowledged,
    kAnswer
  };
  static constexpr unsigned kWakeShift = 3;
  static constexpr uint32_t kNone = 0xffffffff;
  static constexpr uint32_t kListenerRank = 1, kFirstStartRank = 2;  ///< of wake-ups

  /// The sending side of a connection: of one flow, or of several that leave one after another.
  struct Sender {
    std::unique_ptr<Controller> control;  ///< from its first flow's start to its last one's end
    bool cnps = false;
    Duration cnp_interval;
    uint32_t first = kNone, last = kNone;  ///< flows that have bytes to send, by Flow::next_flow
    uint32_t flows_left = 0;               ///< that have not ended
    uint32_t start_rank = 0;               ///< of its flows' starts
    uint64_t in_flight = 0;                ///< bytes sent and not acknowledged
    uint64_t sent = 0, acked = 0;          ///< bytes in all
    Pacing pacing;
    Alarm send_alarm, control_alarm;
    Time heard;             ///< last progress, or the first packet that waits for one
    Time last_start;        ///< of a packet
    uint32_t timeouts = 0;  ///< since the last progress
    bool timing = false;    ///< a timeout is armed
    bool stopped = false;
    bool gave_up = false;
    uint16_t handed = 0;  ///< packets in the queue of a NIC that takes them ahead ...
    bool full = false;    ///< ... which were too many, and are still
    bool queued = false;  ///< in its NIC's list ...
    uint64_t turn = 0;    ///< ... since then
    uint32_t next_ready = kNone;
    Time last_cnp = Time::from_ps(INT64_MIN / 2);  ///< the receiver's: when one left its NIC
    bool cnp_waits = false;                        ///< the same: one is about to
    Way back;                                      ///< of acknowledgements ...
    LinkId first_back = kNoLink;                   ///< ... and their NIC's link
    PacketId ack = kNoPacketId;                    ///< the one that waits for that link
    uint8_t switches = 0;                          ///< on the way of its packets
    uint32_t newest = kNone;                       ///< of its flows that have begun and not ended
  };
  struct Flow {
    uint32_t sender = 0;
    // Bytes of one that is lent are numbered on over its messages, each from a packet's border.
    uint64_t base = 0, end = 0;
    uint64_t next = 0;  ///< first byte not sent yet
    uint64_t sent = 0;  ///< most that was ever sent
    uint64_t acked = 0;
    bool empty = false;   ///< without bytes: it is one packet, as a message of zero length is
    bool listed = false;  ///< in its sender's list
    bool running = false;
    bool lent = false, busy = false;
    bool hears_more = false;     ///< its receiver, or its sender, has not heard of it yet
    bool sprays = false;         ///< its packets may take several paths where switches choose:
    uint8_t paths = 1;           ///< that many now, in turn
    LinkId only_link = kNoLink;  ///< by which all its packets leave, if they have one hash:
    uint64_t hash = 0;
    uint32_t next_flow = kNone;
    uint32_t waits_for = 0;  ///< flows that have to end before it starts
    Time due;                ///< by its group's clock, once it waits for none: when it starts
    bool held = false;       ///< until the group goes on: nothing else will wake it
    // Receiver:
    uint64_t expected = 0;
    uint32_t unacked = 0;
    bool marked = false;
    bool gap_told = false;  ///< one NAK for each gap
    /// Spraying: what came early, from and to.
    std::unique_ptr<std::map<uint64_t, uint64_t>> ahead;
    uint32_t older = kNone, newer = kNone;  ///< flows of its sender that have begun and not ended
    /// The next acknowledgement also speaks for this flow, whose own had not left yet ...
    uint32_t speaks_for = kNone;
    uint64_t told = 0;  ///< ... and for these bytes of this one, in such a case
  };
  bool sprayed(uint32_t flow) const { return flows_[flow].sprays || !specs_[flow].spray.empty(); }
  struct ReadyList {
    uint32_t first = kNone, last = kNone;  ///< senders
  };
  struct Handed {
    PacketId packet;
    uint64_t turn;  ///< as Sender::turn
  };
  /// A NIC's end of one of its cables.
  struct Nic {
    std::array<ReadyList, kPriorities> ready;  ///< senders that may send, in turn
    unsigned turn = 0;                         ///< class that sent last
    std::vector<PacketId> control;  ///< acknowledgements and CNPs that wait, from control_at
    size_t control_at = 0;
    /// Of a NIC whose acknowledgements wait behind data, instead of both: all that it was handed,
    /// from handed_at.
    std::vector<Handed> handed;
    size_t handed_at = 0;
  };

  // Senders.
  void reverse_path(const FlowSpec& spec, Sender& sender);
  void rank_senders();
  void learn_ways();
  void count_paths(uint32_t flow);
  void choose_back(uint32_t flow);
  void note_followers();
  void prefetch_flow(uint32_t flow) const;
  void start_at(uint32_t flow, Time at) {
    network_->wake_at(at + lead(flow), flow << kWakeShift | kStart,
                      senders_[flows_[flow].sender].start_rank);
  }
  void start_by_clock(uint32_t flow, Time due);
  void on_start(uint32_t flow, Time now);
  void begin(uint32_t flow, Time now);
  void list(uint32_t flow, bool in_front);
  LinkId queue(uint32_t sender, Time now);
  void make_ready(uint32_t sender, Time now) {
    if (const LinkId nic = queue(sender, now); nic != kNoLink) network_->ready(nic, now);
  }
  void arm_send(uint32_t sender, Time at);
  void arm_control(uint32_t sender);
  void arm_timeout(uint32_t sender, Time now);
  Time timeout_of(const Sender& s) const;
  void on_timeout(uint32_t sender, Time now);
  bool is_held(uint32_t sender, Time now) const;
  bool has_tried_enough(uint32_t sender, Time now) const;
  void give_up(uint32_t sender, Time now);
  void abandon(Sender& s);
  void follow(LinkId first, VertexId to, Way way, Time now, WayNow& found) const;
  void after_control(uint32_t sender, Time now);
  void go_back(uint32_t flow);
  void open(uint32_t flow);
  void shut(uint32_t flow);
  void drop_sent(Sender& s);
  bool may_send(const Sender& s) const {
    return s.first != kNone && !s.stopped && s.in_flight < s.control->window();
  }
  PacketId next_packet(uint32_t sender, LinkId nic, Time now);
  struct Departure {
    LinkId first = kNoLink;  ///< the NIC's link
    Way way;
  };
  Departure departure_of(uint32_t flow, uint64_t packet) const {
    const Flow& f = flows_[flow];
    if (f.only_link == kNoLink) return chosen_departure(flow, packet);
    return {f.only_link, Way::by_hash(specs_[flow].to, f.hash)};
  }
  Departure chosen_departure(uint32_t flow, uint64_t packet) const;
  /// Of the flow's next packet, which leaves by `nic`: another flow of its sender may have waited for
  /// that link. Then it takes the first of the flow's paths that begin there.
  Departure departure_by(uint32_t flow, LinkId nic) const {
    const Departure next = departure_of(flow, results_[flow].packets);
    return next.first == nic ? next : other_departure(flow, nic, next);
  }
  Departure other_departure(uint32_t flow, LinkId nic, const Departure& next) const;
  LinkId first_link(uint32_t flow) const {
    return departure_of(flow, results_[flow].packets).first;
  }
  void note_cnp(const NetPacket& packet, Time now);
  PacketId next_control_packet(LinkId nic, uint8_t blocked, Time now);
  void on_ack(const NetPacket& packet, PacketId id, Time now);
  void take_others(uint32_t flow, AckHeard& heard, Time now);
  void take_ack(uint32_t flow, uint64_t received, AckHeard& heard, Time now);
  Rate measure_idle_path(const FlowSpec& spec, Duration& round_trip, unsigned& links) const;

  // Receivers.
  void on_data(const NetPacket& packet, PacketId id, Time now);
  void answer(uint32_t flow, Kind kind, Time sent, PacketId of, Time now);
  void received_all(uint32_t flow, Time now);
  void acknowledged_all(uint32_t flow, Time now);
  void heard_all(uint32_t flow);
  // What NICs take for messages and acknowledgements (flow_nics.cc):
  const NicLimits& nic(VertexId vertex) const { return graph_.vertices()[vertex].nic; }
  uint32_t packets_of_ack(const FlowSpec& spec) const;
  void came_in(uint32_t flow, Time now);
  void came_back(uint32_t flow, Time now);
  void line_up_answer(PacketId answer, LinkId nic, Time now);
  void put_answer(PacketId answer, LinkId nic, Time now);
  bool joins_waiting(PacketId answer);
  // NICs whose acknowledgements wait behind data (flow_nic_queues.cc):
  bool acks_wait(LinkId link) const {
    return nics_queue_ && nic(graph_.link(link).from).acks_wait();
  }
  bool is_held_back(const Sender& s, Time now) const;
  LinkId hand_over(uint32_t sender, Time now);
  void put_behind(PacketId packet, LinkId link);
  PacketId next_handed(LinkId link, uint8_t blocked, Time now);
  void note_started(uint32_t sender, LinkId link, Time now);
  bool on_nic(Wake kind, uint32_t what, Time now);
  void count(uint32_t flow, uint64_t bytes);
  static uint64_t place(Flow& f, uint64_t from, uint64_t to);
  /// Of the packet that begins with this byte.
  uint32_t payload_of(const Flow& f, uint64_t from) const {
    return static_cast<uint32_t>(std::min<uint64_t>(settings_.payload, f.end - from));
  }
  /// From `base` on; one that is empty keeps count of one byte.
  static void set_bytes(Flow& f, uint64_t base, uint64_t bytes);

  const Graph& graph_;
  const std::vector<FlowSpec>& specs_;
  const FlowSettings& settings_;
  MakeControl make_;
  Network* network_ = nullptr;
  std::vector<Flow> flows_;
  std::vector<Sender> senders_;
  std::vector<FlowResult> results_;
  std::vector<std::vector<LinkId>> reversed_;  ///< paths that senders' acknowledgements carry
  std::vector<uint32_t> first_follower_, followers_;  ///< flows that wait for it; empty: none do
  std::vector<Nic> nics_;                             ///< by link that leaves a NIC
  bool nics_delay_ = false;                           ///< some NIC does
  bool nics_queue_ = false;                           ///< acknowledgements of some wait behind data
  FlowGroups groups_;
  size_t finished_ = 0;
  uint64_t delivered_ = 0;
  std::vector<uint32_t>* begun_ = nullptr;
  std::vector<FlowListener*> listeners_;
  Time no_change_after_ = Time::never();
  std::vector<uint32_t> given_up_;  ///< flows
  // Of the acknowledgement at hand: flows that it speaks for beside its own, and that end by it.
  std::vector<uint32_t> others_, ended_;
};

}  // namespace understudy
