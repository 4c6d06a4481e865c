// A shard: everything behind one real port, or several that share a network. Packets and a time go
// in, packets come out; it has no clock, socket or thread of its own, and allocates at construction
// only (design rules 1 to 5).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "dataplane/base/big_array.h"
#include "dataplane/base/byte_ring.h"
#include "dataplane/engine/commands.h"
#include "dataplane/engine/event_queue.h"
#include "dataplane/engine/io.h"
#include "dataplane/engine/notification.h"
#include "dataplane/engine/packet_pool.h"
#include "dataplane/engine/port_pfc.h"
#include "dataplane/engine/qp_control.h"
#include "dataplane/engine/shard_interface.h"
#include "dataplane/engine/switched_fabric.h"
#include "dataplane/fabric/faults.h"
#include "dataplane/fabric/held_packets.h"
#include "dataplane/node/endpoint.h"
#include "dataplane/node/neighbour.h"
#include "dataplane/node/node_table.h"
#include "dataplane/wire/head_template.h"

namespace understudy {

enum class VerifyIcrc : uint8_t { kFull, kSampled, kOff };

/// Between a port and its real NIC.
struct ShardWire {
  Rate physical;        ///< a modelled rate at or above it is the wire's own
  PortPfcSettings pfc;  ///< on only with a network
};

struct ShardConfig {
  uint32_t index = 0;       ///< goes into the local QPNs
  NodeTable nodes;          ///< at least one real
  std::vector<Rate> rates;  ///< of each node's link, by position in `nodes`
  std::vector<Duration> latencies;
  std::vector<ShardWire> wires{1};  ///< of the ports: the real NICs of `nodes` in their order
  bool pacing = true;               ///< false: links take no time
  bool separate_control = false;    ///< ACKs and credits in a class that takes no data rate
  bool icmp_through_fabric = false;
  VerifyIcrc verify = VerifyIcrc::kFull;
  NotificationSettings cnp;
  MacAddress host_mac;         ///< MAC of the exception port's TAP
  uint32_t control_users = 0;  ///< of congestion control: QpControl::user() is less
  /// Between the nodes' links; null: nothing, then a path is the two links of its ends. Its graph
  /// has rates and latencies of its own.
  std::shared_ptr<const SwitchedNetwork> network;
  NetworkTraffic* background = nullptr;  ///< what else is in it; outlives the shard
  std::vector<Fault> faults;
  uint64_t fault_seed = 0;
  uint32_t packets = 8192;  ///< pool size
  uint32_t queue_pairs = 4096;
  uint32_t regions = 4096;
};

class Shard final : public EngineShard, public EndpointHost, private FabricUser {
 public:
  explicit Shard(const ShardConfig& config);

  void rx(const RxBurst& burst) override;
  using EngineShard::poll;
  void poll(Time now, std::span<TxSink* const> sinks) override;
  Time next_wake() const override;

  // Control's side: single producer of commands, single consumer of replies.
  CommandQueue& commands() { return control_; }
  SpscChain<Reply>& replies() { return control_.replies; }
  ByteRing& to_host() { return to_host_; }      ///< frames for the exception port
  ByteRing& from_host() { return from_host_; }  ///< frames of the exception port
  ByteRing& notices() { return notices_; }      ///< see node/notice.h

  /// The one with switches, if there is one.
  const Network* network() const { return fabric_ == nullptr ? nullptr : &fabric_->network(); }
  const NodeTable& node_table() const { return config_.nodes; }
  const std::vector<NodeNic>& nodes() const { return config_.nodes.nics(); }
  uint32_t queue_pairs() const { return config_.queue_pairs; }
  uint32_t region_capacity() const { return config_.regions; }
  const RegionTable& regions() const { return regions_; }
  RegionTable& regions() { return regions_; }  ///< for the queue pairs that control makes
  uint32_t ports() const { return static_cast<uint32_t>(ports_.size()); }
  /// Of queue pairs to this address: those of the port behind which it is.
  RcCounters& rc_counters(const IpAddress& to = {}) { return counters_of(real_for(to, 0)).rc; }
  /// The one behind which this address of a real node is.
  uint32_t port_to(const IpAddress& real) const { return port_at_[real_for(real, 0)]; }
  const ShardCounters& counters(uint32_t port = 0) const { return ports_[port].counters; }
  /// Makes room in `out` for all that this shard counts.
  void fit(ShardSnapshot& out) const;
  /// Copies counters, those of the wire from `port`; `out` has been through fit().
  void snapshot(ShardSnapshot& out, Time now, uint32_t port = 0) const;
  /// Local QPN of slot `slot`: unique over all shards (design rule 3).
  Qpn qpn_of(uint32_t slot) const { return config_.index << kQpnShardShift | (slot + kFirstQpn); }

