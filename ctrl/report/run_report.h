// What a finished run came to, as plain values, and the judgement on it (design rule 8). Filled by
// the owner of the run (ctrl/shards/collect.h helps), then judged, then written as JSON
// (ctrl/report/json.h) and as a table (ctrl/report/table.h). In virtual time equal runs give equal
// reports: nothing here depends on the machine, the date or where captures were written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctrl/report/drill_report.h"
#include "ctrl/report/flow_report.h"
#include "ctrl/report/timeline.h"
#include "ctrl/report/validity_line.h"
#include "dataplane/base/units.h"

namespace understudy {

/// A command as it was carried out.
struct CommandReport {
  Time at;
  std::string text;
};

/// An event that took links or switches down, or began a PFC storm, in a network; and how long
/// traffic did not flow. dataplane/fabric/recoveries.h says what streams are.
struct OutageReport {
  std::string event;              ///< as CommandReport has it
  Time at;                        ///< when it took effect
  std::optional<Time> rerouted;   ///< when routes left out the last one of its links
  uint64_t stopped = 0;           ///< streams ...
  uint64_t again = 0;             ///< ... that came to flow again
  Duration longest;               ///< until the last one of them did
  std::optional<uint32_t> drill;  ///< position in RunReport::drills of the one that it is part of
};

/// One finished operation of a job.
struct CollectiveReport {
  uint32_t size_index = 0;  ///< position in the job's list of sizes
  uint64_t bytes = 0;
  uint32_t iteration = 0;  ///< from 0, warm-ups and timed operations of a size counted apart
  bool warmup = false;
  uint32_t communicator = 0;  ///< of JobReport::communicators
  Time entry;
  Duration modelled;
  Duration measured;                      ///< as the emulated environment saw it
  std::optional<Duration> node_reported;  ///< as the real node's program measured it
  std::vector<Duration> by_node;          ///< the same of several real nodes, each for itself
  /// When each of the reference nodes that is real entered; not in the JSON.
  std::vector<Time> entry_by_node;
  Duration lateness;                       ///< most on one chain of dependent departures, in sum
  uint64_t size_mismatches = 0;            ///< messages whose length was not the schedule's
  std::optional<uint64_t> wrong_elements;  ///< where each operation is verified (reference node)
  bool faithful = false;                   ///< set by judge()

