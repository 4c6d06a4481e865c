#include "ctrl/compile/environment/node_environment.h"

#include <algorithm>
#include <cstdio>

#include "ctrl/compile/environment/choices.h"
#include "ctrl/compile/environment/outage_notes.h"
#include "ctrl/compile/shard_config.h"
#include "ctrl/config/job_operation.h"
#include "ctrl/config/merged_nics.h"

namespace understudy {
namespace {

constexpr size_t kNeighbourTable = 1024;  ///< Linux' net.ipv4.neigh.default.gc_thresh3

const NodeConfig& real_node(const Config& config, const JobConfig& job) {
  return config.nodes[*std::ranges::find_if(job.ranks,
                                            [&](NodeId node) { return config.nodes[node].real; })];
}

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string endpoint_text(const IpAddress& address, uint16_t port) {
  const std::string host = address.is_v4() ? address.text() : "[" + address.text() + "]";
  return host + ":" + std::to_string(port);
}

/// "NICs 0 and 1, NICs 2 and 3".
std::string groups_text(const std::vector<std::vector<unsigned>>& nics) {
  std::string text;
  for (const auto& group : nics) {
    text += text.empty() ? "NICs " : ", NICs ";
    for (size_t n = 0; n < group.size(); ++n) {
      const bool last = n + 1 == group.size();
      text += (n == 0 ? "" : last ? " and " : ", ") + std::to_string(group[n]);
    }
  }
  return text;
}

class Settings {
 public:
  Settings(const Config& config, const JobConfig& job)
      : config_(config), job_(job), nics_(rank_nics(config, job, real_node(config, job))) {}

  std::vector<NodeSetting> all() {
    network();
    communicator();
    choices();
    for (const EnvironmentVariable& variable :
         config_.nccl ? config_.nccl->environment : std::vector<EnvironmentVariable>()) {
      add(variable.name, quoted(variable.value), "[nccl] environment of the configuration");
    }
    return std::move(out_);
  }

 private:
  void add(std::string name, std::string value, std::string reason) {
    // What the configuration says of its own goes last and holds.
    std::erase_if(out_, [&](const NodeSetting& other) { return other.name == name; });
    out_.push_back({std::move(name), std::move(value), std::move(reason)});
  }
  bool since(uint32_t minor) const { return job_.nccl >= NcclVersion{minor}; }

  void network() {
    add("NCCL_SOCKET_IFNAME", "\"=$understudy_if\"",
        "its bootstrap goes over the interface behind which the emulated nodes are");
    add("NCCL_NET", "IB", "RoCE, never TCP sockets");
    add("NCCL_NET_PLUGIN", "none",
        "a network plugin, as containers bring one, lays its messages out in its own way");
    add("NCCL_IB_HCA", "\"=$understudy_hca\"",
        nics_.size() > 1       ? "the NICs of the node's ranks and no other"
        : job_.merged_nics > 1 ? "the ports of that NIC and no other"
                               : "the NIC of that interface and no other");
    add("NCCL_IB_GID_INDEX", "\"$understudy_gid\"",
        nics_.size() > 1 ? "of each the RoCEv2 GID with the address that the configuration gives it"
                         : "its RoCEv2 GID with the address that the configuration gives the node");
    if (job_.sender.traffic_class != 0) {
      add("NCCL_IB_TC", std::to_string(job_.sender.traffic_class), "traffic_class of the job");
    }
    add("NCCL_IB_ADAPTIVE_ROUTING", "0", "one write a message; RoCE's default, said for clarity");
    if (since(20)) merging();
    if (job_.join->queue_pairs != 1) {
      add("NCCL_IB_QPS_PER_CONNECTION", std::to_string(job_.join->queue_pairs),
          "queue_pairs of the job's join");
    }
    if (job_.join->split_data) {
      add("NCCL_IB_SPLIT_DATA_ON_QPS", *job_.join->split_data ? "1" : "0",
          "split_data of the job's join");
    }
    add("NCCL_PXN_DISABLE", "1",
        "data do not take the detour by another GPU's NIC, which the model does not know");
    // With 0 the last GPU of a ring's chain takes the first one's NIC, and sends and receives that
    // of the other end's GPU (docs/nccl 2.5).
    if (nics_.size() > 1) {
      add("NCCL_CROSS_NIC", "1",
          "each rank takes the NIC next to its GPU, whatever NIC the other end has");
    } else if (since(29)) {
      add("NCCL_CROSS_NIC", "1",
          "with one NIC rings do not change, and with 0 there is no RMA proxy");
    } else {
      add("NCCL_CROSS_NIC", "0", "rings stay on their rail");
    }
  }