  // EndpointHost
  bool post(Time now, Qp& qp, const WorkRequest& request) override;
  void wake_at(Time t, Endpoint& endpoint, uint64_t cookie) override;
  Duration arrival_uncertainty() const override { return arrival_uncertainty_; }
  void tell(Time now, const Qp& qp, NoticeKind kind, std::span<const uint8_t> bytes) override;

 private:
  static constexpr uint32_t kClasses = 2;  ///< 0 data (or everything), 1 control
  /// Queue pairs stand in a line for each class of what they send, and in one for ACKs, which go
  /// before: hardware that receives sends them past the turns of what it was asked to send.
  static constexpr uint32_t kLines = kClasses + 1, kAckLine = kClasses;
  static constexpr uint32_t kNoSlot = 0xffffffff;
  static constexpr size_t kPending = 4096;
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
    bool heard = false;            ///< waits in heard_

    bool is_taken() const { return qp != nullptr || datagrams; }
  };
  /// The rest of it.
  struct QpRest {
    Endpoint* endpoint = nullptr;
    DatagramQp* datagrams = nullptr;  ///< instead of `qp`
    uint64_t turn = 0;                ///< when it came into line 0, in a network with switches
    Time last_cnp;                    ///< if cnp_sent
    uint32_t next_cnp = 0;            ///< the slot behind it in cnps_ ...
    bool cnp_waits = false;           ///< ... where it waits for its node's link
    bool cnp_sent = false;
  };
  /// Queue pairs of a node that have something to send, in turn: an intrusive FIFO of slots.
  struct ReadyList {
    uint32_t first = kNoSlot, last = kNoSlot;
    uint32_t sending = kNoSlot;  ///< sent last: stands in line again when the link is free
    bool starved = false;        ///< waits in starved_ for a packet
    uint32_t next = kNoList;     ///< the list behind it there
  };
  static constexpr uint32_t kNoList = 0xffffffff;
  /// Finished frames of a node (datagrams, echoes) that wait for their turn among its queue pairs:
  /// an intrusive FIFO of packets. In the ready list they stand under one slot, raw_slot().
  struct RawQueue {
    uint32_t first = kNoPacket, last = kNoPacket;
    uint32_t waiting = 0;
  };
  /// A real NIC and its wire.
  struct Port {
    Port(uint32_t nic_position, const ShardWire& wire, const ShardConfig& config);
    uint32_t nic;  ///< position in the node table
    Rate physical;
    Serializer in,
        out;  ///< at that rate: the times of what the real NIC sends, and of what it gets
    PortPfc pfc;
    /// Modelled packets to the real node by class, each in order of departure.
    std::array<PacketFifo, kClasses> departures;
    PacketFifo send_now;     ///< answers that bypass the fabric
    uint32_t coming_in = 0;  ///< packets on the calendar to arrive at the real node's link
    ShardCounters counters;
  };
  /// Of the queue pair that had this slot then.
  struct OwnHead {
    uint32_t slot = kNoSlot, generation = 0;
    HeadTemplate head;
  };
  static constexpr size_t kHeadTemplates = 512;
  static constexpr size_t kTogether = 32;  ///< frames whose headers are read before the rest
  struct Wake {
    Endpoint* endpoint = nullptr;
    uint64_t cookie = 0;
  };

