// The configuration of a run as plain values (`format = 1`): what a TOML file says once it has been
// read, expanded and checked. Nodes are expanded (one entry each), names are resolved to indices,
// units are strong types. Reading and checking: ctrl/config/read/load.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collective_model/nccl/operation.h"
#include "collective_model/predict/dimension_time.h"
#include "ctrl/config/child_config.h"
#include "ctrl/config/control_config.h"
#include "ctrl/config/events/event_config.h"
#include "ctrl/config/feed_config.h"
#include "ctrl/config/iteration_config.h"
#include "ctrl/config/kernel_config.h"
#include "ctrl/config/nccl_config.h"
#include "ctrl/config/nccl_join_config.h"
#include "ctrl/config/queues_config.h"
#include "ctrl/config/sender_config.h"
#include "ctrl/config/service_kind.h"
#include "ctrl/config/topology_config.h"
#include "ctrl/config/traffic_config.h"
#include "ctrl/config/training_config.h"
#include "ctrl/config/workload_config.h"
#include "dataplane/base/address.h"
#include "dataplane/base/ids.h"
#include "dataplane/base/nic_limits.h"
#include "dataplane/base/units.h"
#include "dataplane/fabric/faults.h"

namespace understudy {

/// How the dataplane's loop waits for its next wake-up.
enum class IdleMode { kSpin, kSleep };
/// Which received packets have their ICRC verified.
enum class IcrcVerify { kFull, kSampled, kOff };
/// Whether ACKs, CNPs and credits share the data's class on a link or have a class of their own
/// that takes no data rate.
enum class ControlClass { kShared, kSeparate };
/// How a queue pair's UDP source port is chosen, on which ECMP and steering of flows depend.
enum class UdpSourcePort {
  kLinux,   ///< from both queue pair numbers, as Linux does
  kRandom,  ///< 14 bits from the seed and both numbers
  kFixed,   ///< 0xC000 for all
};
/// How [[traffic]] loads the fabric: packet by packet, or as flows with max-min fair rates.
enum class FabricFidelity { kPacket, kFlow };
/// Contents of what emulated ranks send: free, or values that are really reduced.
enum class PayloadMode { kSynthetic, kExact };
/// When an operation starts: at a planned time for all ranks, or at the real rank's first credit.
enum class EntryMode { kScheduled, kFirstCredit };
/// How the emulated ranks of a job know its operations.
enum class OperationsMode { kTold, kInferred, kFed };
/// What is behind the memory that a service exposes.
enum class MemoryKind {
  kDiscard,  ///< WRITEs are forgotten, READs give zeros
  kPattern,  ///< WRITEs are forgotten, READs give what follows from the place
  kBacked,   ///< contents are kept
};

struct FidelityConfig {
  double tolerance = 0.01;  ///< allowed lateness as a share of modelled time, in (0, 1]
  IdleMode idle = IdleMode::kSpin;
  IcrcVerify verify_icrc = IcrcVerify::kFull;
};

/// CNPs of emulated receivers (rule A6). Defaults: NVIDIA's adapters.
struct CnpConfig {
  bool on = true;  ///< false: marks are counted and nobody is told
  Duration interval = Duration::us(4);
  uint8_t dscp = 48;
  uint8_t pcp = 6;  ///< of their tag, on a rail that has one
};

/// Who has queue pairs under congestion control: a service, a client or a job.
struct ControlUser {
  std::string name;      ///< as reports call it
  uint32_t control = 0;  ///< position in Config::controls
};

struct FabricConfig {
  FabricFidelity fidelity = FabricFidelity::kPacket;
  uint32_t mtu = 4096;  ///< path MTU of emulated senders: 256, 512, 1024, 2048 or 4096 bytes
  ControlClass control_class = ControlClass::kShared;
  bool icmp_through = false;  ///< ICMP echo crosses the modelled links too
  bool pacing = true;         ///< false: emulated queues take no time (for experiments)
  UdpSourcePort udp_source_port = UdpSourcePort::kLinux;
  /// A packet's head is forwarded before its tail has come; false: store and forward, of
  /// [[traffic]].
  bool cut_through = true;
  /// Times on links are cut to whole multiples of it, of [[traffic]]; zero: exact.
  Duration time_resolution;
  CnpConfig cnp;
};

/// Most that a port holds at once: all memory that peers can make it use.
struct LimitsConfig {
  std::optional<uint32_t> packets;  ///< on their way; without: by the jobs' windows
  uint32_t queue_pairs = 4096;
  uint32_t regions = 4096;
};

/// The address plan of one rail: NIC `nic` of node i has the address host(first + i).
struct PrefixConfig {
  unsigned nic = 0;
  std::optional<IpPrefix> v4;
  std::optional<IpPrefix> v6;
  std::optional<uint16_t> vlan;  ///< VLAN id 1..4094 of the rail; untagged without
  uint8_t pcp = 0;               ///< priority of the tag, 0..7
  uint32_t first = 1;
  unsigned line = 0;  ///< in the configuration file
};

struct NicConfig {
  MacAddress mac;
  std::optional<IpAddress> v4;
  std::optional<IpAddress> v6;
  unsigned v4_prefix_len = 0;  ///< meaningful with v4
  unsigned v6_prefix_len = 0;  ///< meaningful with v6
  std::optional<uint16_t> vlan;
  uint8_t pcp = 0;
  Rate link_rate;         ///< modelled rate of the NIC's link, each direction
  Duration link_latency;  ///< a path's one-way latency is the sum of both ends' links
  NicLimits limits;       ///< what it takes beside
};

/// A [[nic]].
struct NicKind {
  std::string name;
  NicLimits limits;
  unsigned line = 0;
};

struct NodeConfig {
  std::string name;
  NodeId index = 0;  ///< position in Config::nodes
  unsigned gpus = 1;
  bool real = false;
  std::optional<KernelConfig> kernel;  ///< of a real node in virtual time
  std::vector<NicConfig> nics;
  unsigned line = 0;  ///< of the [[node]] table it was expanded from
};

/// A real NIC and the device through which it is reached.
struct PortConfig {
  NodeId node = 0;
  unsigned nic = 0;
  std::string device;  ///< DPDK vdev string or PCI address; "virtual" has no device (simulate only)
  Rate physical = Rate::unlimited();  ///< rate of the wire itself
  bool transmit_time_stamps = false;  ///< the device sends frames at their times
  unsigned cores = 1;                 ///< threads that its packets go through, in run: 1, 2 or 3
  bool pfc = false;                   ///< pauses of the model are PFC frames on the wire too
  unsigned line = 0;
};

/// How messages between emulated ranks go: through the network packet by packet, or in the plan's
/// times.
enum class InnerMode : uint8_t { kPackets, kTimes };

/// Collectives of one communicator. job_operation.h says what a run makes of it.
struct JobConfig {
  std::string name;
  Collective collective = Collective::kAllReduce;
  std::optional<Algorithm> algorithm = Algorithm::kRing;  ///< without: NCCL's choice
  std::optional<Protocol> protocol = Protocol::kSimple;   ///< without: NCCL's choice
  DataType type = DataType::kFloat32;
  NcclVersion nccl;
  uint32_t root = 0;          ///< rank, of collectives that have one
  std::vector<NodeId> ranks;  ///< nodes in ring order, each once
  /// Ranks on each node, its GPUs 0 and on. Without: as many as every node of it has; these are 1
  /// where nothing is said.
  std::optional<uint32_t> gpus;
  unsigned nic = 0;
  /// NICs of each node, from `nic` on, that NCCL takes for one device; of a node with fewer all.
  uint32_t merged_nics = 1;
  /// Bytes of one operation as nccl-tests count them: of the larger of both buffers. Each is a
  /// positive multiple of the type, and of the ranks where every rank has a part.
  std::vector<uint64_t> sizes;
  /// The file lists the operations. Else they are whatever the real ranks' programs start, `sizes`
  /// has one usual size, and `operations` is not kTold.
  bool listed = true;
  /// Of all_to_all_v, which has the one size of its longest row: bytes of rank a for rank b, at
  /// a * ranks + b.
  std::vector<uint64_t> matrix;
  bool group = false;  ///< operations of all sizes are enqueued together
  uint32_t iterations = 1;
  uint32_t warmup = 0;
  uint32_t channels = 1;
  /// Of each connection between nodes, for each of its NICs, of a job without real nodes:
  /// NCCL_IB_QPS_PER_CONNECTION. Messages are split over them, or take them in turn.
  uint32_t queue_pairs = 1;
  bool split_data = false;
  uint32_t search_channels = 0;  ///< as Communicator::search_channels
  /// With an algorithm for each dimension of the topology, which then is the job's whole network.
  std::vector<Dimension> dimensions;
  uint32_t splits = 1;                  ///< chunks that follow each other through the dimensions
  ReduceOp reduction = ReduceOp::kSum;  ///< of exact payload
  PayloadMode payload = PayloadMode::kSynthetic;
  Duration step_cost;  ///< of one reduce or copy step on an emulated rank
  EntryMode entry = EntryMode::kScheduled;
  bool entry_told = false;  ///< the file says it; otherwise the way of running may take the other
  /// How emulated ranks know what the real ones do; other than kTold: beside a real node.
  OperationsMode operations = OperationsMode::kTold;
  FeedConfig feed;  ///< of kFed
  /// How messages between emulated ranks reach each other beside a real node; without: what the
  /// way of running takes.
  std::optional<InnerMode> inner;
  Time start;  ///< since the start of the run: no rank begins before
  /// Jobs, by position, whose last operations are done before a rank begins: on its own node, or
  /// everywhere where such a job has no rank there.
  std::vector<uint32_t> after;
  Duration interval;           ///< from the end of one iteration to the next one's start
  Duration period;             ///< ranks enter at its multiples on a clock of all; 0: at any time
  std::vector<Duration> skew;  ///< per rank, same length as ranks: how late it enters
  IterationConfig iteration;
  SenderConfig sender;  ///< of every rank
  /// The real ranks are NCCL's in run; without: ring_node's.
  std::optional<NcclJoinConfig> join;
  /// Of such jobs: who is in the communicators beyond the first one, in the order in which the
  /// program makes them. An entry is what one ncclCommSplit or ncclCommShrink makes, or PyTorch's
  /// new_group()s one after the other: groups of ranks, each rank in one of them or in none.
  std::vector<std::vector<std::vector<uint32_t>>> groups;
  /// Its communicator is a child of another job's, whose join this has, too.
  std::optional<ChildConfig> child;
  unsigned line = 0;
};

/// A server on an emulated node's own address.
struct ServiceConfig {
  NodeId node = 0;
  uint16_t port = 0;  ///< TCP
  ServiceKind kind = ServiceKind::kAuto;
  bool unreliable = false;  ///< clients that do not say it have unreliable connections
  MemoryKind memory = MemoryKind::kDiscard;
  uint32_t message_bytes = 0;    ///< that its clients write; 0: not known
  uint32_t pingpong_mtu = 1024;  ///< path MTU of ibv_rc_pingpong, which does not tell it
  Duration accept_delay;         ///< from a REQ of RDMA-CM to its REP
  SenderConfig sender;
  unsigned line = 0;
};

/// A client on an emulated node, of perftest or rping, against a server on a real one.
struct ClientConfig {
  NodeId node = 0;
  NodeId server = 0;
  uint16_t port = 18515;                     ///< of the server: TCP, or RDMA-CM's TCP space
  ServiceKind kind = ServiceKind::kWriteBw;  ///< kWriteBw, kSendBw, kReadBw or kRping
  bool rdma_cm = false;                      ///< connects by RDMA-CM: perftest's -R; always rping
  uint32_t bytes = 65536;                    ///< of one message
  uint32_t iterations = 1000;                ///< messages of one queue pair
  uint32_t queue_pairs = 1;
  Duration at;  ///< since the start of the run: when it dials first
  SenderConfig sender;
  unsigned line = 0;
};

/// A fault that is injected on purpose, and how the report calls it.
struct FaultConfig {
  std::string name;
  Fault fault;
  unsigned line = 0;  ///< in the configuration, or in the scenario
};

/// A scenario file that was read on top of the configuration.
struct ScenarioConfig {
  std::string path;  ///< as it was named by the caller
  std::string hash;
};

struct Config {
  uint64_t seed = 1;
  FidelityConfig fidelity;
  FabricConfig fabric;
  LimitsConfig limits;
  std::vector<ControlConfig> controls;
  std::vector<ControlUser> control_users;
  QueuesConfig queues;
  std::vector<PrefixConfig> prefixes;
  std::vector<NicKind> nic_kinds;
  std::vector<NodeConfig> nodes;
  std::optional<TopologyConfig> topology;     ///< without: one ideal switch
  std::optional<IntraNodeConfig> intra_node;  ///< only with a topology
  std::vector<PortConfig> ports;
  DimensionCosts dimension_costs;
  std::optional<NcclConfig> nccl;
  std::optional<Calibration> calibration;            ///< without: GPUs cost nothing but step_cost
  std::vector<CalibrationTable> calibration_tables;  ///< that it was fitted to; empty: not told
  std::vector<JobConfig> jobs;
  std::vector<ServiceConfig> services;
  std::vector<ClientConfig> clients;
  std::vector<EventConfig> events;  ///< in order of time, those of drills among them
  std::vector<DrillConfig> drills;
  std::vector<TrafficConfig> traffic;
  std::optional<TrainingConfig> training;
  std::optional<WorkloadConfig> workload;
  std::vector<FaultConfig> faults;  ///< in the order in which they act
  std::vector<ScenarioConfig> scenarios;
  std::vector<std::string> machine_notes;  ///< where the file says other things than a machine type

  std::string path;         ///< of the file as it was named by the caller
  std::string source_text;  ///< the file's bytes
  std::string hash;         ///< of source_text: "fnv1a64:" and 16 hex digits

  /// The node of this name, or null. Valid while `nodes` is unchanged.
  const NodeConfig* find_node(std::string_view name) const;
  /// The same for [[control]].
  const ControlConfig* find_control(std::string_view name) const;
};

}  // namespace understudy