  void merging() {
    const size_t merged = nics_.front().size();
    if (merged == 1) {
      return add("NCCL_IB_MERGE_NICS", "0",
                 "two ports of a NIC are not one device with two halves");
    }
    std::string why =
        "merged_nics of the job: " + std::to_string(merged) + " ports of a NIC are one device";
    if (!since(24)) {
      why += "; up to 2.23 it merges ports of one card only, and these have to be such: " +
             groups_text(nics_);
    }
    add("NCCL_IB_MERGE_NICS", "1", why);
    if (!since(24)) return;
    add("NCCL_NET_FORCE_MERGE",
        nics_.size() == 1 ? "\"$understudy_hca\"" : "\"$understudy_merged\"",
        nics_.size() == 1 ? "these, wherever they are in the node"
                          : groups_text(nics_) + ", wherever they are in the node");
  }

  void communicator() {
    const NcclJoinConfig& join = *job_.join;
    const std::string where = endpoint_text(join.address, join.port);
    switch (join.way) {
      case NcclJoinConfig::Way::kCommId:
        add("NCCL_COMM_ID", quoted(where), "where the communicator's root is, rank 0's");
        break;
      case NcclJoinConfig::Way::kStore:
        add("MASTER_ADDR", quoted(join.address.text()), "PyTorch's store, which rank 0 serves");
        add("MASTER_PORT", std::to_string(join.port), "its port");
        add("WORLD_SIZE", std::to_string(job_rank_count(config_, job_)),
            "real and emulated ranks together; torchrun sets it by --nnodes and --nproc-per-node");
        break;
      case NcclJoinConfig::Way::kRendezvous:  // torchrun sets all of it
      case NcclJoinConfig::Way::kFile:
        break;
    }
    if (since(24)) {
      add("NCCL_RAS_ENABLE", "0", "its threads would look for those of the emulated ranks");
    }
    if (since(21)) add("NCCL_MNNVL_ENABLE", "0", "emulated nodes share no NVLink with others");
    add("NCCL_NVLS_ENABLE", "0", "emulated ranks know rings, trees and PAT");
    add("NCCL_COLLNET_ENABLE", "0", "there are no switches that reduce");
    if (since(28) && !since(30)) {
      add("NCCL_GIN_TYPE", "2",
          "2.28.7 to 2.29.3 crash at their start where no NIC is one of mlx5's");
    }
    if (since(29)) {
      add("NCCL_SYM_GIN_KERNELS_ENABLE", "0",
          "emulated ranks carry out no collective of NCCL's kernels over GIN, for which it "
          "connects with the first window");
    }
    if (since(22)) {
      add("NCCL_RUNTIME_CONNECT", "0", "all connections are made, or fail, at the start");
    }
    if (job_.operations == OperationsMode::kFed) {
      const auto first =
          std::ranges::find_if(job_.ranks, [&](NodeId node) { return !config_.nodes[node].real; });
      add("NCCL_PROFILER_PLUGIN", "\"${UNDERSTUDY_PLUGIN:-understudy}\"",
          "libnccl-profiler-understudy.so tells which operations begin; set UNDERSTUDY_PLUGIN to "
          "its path");
      if (first != job_.ranks.end()) {
        add("UNDERSTUDY_FEED",
            quoted(
                endpoint_text(roce_address(config_.nodes[*first].nics[job_.nic]), job_.feed.port)),
            "where it tells them");
      }
    }
  }