  Time end() const { return entry + measured; }
};

/// What the real node's program said about all operations of one size, warm-ups among them.
struct NodeCheck {
  uint32_t size_index = 0;
  uint64_t bytes = 0;
  std::optional<uint64_t> wrong_elements;  ///< nothing if it did not verify
};

/// What was inferred, or told by a feed, of one operation.
struct InferredReport {
  std::string operation;  ///< what it was taken for at last
  bool unique = false;    ///< nothing else explains its messages; sends: all sizes are known
  double confidence = 1;  ///< that it was that: 1 if it is unique, else less (belief.h)
  /// Operations that explain its messages; nothing: without end.
  std::optional<uint64_t> explanations = 1;
  std::string other;  ///< the likeliest one of the others; empty: none, or not one only
  /// It has the messages of the operation that the job lists; nothing: it lists none.
  std::optional<bool> right;
  uint64_t late_messages = 0;  ///< that left late, for their operation was not known
  Duration late;               ///< the most
  uint64_t wrong_sizes = 0;    ///< messages that were sent with another size
};

/// A kind of operations that a job's programs have started, which its configuration does not list.
struct FoundKind {
  std::string text;  ///< "all_reduce ring simple of 1048576 B"
  uint64_t bytes = 0;
  std::string type;       ///< of the first one of a group
  uint32_t element = 4;   ///< bytes
  double bus_factor = 1;  ///< as JobReport's
};

/// Of a job whose emulated side knew the communicator only.
struct InferenceReport {
  bool fed = false;  ///< a feed told the operations; else they were inferred
  std::vector<InferredReport> operations;
  std::string lost;  ///< why it lost track, from when on every credit was answered at once
  /// That the feed told of child communicators which no job describes: answered at once.
  uint64_t beside = 0;
};

/// One of several communicators of NCCL's that a job's ranks joined one after another.
struct CommunicatorReport {
  std::optional<Time> joined;      ///< when operations could begin; nothing: never
  std::optional<Time> ended;       ///< nothing: it was there when the run ended
  std::string end;                 ///< how, in words
  uint64_t planned = 0, done = 0;  ///< operations
  bool failed = false;             ///< a queue pair of its
  // Set by judge():
  bool faithful = false;
  bool not_judged = false;  ///< nothing is known to be wrong, but it is no better than an estimate
};

/// One-sided operations of a real rank with emulated ones (docs/nccl 3.16), which answered at once.
struct OneSidedReport {
  uint64_t windows = 0;  ///< that emulated ranks registered with it, each rank's
  uint64_t puts = 0, put_bytes = 0, signals = 0;
  uint64_t answers = 0, answer_bytes = 0;  ///< puts to the real rank
  uint64_t unanswered = 0;  ///< signals and puts without an answer, or without its data
  bool any() const { return puts + signals > 0; }
};

/// Communicators that real ranks made beside a job's own, and that no job describes: emulated ranks
/// answered all messages there at once.
struct AnsweredReport {
  uint64_t communicators = 0;  ///< over which messages went
  uint64_t messages = 0;       ///< to real ranks and from them
  uint64_t operations = 0;     ///< that a feed told of; else nobody counts them
  OneSidedReport one_sided;    ///< of any communicator
};
/// What NCCL's port failover came to at the ends of a job's connections between real and emulated
/// ranks, as far as they are ours (docs/nccl 3.15).
struct FailoverReport {
  uint64_t failed = 0;     ///< devices that were given up
  uint64_t probes = 0;     ///< READs of what had come
  uint64_t repeated = 0;   ///< parts of messages and credits that went again over another device
  uint64_t recovered = 0;  ///< devices that were used again
  uint64_t lost = 0;       ///< devices whose recovery was given up
};

struct JobReport {
  std::string name;
  std::string child_of;                 ///< the job on its first parent; empty: it is no child's
  std::vector<uint32_t> parent_ranks;   ///< of a child: its ranks there, in its order
  std::vector<std::string> ranks;       ///< node names in ring order
  std::vector<std::string> real_nodes;  ///< of these; CollectiveReport::by_node has their times
  uint32_t gpus = 1;                    ///< ranks on each of them
  std::string collective = "all_reduce";
  std::string algorithm = "ring";   ///< "auto" where sizes differ
  std::string protocol = "simple";  ///< the same
  std::string type = "float32";
  uint32_t element = 4;                ///< bytes
  double bus_factor = 1;               ///< nccl-tests': bus bandwidth over algorithm bandwidth
  std::string_view reduction = "sum";  ///< "none": values are only moved
  std::string payload;                 ///< "synthetic" or "exact"
  std::string model = "plan";          ///< modelled times are its plan's, or those of "packets"
  std::string not_judged;              ///< why its times cannot be judged; empty: they can
  std::string standing;  ///< what the operation that did not go on waited for, or empty
  uint64_t planned = 0;  ///< operations that the configuration asks for
  bool listed = true;    ///< else it asks for whatever programs start: `planned` are those done
  std::vector<FoundKind> kinds;  ///< of such a job, by CollectiveReport::size_index
  /// Of a job that joins more than one. Then `planned` and all others are sums over these.
  std::vector<CommunicatorReport> communicators;
  std::optional<uint64_t> communicators_wanted;  ///< of such a job, if it is over after so many
  bool failed = false;                           ///< a queue pair of the job failed
  Time failed_at = Time::never();                ///< when the first one did
  /// When the real ranks' program left, or was found to have failed; never: it did not, or it is
  /// not known. And why it had failed.
  Time left_at = Time::never();
  std::string failure;
  uint64_t violations = 0;  ///< messages of the real node that the protocol forbids
  std::vector<CollectiveReport> collectives;  ///< finished ones, in order
  uint32_t per_iteration = 1;                 ///< operations of an iteration
  /// Of the reference node's ranks; empty if they do nothing but collectives.
  std::vector<IterationReport> iterations;
  std::vector<NodeCheck> node_checks;
  std::optional<InferenceReport> inferred;
  AnsweredReport answered;
  std::optional<FailoverReport> failover;  ///< where it is on
};

/// Of departures of RoCE frames: actual minus scheduled.
struct LatenessReport {
  uint64_t frames = 0;
  Duration p50, p90, p99, p999, max;
};

/// One direction of a node's link that carried anything.
struct LinkReport {
  std::string node;
  bool up = true;  ///< from the node into the fabric
  uint64_t packets = 0;
  uint64_t wire_bytes = 0;  ///< frames and the Ethernet overhead of 24
  uint64_t queue_peak = 0;  ///< most packets that ever waited
  uint64_t dropped = 0;
};

/// What a fault of the configuration came to at one port.
struct FaultReport {
  std::string name;
  uint64_t matched = 0;  ///< packets that it concerns
  uint64_t acted = 0;    ///< times it was carried out
  uint64_t skipped = 0;  ///< times it could not be, for want of room
};

/// Queue pairs of one user (a service, a client, a job) under congestion control, at one port.
struct SenderReport {
  std::string user;
  bool reference = false;  ///< those of the reference node, not of emulated ones
  std::string control;     ///< its [[control]]
  uint64_t queue_pairs = 0;
  uint64_t cnps = 0;  ///< that their rate controllers have heard
  uint64_t rate_cuts = 0;
  Rate lowest;  ///< that any of them had
  Rate final;   ///< mean of the last rate of each
};

/// How frames come to leave a port at their times.
struct PacingReport {
  bool naps = false;                ///< the packet loop sleeps between them; else it spins
  bool device_time_stamps = false;  ///< the device can do it ...
  bool by_device = false;           ///< ... and does, for frames that are known before their time
  unsigned threads = 1;             ///< that the port's packets go through
};

/// PFC frames on a real port. Times are sums over classes.
struct PfcReport {
  bool on = false;        ///< else none are sent, and those that come are counted only
  uint64_t sent = 0;      ///< frames, those that only repeat what was said among them
  uint64_t received = 0;  ///< frames
  Duration told;          ///< the real node had been told to pause
  Duration heard;         ///< it had told the network to
  Duration late;          ///< most that a frame left behind its time
};

struct PortReport {
  std::string name;
  std::string device;  ///< as configured
  std::string node;    ///< the real node behind it
  NamedCounts counters;
  NamedCounts drops;  ///< by reason
  NamedCounts rc_events;
  NamedCounts cm;  ///< RDMA-CM; empty in virtual time
  NamedCounts device_counters;
  LatenessReport lateness;
  std::optional<PacingReport> pacing;  ///< none in virtual time
  PfcReport pfc;
  std::vector<LinkReport> links;
  std::vector<FaultReport> faults;
  std::vector<SenderReport> senders;  ///< those that had queue pairs
};

/// The packet loop did not run for this long.
struct GapReport {
  Time from;
  Duration length;
};

/// The packet loop in real time.
struct LoopReport {
  uint64_t loops = 0, bursts = 0, naps = 0;
  uint64_t gaps = 0;            ///< that were long enough to be written down
  std::vector<GapReport> kept;  ///< the longest of them, by time
};

/// One client of an emulated node's service.
struct ServiceReport {
  std::string node;
  uint16_t port = 0;
  std::string kind;
  std::string client;  ///< its address
  Time from, to;       ///< connection accepted and closed
  std::string error;   ///< empty if it went well
};

/// Clients of services that came after as many as are written down one by one.
struct LeftOutServices {
  uint64_t clients = 0;
  uint64_t failed = 0;  ///< of these: whose connection did not go well, or was refused
};

/// One client on an emulated node.
struct ClientReport {
  std::string node;
  std::string server;  ///< its address
  uint16_t port = 0;
  std::string kind;
  uint32_t bytes = 0;     ///< of one message
  uint64_t messages = 0;  ///< of all its queue pairs
  uint32_t queue_pairs = 0;
  uint64_t completed = 0;      ///< messages that the server has acknowledged or answered
  Time from, to;               ///< first message posted, last one completed
  std::string error;           ///< empty if it went well
  Time ended = Time::never();  ///< its connection, or its call; never(): it was still there
};

/// A real node that was a kernel in virtual time.
struct KernelReport {
  std::string node;
  std::optional<int> exit_status;  ///< of its program; none if the run ended before it
  NamedCounts counters;            ///< of the kernel and its NICs
  Time ended = Time::never();      ///< when it was seen to have ended
};

struct VerdictReport {
  bool faithful = false;
  /// Nothing is known to be wrong, but some of it is no better than an estimate.
  bool not_judged = false;
  uint64_t judged = 0;               ///< timed collectives, services and flows that were looked at
  std::vector<std::string> reasons;  ///< why it is not faithful, or not judged, in plain words
};

struct RunReport {
  std::string program_version;
  std::optional<std::string> dpdk_version;
  std::string configuration_path;  ///< as the caller named it
  std::string configuration_hash;
  /// Paths as the caller named them, and hashes, of the scenario files read on top of it.
  std::vector<std::pair<std::string, std::string>> scenarios;
  uint64_t seed = 0;
  bool virtual_clock = false;
  std::optional<int64_t> started;  ///< real clock: seconds since 1970 UTC
  Duration duration;
  std::optional<std::string> ended_by;  ///< what ended the run before its work was done ("SIGINT")
  double tolerance = 0.01;              ///< allowed lateness as a share of modelled time
  std::vector<CommandReport> commands;
  std::vector<OutageReport> outages;
  std::vector<DrillReport> drills;
  /// By flows that have given up with drills only: else that is an error of the run.
  std::optional<BreakReport> broken_off;
  std::vector<std::string>
      closed;  ///< links, or nodes with theirs, through which nothing comes at the end
  std::vector<JobReport> jobs;
  /// Beside a job something else was on the network, or may have been: another job, a client,
  /// traffic, an event or a fault. Not in the JSON.
  bool others = false;
  std::optional<TrafficReport> traffic;  ///< if the run carried some
  std::vector<TimelineTrack> timeline;   ///< messages, if they were asked for; not in the JSON
  std::vector<PortReport> ports;
  std::optional<LoopReport> loop;         ///< real clock only
  std::optional<uint64_t> capture_drops;  ///< frames missing in the capture, if one was made
  std::vector<ServiceReport> services;
  LeftOutServices services_left_out;
  std::vector<ClientReport> clients;
  std::vector<KernelReport> kernels;
  std::vector<ValidityLine> validity;  ///< how far to trust it, apart from the verdict
  VerdictReport verdict;               ///< set by judge()
};

/// Sets every collective's `faithful` and the run's verdict.
///
/// A collective is faithful if its lateness is within tolerance of its modelled time, all messages
/// had the schedule's sizes and no element is wrong. A service's client was served faithfully if
/// the packet loop's gaps during its connection are within tolerance of the connection's length;
/// the same goes for a client of ours and the time of its traffic. Of clients that were left out
/// only the failures are known: one is enough.
/// The run is faithful if all of these are (warm-ups are forgiven their lateness), all planned
/// operations were done, all programs of kernels ended well, no queue pair failed, the real node
/// kept to the protocol and no device lost frames. Of a job whose model is an estimate only what is
/// wrong is judged; where nothing is, the run is not judged. Errors that a drill expects, and that
/// came as it expects, are none of the run: drills are judged before it
/// (ctrl/report/drills/judge_drills.h).
void judge(RunReport& report);

}  // namespace understudy