  // shard_rx.cc: frames from the device, up to the fabric
  void read_headers(std::span<const std::span<const uint8_t>> frames);
  const ReadFrame* read_one(std::span<const uint8_t> frame, size_t at);
  void rx_frames(std::span<const std::span<const uint8_t>> frames, const ReadFrame* const* read,
                 Time now);
  void prefetch_qp(uint32_t slot) const;
  void rx_frame(const ReadFrame& read, uint32_t slot, std::span<const uint8_t> frame, uint32_t at,
                Time now);
  bool verifies_next();
  void rx_roce(const ReadFrame& read, uint32_t slot, uint32_t at, Time now);
  void rx_through(const FrameView& view, const RoceView& roce, const NodeNic& to, Time now);
  uint32_t store(const FrameView& view, const RoceView& roce, uint32_t slot, Time now);
  uint32_t take_inbound(PacketKind kind, const FrameView& view, uint32_t node, Time now);
  void rx_ip(const FrameView& view, Time now);
  bool pass_on(const FrameView& view, Time now);
  void hand_to_host(const FrameView& view);
  bool from_wrong_vlan(const FrameView& view) const;
  void learn_mac(const IpAddress& from, const MacAddress& mac);
  void answer(NeighbourQuery query, const FrameView& view, const NodeNic& node, Time now);

  // Real NICs. Positions are those of the node table.
  static constexpr uint32_t kNoPort = 0xffffffff;
  bool is_real(uint32_t node) const { return port_at_[node] != kNoPort; }
  Port& port_of(uint32_t real) { return ports_[port_at_[real]]; }
  ShardCounters& counters_of(uint32_t real) { return port_of(real).counters; }
  /// Of the port that frames come in from.
  Port& here() { return ports_[here_]; }
  uint32_t real_for(const IpAddress& to, uint32_t node) const;

  // shard_events.cc
  void run_events(Time now);
  void deliver(uint32_t packet, Time now);
  void answer_heard(Time now);
  TrafficKind kind_of(uint32_t line) const;
  uint32_t class_of(const RoceView& packet) const;

  // shard_links.cc: the two links of a way
  uint32_t link_id(uint32_t node, bool up, uint32_t cls) const {
    return (node * 2 + (up ? 1 : 0)) * kClasses + cls;
  }
  /// Whether a packet of a real node may come before its event: nothing else delays it.
  bool takes_at_once() const { return fabric_ == nullptr && !faults_.active(); }
  void come_in(uint32_t packet, Time now);
  void arrive(uint32_t packet, Time now);
  void expect(uint32_t packet, Time at);
  bool drop_flood(uint32_t packet);
  void note_arrived(uint32_t link, Time now);
  bool floods(const Packet& packet) const;
  uint64_t most_waiting() const;
  void start(uint32_t link, Time now);
  void pass(uint32_t packet, uint32_t link, Time now);
  bool leaves_real(uint32_t link) const;
  bool expects(uint32_t link) const;
  bool pulls(uint32_t link) const;
  bool somebody_sends(uint32_t link) const;
  void await_free(uint32_t link);
  void link_free(uint32_t link, Time now);
  void after_link(uint32_t packet, uint32_t link, const LinkPassage& passage, Time now);
  bool passes_ahead(uint32_t link, Time at, Time now) const;
  Duration time_of_next_link(const Packet& packet, uint32_t wire_bytes);
  /// When the head of a packet that has come out of a link may pass the next one, which takes
  /// `time` for it. Into a faster link it waits until it can go through in one piece, so that the
  /// link serves others meanwhile.
  static Time head_behind(const LinkExit& exit, Duration time) {
    // A serializer's carried remainder may add a picosecond to the time that the rate gives.
    return std::max(exit.head, exit.tail - time - Duration::ps(1));
  }

  // shard_runs.cc: packets of a message that go together
  static bool goes_in_runs(const ReadFrame& read);
  bool opens_run(const FrameView& view, const RoceView& roce, uint32_t slot);
  void open_run(uint32_t packet, const RoceView& roce);
  bool joins_run(const FrameView& view, const RoceView& roce, uint32_t slot) const;
  void join_run(const FrameView& view, const RoceView& roce, Time now);
  void extend_run(Psn psn, Time now);
  bool continues_run(const ReadFrame& like, std::span<const uint8_t> frame, uint32_t at, Time now);
  void close_run(Time now);
  LinkExit* way_of_run(uint32_t packet);
  uint32_t arrived(uint32_t packet, Time now);
  void pass_run(uint32_t packet, uint32_t link, Time now);

