// job.join: how the emulated ranks of a job find NCCL's communicator.
#include <algorithm>

#include "ctrl/config/read/sections.h"
#include "ctrl/config/shared_place.h"
#include "ctrl/config/torch_release.h"
#include "dataplane/base/socket_address.h"

namespace understudy {
namespace {

/// Older ones lay their messages out in ways that nobody has looked at.
constexpr NcclVersion kOldestToJoin{18};
/// Up to here each process draws the root's magic even where NCCL_COMM_ID is set (bootstrap.cc of
/// NCCL 2.21.5).
constexpr NcclVersion kNewestWithSecretMagic{21};

constexpr int64_t kMostCommunicators = 1'000'000;
constexpr int64_t kMostQueuePairs = 128;  ///< NCCL_IB_MAX_QPS of one connection

/// Its comparison of IPv4 networks is the wrong way round (src/os/linux.cc, matchSubnet, of 2.29.2
/// to 2.29.7; seen with 2.29.7).
constexpr NcclVersion kWrongInterface{29};

class JoinReader {
 public:
  JoinReader(const TomlNode& toml, ReadContext& context, JobConfig& job)
      : table_(toml, "job.join", context.errors), config_(context.config), job_(job) {
    join_.line = toml.line;
  }

  void run() {
    unsigned ways = 0;
    if (const auto text = table_.text("comm_id")) {
      ++ways;
      join_.way = NcclJoinConfig::Way::kCommId;
      read_endpoint(*text, "comm_id");
      check_magic(*text);
    }
    if (const auto text = table_.text("file")) {
      ++ways;
      join_.way = NcclJoinConfig::Way::kFile;
      join_.file = text->value;
      if (text->value.empty()) table_.error(text->line, "file", "an empty text", "a file's name");
    }
    if (const auto text = table_.text("master")) {
      ++ways;
      join_.way = NcclJoinConfig::Way::kStore;
      read_endpoint(*text, "master");
    }
    if (const auto text = table_.text("rendezvous")) {
      ++ways;
      join_.way = NcclJoinConfig::Way::kRendezvous;
      read_endpoint(*text, "rendezvous");
    }
    read_run_id();
    if (const auto text = table_.text("torch")) {
      join_.torch = text->value;
      if (text->value != "auto" && !store_generation_of_release(text->value)) {
        table_.error(
            text->line, "torch", "\"" + text->value + "\"",
            "a release of PyTorch, as in \"2.4\" or \"1.13.1\", or \"auto\": it is found out");
      }
      if (!join_.has_store()) {
        table_.error(text->line, "torch", "\"" + text->value + "\"",
                     "a release of PyTorch goes with master or rendezvous");
      }
    }
    if (const auto number = table_.integer("queue_pairs", 1, kMostQueuePairs)) {
      join_.queue_pairs = static_cast<uint32_t>(number->value);
    }
    if (const auto split = table_.boolean("split_data")) join_.split_data = split->value;
    read_communicators();
    if (ways != 1 && table_.any("comm_id") == nullptr && table_.any("file") == nullptr &&
        table_.any("master") == nullptr && table_.any("rendezvous") == nullptr) {
      table_.error(join_.line, "comm_id", "nothing",
                   "one of comm_id = \"10.9.0.1:5555\", file = \"FILE\", master = "
                   "\"10.9.0.1:29500\", rendezvous = \"10.9.0.1:29400\"");
    } else if (ways > 1) {
      table_.error(join_.line, "comm_id", "several ways",
                   "one of comm_id, file, master and rendezvous");
    }
    if (job_.nccl < kOldestToJoin) {
      table_.error(join_.line, "comm_id", "a job of NCCL 2." + std::to_string(job_.nccl.minor),
                   "emulated ranks join communicators of 2.18 to 2.31");
    }
    check_others();
    table_.finish();
    job_.join = join_;
  }

 private:
  const NodeConfig* first_node() const {
    return job_.ranks.empty() ? nullptr : &config_.nodes[job_.ranks.front()];
  }