  void choices() {
    const std::string channels = std::to_string(job_.channels);
    add("NCCL_MIN_NCHANNELS", channels, "channels of the job");
    add("NCCL_MAX_NCHANNELS", channels, "the same");
    choose("NCCL_ALGO", algorithm_choice(config_, job_));
    choose("NCCL_PROTO", protocol_choice(config_, job_));
  }

  void choose(const char* name, const ChoiceValue& choice) {
    if (!choice.value.empty()) {
      const bool list = choice.value.find(';') != std::string::npos;
      add(name, list ? quoted(choice.value) : choice.value, choice.reason);
    } else if (!choice.reason.empty()) {
      out_.push_back({name, "", "not set, so that NCCL chooses: " + choice.reason});
    }
  }

  const Config& config_;
  const JobConfig& job_;
  const std::vector<std::vector<unsigned>> nics_;  ///< of the node's ranks, by NCCL's device
  std::vector<NodeSetting> out_;
};

std::string gid_text(const IpAddress& address) {
  std::string gid;
  char digits[8];
  for (size_t i = 0; i < 16; i += 2) {
    std::snprintf(digits, sizeof digits, "%s%02x%02x", i == 0 ? "" : ":", address.gid()[i],
                  address.gid()[i + 1]);
    gid += digits;
  }
  return gid;
}

/// The soft NIC, where its settings say that it is used: its device is in no sysfs, and has one
/// GID.
std::string soft_nic_finder(const IpAddress& address) {
  return "if [ -z \"$understudy_found\" ] && [ -n "
         "\"${UNDERSTUDY_SOFT_NIC:-}${UNDERSTUDY_SOFT_NIC_ADDRESS:-}\" ]; then\n"
         "  understudy_found=${UNDERSTUDY_SOFT_NIC_NAME:-understudy0} understudy_gid=0\n"
         "  export UNDERSTUDY_SOFT_NIC_ADDRESS=\"${UNDERSTUDY_SOFT_NIC_ADDRESS:-" +
         address.text() +
         "}\"\n"
         "fi\n";
}

/// Sets understudy_found and understudy_gid: the RDMA device of an address and its GID's index.
std::string device_finder(const IpAddress& address) {
  const std::string gid = gid_text(address);
  return "understudy_found= understudy_gid=\n"
         "for understudy_type in /sys/class/infiniband/*/ports/1/gid_attrs/types/*; do\n"
         "  understudy_port=${understudy_type%/gid_attrs/types/*}\n"
         "  understudy_index=${understudy_type##*/}\n"
         "  [ \"$(cat \"$understudy_port/gids/$understudy_index\" 2>/dev/null)\" = " +
         gid +
         " ] || continue\n"
         "  [ \"$(cat \"$understudy_type\" 2>/dev/null)\" = \"RoCE v2\" ] || continue\n"
         "  understudy_gid=$understudy_index\n"
         "  understudy_found=${understudy_port#/sys/class/infiniband/}\n"
         "  understudy_found=${understudy_found%/ports/1}\n"
         "  break\n"
         "done\n" +
         soft_nic_finder(address) +
         "[ -n \"$understudy_found\" ] || echo \"understudy: no RDMA device of this node has the "
         "RoCEv2 GID " +
         gid + "\" >&2\n";
}

/// The interface that has the address.
std::string interface_finder(const IpAddress& address) {
  return "understudy_if=$(ip -o addr show to " + address.text() +
         " | awk '{print $2; exit}')\n"
         "[ -n \"$understudy_if\" ] || echo \"understudy: no interface of this node "
         "has the address " +
         address.text() + "\" >&2\n";
}

/// Takes the device that was found to those of the node.
std::string taken(const IpAddress& address) {
  return "case \",$understudy_hca,\" in *\",${understudy_found:-/},\"*) echo \"understudy: " +
         address.text() +
         " and another address of the node are of one RDMA device, $understudy_found\" >&2 ;; "
         "esac\n"
         "understudy_hca=$understudy_hca,$understudy_found\n"
         "[ \"$understudy_gid\" = \"$understudy_first\" ] || echo \"understudy: the RoCEv2 GIDs "
         "of all NICs of the ranks must have the same index; that of " +
         address.text() + " is $understudy_gid, of the first $understudy_first\" >&2\n";
}

/// The RDMA devices of all addresses, and their GIDs' index. `devices`: as NCCL sees them; of
/// several understudy_merged has a semicolon between them, which is NCCL_NET_FORCE_MERGE's form.
std::string finder(const std::vector<std::vector<IpAddress>>& devices) {
  std::string text;
  bool first = true;
  for (const auto& addresses : devices) {
    const char* between = ";";
    for (const IpAddress& address : addresses) {
      text += device_finder(address);
      text += first ? "understudy_hca=$understudy_found understudy_first=$understudy_gid\n"
                    : taken(address);
      if (devices.size() > 1) {
        text += first ? "understudy_merged=$understudy_found\n"
                      : "understudy_merged=\"$understudy_merged" + std::string(between) +
                            "$understudy_found\"\n";
      }
      between = ",";
      first = false;
    }
  }
  return text;
}

std::string ranks_text(const Config& config, const JobConfig& job) {
  const uint32_t gpus = gpus_per_node(config, job);
  std::string text;
  for (size_t i = 0; i < job.ranks.size(); ++i) {
    if (!config.nodes[job.ranks[i]].real) continue;
    for (uint32_t g = 0; g < gpus; ++g) {
      text += (text.empty() ? "" : ", ") + std::to_string(i * gpus + g);
    }
  }
  return text;
}

/// Each real node's command line: they differ in who serves the rendezvous' store, and in their
/// addresses. torch 1.x has no --local-addr.
std::string torchrun_text(const Config& config, const JobConfig& job) {
  const NcclJoinConfig& join = *job.join;
  const bool has_local_addr = !join.torch.starts_with("1.");
  std::string text = "# torchrun starts the program, on ";
  const auto real =
      std::ranges::count_if(job.ranks, [&](NodeId node) { return config.nodes[node].real; });
  text += real == 1 ? "that node:\n" : "each real node, in the order of the job's ranks:\n";
  for (const NodeId id : job.ranks) {
    const NodeConfig& node = config.nodes[id];
    if (!node.real) continue;
    const IpAddress address = roce_address(node.nics[job.nic]);
    text += "#     torchrun --nnodes " + std::to_string(job.ranks.size()) + " --nproc-per-node " +
            std::to_string(gpus_per_node(config, job)) + " --rdzv-backend c10d --rdzv-endpoint " +
            endpoint_text(join.address, join.port) + " --rdzv-id " + quoted(join.run_id) +
            " --rdzv-conf is_host=" + (address == join.address ? "1" : "0") +
            (has_local_addr ? " --local-addr " + address.text() : "") + " PROGRAM\n";
  }
  return text;
}

}  // namespace

std::vector<NodeSetting> node_settings(const Config& config, const JobConfig& job) {
  return Settings(config, job).all();
}

namespace {

/// Linux drops new entries silently: some emulated ranks then never answer. The limit is one for
/// all network namespaces, and stands in the first one only.
std::string neighbour_table(const Config& config, const JobConfig& job) {
  const bool v4 = roce_address(real_node(config, job).nics[job.nic]).is_v4();
  const std::string family = v4 ? "ipv4" : "ipv6";
  const size_t others = 64, nodes = job.ranks.size();
  const auto key = [&](const char* name, size_t entries) {
    return "net." + family + ".neigh.default." + name + "=" + std::to_string(entries);
  };
  const std::string raise =
      "sysctl -w " + key("gc_thresh3", 4 * nodes) + " " + key("gc_thresh2", 2 * nodes);
  const std::string enough = std::to_string(nodes + others);
  return "# Its neighbour table must hold all emulated nodes, as root:\n#     " + raise +
         "\nunderstudy_table=$(cat /proc/sys/net/" + family +
         "/neigh/default/gc_thresh3 2>/dev/null)\n[ \"${understudy_table:-" + enough + "}\" -ge " +
         enough +
         " ] || echo \"understudy: the neighbour table of this node holds $understudy_table "
         "entries, too few for " +
         std::to_string(nodes) + " nodes: " + raise + "\" >&2\n";
}

}  // namespace

std::string node_environment(const Config& config, const JobConfig& job) {
  const NodeConfig& node = real_node(config, job);
  std::vector<std::vector<IpAddress>> devices;
  for (const auto& nics : rank_nics(config, job, node)) {
    devices.emplace_back();
    for (const unsigned nic : nics) devices.back().push_back(roce_address(node.nics[nic]));
  }
  std::string text = "# Environment of job \"" + job.name + "\" on node \"" + node.name +
                     "\", by understudy env " + config.path +
                     "\n"
                     "# Source it in the shell that starts the program there. Its ranks: " +
                     ranks_text(config, job) + " of " +
                     std::to_string(job_rank_count(config, job)) + ".\n";
  if (job.join->way == NcclJoinConfig::Way::kFile) {
    text += "# The unique id goes through the file " + job.join->file + ", which " +
            (config.nodes[job.ranks.front()].real ? "rank 0's program writes"
                                                  : "understudy run writes") +
            ".\n";
  }
  if (job.join->way == NcclJoinConfig::Way::kRendezvous) text += torchrun_text(config, job);
  text += "# An MTU of the interface of 4200 bytes or more gives a path MTU of 4096.\n";
  if (job.ranks.size() > kNeighbourTable / 2) text += neighbour_table(config, job);
  text += "\n" + interface_finder(roce_address(node.nics[job.nic])) + finder(devices) + "\n";
  for (const NodeSetting& setting : node_settings(config, job)) {
    if (setting.value.empty()) {
      text += "# " + setting.name + " is " + setting.reason + "\n";
      continue;
    }
    text += "# " + setting.reason + "\nexport " + setting.name + "=" + setting.value + "\n";
  }
  return text + "\n" + outage_notes(config, job);
}

Result<const JobConfig*> joined_job(const Config& config, const std::string& name) {
  const JobConfig* found = nullptr;
  for (const JobConfig& job : config.jobs) {
    if (!name.empty() && job.name != name) continue;
    if (!job.join) {
      if (!name.empty()) {
        return fail(config.path + ":" + std::to_string(job.line) + ": job: \"" + name +
                    "\" is not NCCL's: it has no key join");
      }
      continue;
    }
    if (job.child && name.empty()) continue;  // its program is its parent's
    if (job.child) {
      return fail(config.path + ":" + std::to_string(job.line) + ": job: \"" + name +
                  "\" is a child of job \"" + config.jobs[job.child->job].name +
                  "\": name that one, whose program it is");
    }
    if (found != nullptr) return fail(config.path + ": several jobs have a key join: name one");
    found = &job;
  }
  if (found == nullptr) {
    return fail(config.path +
                (name.empty() ? ": no job has a key join" : ": no job is called \"" + name + "\""));
  }
  if (std::ranges::none_of(found->ranks, [&](NodeId node) { return config.nodes[node].real; })) {
    return fail(config.path + ":" + std::to_string(found->line) +
                ": job: none of its ranks is on a node with real = true");
  }
  return found;
}

}  // namespace understudy