  // shard_queues.cc: what waits for a node's own link
  void pull_or_wait(uint32_t node, uint32_t cls, Time now);
  bool pull(uint32_t node, uint32_t cls, Time now);
  bool pull_line(uint32_t node, uint32_t line, Time now);
  void send_raw(uint32_t packet, Time now);
  uint32_t take_raw(uint32_t node, Time now);
  uint32_t make_packet(uint32_t slot, uint32_t line, Time now);
  void make_ready(uint32_t slot, uint32_t line, Time now);
  uint32_t raw_slot(uint32_t node) const { return config_.queue_pairs + node; }
  void stand_again(uint32_t node, uint32_t line, Time now);
  void starve(uint32_t list);
  void feed_starved(Time now);
  void kick(uint32_t slot, Time now);
  void kick_line(uint32_t slot, uint32_t line, uint32_t cls, Time now);
  void arm_timer(uint32_t slot);

  // shard_pacing.cc: queue pairs under congestion control
  bool sends(uint32_t slot, uint32_t line, Time now);
  void note_start(const Packet& packet, uint32_t slot, Time now);
  void note_answer(uint32_t slot, Time now);
  void hear_cnp(uint32_t slot, Time now);
  void set_law_alarm(uint32_t slot);
  void on_pace(uint32_t slot, Time now);
  void on_law(uint32_t slot, Time now);
  void end_control(uint32_t slot);

  // shard_ecn.cc: marks and their notifications
  uint32_t control_class() const { return config_.separate_control ? 1 : 0; }
  void look_for_mark(const Packet& packet, uint32_t slot, Time now);
  uint32_t take_cnp(uint32_t node, Time now);
  void forget_cnp(uint32_t slot);

  // shard_switched.cc: the same with switches in between
  Time next_event() const {
    return fabric_ == nullptr ? events_.next() : std::min(events_.next(), fabric_->next());
  }
  uint32_t next_packet(uint32_t node, LinkId uplink, uint8_t blocked, Time now) override;
  uint32_t next_of_line(uint32_t node, uint32_t line, LinkId uplink, uint8_t blocked, Time now);
  uint64_t turn_of_line(uint32_t node, uint32_t line, LinkId uplink, uint8_t blocked, Time now);
  uint64_t next_turn(uint32_t node, LinkId uplink, uint8_t blocked, Time now) override;
  bool goes(uint32_t slot, LinkId uplink, uint8_t blocked) const;
  bool cnp_goes(uint32_t node, LinkId uplink, uint8_t blocked) const;
  uint32_t sent_into_fabric(uint32_t packet);
  void came_through(uint32_t packet, Time now) override;
  void lost(uint32_t packet, PacketLoss why) override;
  void tell_pause(uint32_t real, unsigned cls, bool pause, Time due) override;
  void enter_switched(uint32_t packet, Time now);
  void kick_switched(uint32_t slot, Time now);

  // shard_pfc.cc: pauses on the real port
  void rx_mac_control(std::span<const uint8_t> frame, Time now);
  void look_at_pause(uint32_t index, bool frame, Time now);
  bool send_pfc(Port& port, Time now, TxSink& sink);

  // shard_faults.cc: packets that meet faults on their way
  void rx_through_faults(const FrameView& view, const RoceView& roce, uint32_t slot, Time now);
  uint32_t psns_of(uint8_t opcode, uint32_t length, uint32_t slot) const;
  void damage_datagram(uint32_t packet);
  bool damage_received(FrameView& view, RoceView& roce, const FaultVerdict& verdict);
  void depart_through_faults(uint32_t packet);
  void pass_faults(uint32_t packet, Time now);
  void pass_copies(uint32_t packet, const FaultVerdict& verdict);
  void go_later(uint32_t packet, Duration delay);
  void damage_finished(uint32_t packet, const FaultVerdict& verdict);
  void hold(uint32_t packet, const FaultVerdict& verdict, Time now);
  void go_on(uint32_t packet, Time now);
  void go_past(uint32_t packet, Time now);
  void damage_sent(const Packet& packet, uint8_t* frame) const;

  // shard_datagrams.cc: QP1 of all nodes, and their UD queue pairs
  uint32_t store_datagram(const FrameView& view, const RoceView& roce, uint32_t position, Time now);
  void rx_gsi(const FrameView& view, const RoceView& roce, Time now);
  void rx_datagram(const FrameView& view, const RoceView& roce, uint32_t slot, Time now);
  bool from_real_node(const FrameView& view, const NodeNic* to) const;
  void deliver_gsi(uint32_t packet, Time now);
  void echo_datagram(uint32_t packet, uint32_t slot, Time now);
  uint32_t make_datagram(uint32_t position, RoceAddressing addressing, const RoceFields& fields,
                         std::span<const uint8_t> bytes);
  ReplyStatus send_datagram(const Datagram& datagram, NodeId node, Time now);
  ReplyStatus reach(const Datagram& datagram, NodeId node);
  void notify(const Notice& notice, std::span<const uint8_t> bytes);