  void read_endpoint(const Located<std::string>& text, std::string_view key) {
    const auto endpoint = parse_socket_address(text.value);
    if (!endpoint) {
      return table_.error(
          text.line, key, "\"" + text.value + "\"",
          "expected an address and a port, as in \"10.9.0.1:5555\" or \"[fd00::1]:5555\"");
    }
    join_.address = endpoint->address;
    join_.port = endpoint->port;
    if (join_.way == NcclJoinConfig::Way::kRendezvous) return check_host(text);
    const NodeConfig* node = first_node();
    if (node == nullptr || job_.nic >= node->nics.size()) return;
    const NicConfig& nic = node->nics[job_.nic];
    if (nic.v4 == join_.address || nic.v6 == join_.address) return;
    table_.error(text.line, key, "\"" + text.value + "\"",
                 "expected an address of rank 0, which is node " + node->name +
                     (nic.v4   ? ": " + nic.v4->text()
                      : nic.v6 ? ": " + nic.v6->text()
                               : ""));
  }

  /// Of the store of torchrun's rendezvous: any node of the job.
  void check_host(const Located<std::string>& text) {
    const bool known = std::ranges::any_of(job_.ranks, [&](NodeId id) {
      const NodeConfig& node = config_.nodes[id];
      if (job_.nic >= node.nics.size()) return true;
      const NicConfig& nic = node.nics[job_.nic];
      return nic.v4 == join_.address || nic.v6 == join_.address;
    });
    if (known) return;
    table_.error(text.line, "rendezvous", "\"" + text.value + "\"",
                 "expected an address of one of the job's nodes, which serves the store of "
                 "torchrun's rendezvous");
  }

  void read_run_id() {
    const auto text = table_.text("run_id");
    if (!text) return;
    join_.run_id = text->value;
    if (text->value.empty()) {
      table_.error(text->line, "run_id", "an empty text", "torchrun's --rdzv-id");
    } else if (join_.way != NcclJoinConfig::Way::kRendezvous) {
      table_.error(text->line, "run_id", "\"" + text->value + "\"",
                   "torchrun's --rdzv-id goes with rendezvous");
    }
  }

  void read_communicators() {
    const TomlNode* given = table_.any("communicators");
    if (given == nullptr) return;
    if (given->kind == TomlNode::Kind::kString && given->text == "any") {
      join_.communicators.reset();
    } else if (given->kind == TomlNode::Kind::kInteger && given->integer >= 1 &&
               given->integer <= kMostCommunicators) {
      join_.communicators = static_cast<uint32_t>(given->integer);
    } else {
      table_.error(given->line, "communicators", given->describe(),
                   "how many are joined one after another, from 1 on, or \"any\": as many as come");
    }
  }

  /// Two communicators do not meet at one place, unless their jobs take several there in turn.
  void check_others() {
    JobConfig own = job_;
    own.join = join_;
    for (const JobConfig& other : config_.jobs) {
      if (!other.join || other.child || !is_same_place(*other.join, join_)) continue;
      const bool file = join_.way == NcclJoinConfig::Way::kFile;
      if (file ? join_.file.empty() : join_.port == 0) continue;
      if (may_share_place(config_, own, other)) continue;
      table_.error(
          join_.line, file ? "file" : "comm_id",
          file ? "\"" + join_.file + "\""
               : join_.address.text() + " port " + std::to_string(join_.port),
          "expected a place of its own; job \"" + other.name +
              "\" has this one. Jobs of the same ranks share one if rank 0 is real and both "
              "have communicators = 2 or more");
    }
  }

  void check_magic(const Located<std::string>& text) {
    if (job_.nccl == kWrongInterface && join_.address.is_v4()) {
      table_.error(text.line, "comm_id", "\"" + text.value + "\"",
                   "with an IPv4 address NCCL 2.29 takes an interface that is not in its network: "
                   "file = \"FILE\" takes rank 0's unique id");
    }
    if (job_.nccl > kNewestWithSecretMagic) return;
    table_.error(text.line, "comm_id", "\"" + text.value + "\"",
                 "NCCL up to 2.21 draws a number that the address does not tell: file = \"FILE\" "
                 "takes rank 0's unique id");
  }

  TableReader table_;
  const Config& config_;
  JobConfig& job_;
  NcclJoinConfig join_;
};

}  // namespace

void read_join(TableReader& table, ReadContext& context, JobConfig& job) {
  if (const TomlNode* toml = table.table("join")) JoinReader(*toml, context, job).run();
}

}  // namespace understudy
