// The sections of the configuration, one reader each, and what they share. Read in this order: a
// later section refers to what an earlier one has defined.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/config/config_limits.h"
#include "ctrl/config/presets/machine.h"
#include "ctrl/config/read/table_reader.h"

namespace understudy {

/// The nodes that one [[node]] table stands for.
struct NodeGroup {
  std::string name;
  NodeId first = 0;
  uint32_t count = 0;
  unsigned line = 0;
  std::optional<Located<IpAddress>> address;
  std::optional<Located<MacAddress>> mac;
};

/// The lines of a prefix's keys, for messages.
struct PrefixLines {
  unsigned v4 = 0;
  unsigned v6 = 0;
};

struct ReadContext {
  explicit ReadContext(std::string file) : errors(std::move(file)) {}

  Config config;
  ErrorList errors;
  std::vector<PrefixLines> prefix_lines;  ///< one per entry of config.prefixes
  std::vector<NodeGroup> groups;
  std::vector<Machine> machines;  ///< of [[node]] tables that name one
  std::unordered_map<std::string, NodeId> node_by_name;
  // False once a table that defines nodes, addresses or ports was wrong: what refers to them may
  // only be missing because of that, and is then not reported again.
  bool nodes_complete = true;
  bool links_complete = true;  // of nodes
  bool machines_complete = true;
  bool addresses_complete = true;
  bool ports_complete = true;
  bool topology_complete = true;

  FileReader read_file;  ///< of files that the configuration names; may be empty