  // shard_tx.cc: departures
  void send_due(Port& port, Time now, TxSink& sink);
  Time next_departure(const Port& port, uint32_t& cls) const;
  static void mark_finished(std::span<uint8_t> frame);
  bool send(uint32_t packet, Time now, TxSink& sink);
  const HeadTemplate& head_template(const Packet& packet, uint32_t slot);
  void drain_host(Time now, std::span<TxSink* const> sinks);
  void ask_for_real_mac(const NodeNic& node, const IpAddress& own, const IpAddress& target,
                        Time now, std::span<TxSink* const> sinks);

  // shard_commands.cc
  void take_commands(Time now);
  void execute_next(uint32_t count, Time now);
  ReplyStatus execute(const Command& command, Time now);
  void leave_ready_lists(uint32_t slot);
  void apply_rate(uint32_t node, Rate rate);
  uint32_t slot_of(Qpn qpn) const;
  /// False once the packet's queue pair has been removed: what it refers to may be gone, and its
  /// number may be another one's.
  static bool belongs(const Packet& packet, const QpSlot& slot) {
    return slot.generation == packet.owner;
  }

  ShardConfig config_;
  std::vector<Port> ports_;
  std::vector<uint32_t> port_at_;  ///< of real NICs, by position in the node table
  uint32_t here_ = 0;              ///< port that frames come in from
  BigArray<Link> links_;
  BigArray<ReadyList> ready_;    ///< [node * kLines + line]
  std::vector<ReadyList> cnps_;  ///< queue pairs whose CNP waits for their node's link, by node
  std::vector<uint32_t> heard_;  ///< slots that packets came for at this moment
  PacketPool pool_;
  /// Lists whose queue pairs could not send for want of packets, in turn: a FIFO of lists.
  uint32_t first_starved_ = kNoList, last_starved_ = kNoList;
  EventQueue events_;
  std::unique_ptr<SwitchedFabric> fabric_;  ///< null: two links a path
  RegionTable regions_;
  std::vector<ControlCounters> control_users_;  ///< of queue pairs that have gone
  BigArray<QpSlot> qps_;       ///< and behind them a slot for each node: raw_slot()
  BigArray<QpRest> rest_;      ///< by slot
  std::vector<RawQueue> raw_;  ///< by position in the node table
  std::vector<Wake> wakes_;
  std::vector<uint32_t> free_wakes_;
  std::vector<Command> pending_;  ///< commands for later
  std::vector<uint32_t> free_pending_;
  std::array<ReadFrame, kTogether> own_reads_;          ///< where nobody else has read them
  std::array<const ReadFrame*, kTogether> own_read_{};  ///< the same one for all like it
  /// Of the frames that came together.
  struct Run {
    uint32_t open = kNoPacket;  ///< the last of them are there, and the next may join
    uint32_t slot = kNoSlot;    ///< queue pair of the last one ...
    Psn psn;                    ///< ... and its PSN
    uint32_t at = 0;            ///< ... and its place among those that are read together
  };
  Run run_;
  IcrcMemory icrc_memory_;
  std::vector<OwnHead> heads_;  ///< by slot and opcode: see head_template()
  Duration arrival_uncertainty_;
  uint64_t rx_count_ = 0;  ///< for sampled ICRC verification
  CommandQueue control_;
  ByteRing to_host_;
  ByteRing from_host_;
  bool host_waits_ = false;  ///< its oldest frame, for something that comes in or a later poll
  Time host_asks_again_ = Time::never();  ///< for the real NIC's MAC that this frame waits for
  ByteRing notices_;
  Psn gsi_psn_;         ///< of the next datagram from QP1
  Time next_question_;  ///< for the real NIC's MAC
  struct Unresolved {
    const NodeNic* from = nullptr;
    IpAddress own, target;
  };
  Unresolved unresolved_;  ///< who is to ask for that MAC; from: null if nobody
  FaultInjector faults_;
  HeldPackets held_;
  std::vector<uint8_t> scratch_;  ///< a received frame that a fault has changed
};

}  // namespace understudy