  /// The node of this name; an unknown name is reported as an error of `key`.
  const NodeConfig* resolve(TableReader& table, std::string_view key,
                            const Located<std::string>& name);
  /// The nodes that `name` stands for: one, or with "w*" all that [[node]] w has. Empty, and
  /// reported as an error of `key`, if there are none.
  std::vector<NodeId> resolve_all(TableReader& table, std::string_view key,
                                  const Located<std::string>& name);
};

/// format.
void read_format(TableReader& root);
/// format, seed, [fidelity], [fabric], [limits].
void read_settings(TableReader& root, ReadContext& context);
/// [queues]: priorities by DSCP and PCP.
void read_priority_map(TableReader& queues, ReadContext& context);
/// [queues] and [flows]; after the settings.
void read_queues(TableReader& root, ReadContext& context);
/// [[control]].
void read_controls(TableReader& root, ReadContext& context);
/// [[nic]]; and what the one takes that a [[node]] names by its key nic.
void read_nics(TableReader& root, ReadContext& context);
NicLimits read_node_nic(TableReader& node, ReadContext& context);
/// [[prefix]] and [[node]]: the expanded nodes without addresses.
void read_nodes(TableReader& root, ReadContext& context);
/// Letters, digits, '-', '_' and '.', as many as a host name may have.
bool is_name(std::string_view name);
/// [topology] and [intra_node]; after the nodes.
void read_topology(TableReader& root, ReadContext& context);
/// Gives every NIC its addresses and MAC by rule and reports those given twice. Only for a complete
/// list of nodes: the rule counts them.
void assign_addresses(ReadContext& context);
/// The [[control]] that the key "control" names; null, and reported if it is there but wrong.
const ControlConfig* find_control(TableReader& table, const ReadContext& context);
/// Keys of [[service]], [[client]] and [[job]]: how their queue pairs send. Once it is known who
/// that is, name_sender() tells the report, and looks whether these nodes' links can be controlled.
void read_sender(TableReader& table, ReadContext& context, SenderConfig& sender);
void name_sender(TableReader& table, ReadContext& context, const SenderConfig& sender,
                 std::string name, std::span<const NodeId> nodes);
/// [[client]]; after the ports.
void read_clients(TableReader& root, ReadContext& context);
/// [[port]], [[service]].
void read_ports(TableReader& root, ReadContext& context);
void read_services(TableReader& root, ReadContext& context);
/// [[fault]], of the configuration or of a scenario.
void read_faults(TableReader& root, ReadContext& context);
/// Keys of [[job]]: what its operations are.
void read_operation(TableReader& table, ReadContext& context, JobConfig& job);
/// [[node]] real, where it is a table.
KernelConfig read_kernel(const TomlNode& toml, ReadContext& context);
/// [dimension_costs].
void read_dimension_costs(TableReader& root, ReadContext& context);
/// [[job]] algorithm as a list, one for each dimension of the topology; once the ranks are known
/// they are checked too.
void read_dimension_algorithms(TableReader& table, ReadContext& context, JobConfig& job);
void check_dimension_ranks(TableReader& table, ReadContext& context, const JobConfig& job);
/// Its keys start and after. What the latter names may stand further down.
struct JobOrder {
  const TomlNode* toml = nullptr;  ///< the [[job]]
  std::vector<Located<std::string>> after;
};
JobOrder read_order(const TomlNode& toml, TableReader& table, JobConfig& job);
/// Once all jobs are there: finds those that `orders`, one for each, name, and no cycle of them.
void resolve_orders(ReadContext& context, const std::vector<JobOrder>& orders);
/// Its key matrix, of `ranks` ranks; 0: they are not known.
void read_matrix(TableReader& table, JobConfig& job, uint64_t ranks);
/// Its key ddp: sizes and what is computed, of a network that replicas train.
void read_ddp(const TomlNode& toml, TableReader& table, ReadContext& context, JobConfig& job);
/// Its keys order, compute, injected_delay and jitter, once sizes and numbers are known.
void read_iteration(TableReader& table, ReadContext& context, JobConfig& job, uint64_t ranks);
/// Its key join, once ranks, nic and NCCL's release are known.
void read_join(TableReader& table, ReadContext& context, JobConfig& job);
/// job.queue_pairs and split_data, once NCCL's release is known.
void read_queue_pairs(TableReader& table, JobConfig& job);
/// job.merged_nics, once its ranks are known.
void read_merged_nics(TableReader& table, ReadContext& context, JobConfig& job);
/// Ranks of a communicator, in groups of which each has them in its order.
using RankGroups = std::vector<std::vector<uint32_t>>;
/// The value `toml` of `key`: "all", "node", "local_rank", "/4", "%4", or lists of ranks, which are
/// `ranks`, with `gpus` on each node.
RankGroups read_rank_groups(TableReader& table, const char* key, const TomlNode& toml,
                            uint32_t ranks, uint32_t gpus);
/// Its keys child_of and members: of the children that they mean the one of number `number`, with
/// all that it has of its parent. Returns how many there are; 0, and reported: they are wrong.
size_t read_child(TableReader& table, ReadContext& context, JobConfig& job, size_t number);
/// Once its channels and operations are read: they go with its parent's.
void check_child(TableReader& table, const ReadContext& context, const JobConfig& job);
/// Its key groups, after join. `ranks`: 0 if they are not known.
void read_groups(TableReader& table, JobConfig& job, uint64_t ranks);
/// [[job]]; after the ports.
void read_jobs(TableReader& root, ReadContext& context);
/// [nccl] and [calibration].
void read_nccl(TableReader& root, ReadContext& context);
/// [[traffic]]; after the controls and nodes.
void read_traffic(TableReader& root, ReadContext& context);
/// [model], [parallel], [gpu] and [operations].
void read_model(TableReader& root, ReadContext& context);
/// Of [gpu]: times that were measured.
void read_given_times(TableReader& gpu, ReadContext& context, TrainingConfig& training,
                      TrainingGpu& out);
/// The file that [gpu] table names; of a model and a division that fit.
void read_operator_table(TableReader& gpu, ReadContext& context, const Located<std::string>& name,
                         TrainingConfig& training);
/// [operations].
void read_operations(const TomlNode& toml, ReadContext& context, TrainingConfig& training);
/// [workload].
void read_workload(TableReader& root, ReadContext& context);
/// Nodes whose GPUs are slower, of the key slow: how many times as long they compute.
void read_slow(TableReader& table, std::string_view name, ReadContext& context,
               std::vector<std::pair<NodeId, double>>& slow);
/// [[event]] and [[drill]]; after the traffic.
void read_events(TableReader& root, ReadContext& context);
/// One table of events, which messages call `path`; nothing, and reported: it is wrong.
std::optional<EventConfig> read_event(const TomlNode& toml, std::string path, ReadContext& context);
/// [[drill]]: its events join those of the configuration, behind them.
void read_drills(TableReader& root, ReadContext& context);
/// The value of the key "sizes" of a [[traffic]] table.
void read_sizes(TableReader& table, ReadContext& context, SizeDistribution& sizes);
/// The list of flows in `text`, which is that of the CSV file `file` of a [[traffic]] table.
/// Errors are reported with its name and lines.
std::vector<ListedFlow> read_flow_list(const std::string& text, const std::string& file,
                                       ReadContext& context);

}  // namespace understudy
