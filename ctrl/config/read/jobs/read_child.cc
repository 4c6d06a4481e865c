// Keys of a [[job]] on a child communicator: child_of and members. One [[job]] stands for all
// children that one ncclCommSplit makes, as far as real and emulated ranks are in them.
#include <algorithm>

#include "ctrl/config/job_operation.h"
#include "ctrl/config/read/sections.h"

namespace understudy {
namespace {

constexpr std::string_view kOfParent[] = {
    "ranks",       "gpus",        "nic",        "nccl",          "join", "groups",
    "merged_nics", "queue_pairs", "split_data", "traffic_class", "feed"};

class ChildReader {
 public:
  ChildReader(TableReader& table, ReadContext& context, JobConfig& job)
      : table_(table), config_(context.config), job_(job) {}

  size_t run(size_t number) {
    const auto name = table_.text("child_of");
    if (!table_.require("members", "which ranks of its parent it has, as an entry of groups")) {
      table_.any("members");
    }
    const TomlNode* members = table_.any("members");
    refuse_keys();
    if (!name || members == nullptr) return 0;
    parent_ = find(*name);
    if (parent_ == nullptr) return 0;
    const auto ranks = static_cast<uint32_t>(job_rank_count(config_, *parent_));
    std::vector<ChildConfig> all;
    RankGroups split;
    for (std::vector<uint32_t>& group :
         read_rank_groups(table_, "members", *members, ranks, gpus_per_node(config_, *parent_))) {
      if (group.empty()) return 0;
      ChildConfig child = in_first(std::move(group));
      split.push_back(child.members);
      // Without a real node all of them are there to be looked at.
      if (is_mixed(child) || all_emulated(config_)) all.push_back(std::move(child));
    }
    if (all.empty()) {
      table_.error(members->line, "members", members->describe(),
                   "none of these communicators has real ranks and emulated ones, and so nothing "
                   "of them is emulated");
      return 0;
    }
    all.front().split = std::move(split);
    return take(all[std::min(number, all.size() - 1)], *members) ? all.size() : 0;
  }

 private:
  void refuse_keys() {
    for (const std::string_view key : kOfParent) {
      const TomlNode* given = table_.any(key);
      if (given == nullptr) continue;
      table_.error(given->line, key, given->describe(),
                   "a child communicator has its parent's ranks, NICs, release and connections");
    }
  }

  const JobConfig* find(const Located<std::string>& name) {
    std::vector<std::string_view> names;
    for (const JobConfig& other : config_.jobs) {
      if (other.name == name.value && (other.join || other.child)) return &other;
      if (other.join) names.push_back(other.name);
    }
    const bool known = std::ranges::any_of(
        config_.jobs, [&](const JobConfig& other) { return other.name == name.value; });
    if (known) {
      table_.error(name.line, "child_of", "\"" + name.value + "\"",
                   "NCCL makes children of communicators that emulated ranks join: that job has no "
                   "key join");
    } else if (names.empty()) {
      table_.error(name.line, "child_of", "\"" + name.value + "\"",
                   "a job with join that stands before this one");
    } else {
      table_.unknown_word(name, "child_of", names);
    }
    return nullptr;
  }

  /// Its members by their numbers in the first communicator.
  ChildConfig in_first(std::vector<uint32_t> members) const {
    if (!parent_->child) {
      return {static_cast<uint32_t>(parent_ - config_.jobs.data()), std::move(members), {}};
    }
    for (uint32_t& rank : members) rank = parent_->child->members[rank];
    return {parent_->child->job, std::move(members), {}};
  }

  bool is_mixed(const ChildConfig& child) const {
    const JobConfig& first = config_.jobs[child.job];
    const uint32_t gpus = gpus_per_node(config_, first);
    const auto real = [&](uint32_t rank) { return config_.nodes[first.ranks[rank / gpus]].real; };
    return std::ranges::any_of(child.members, real) && !std::ranges::all_of(child.members, real);
  }

  bool take(const ChildConfig& child, const TomlNode& members) {
    const JobConfig& first = config_.jobs[child.job];
    const auto place = child_place(config_, first, child.members);
    if (!place) {
      table_.error(members.line, "members", members.describe(), place.error().text);
      return false;
    }
    job_.ranks = place->nodes;
    job_.gpus = place->gpus;
    job_.nic = place->nic;
    job_.nccl = first.nccl;
    job_.channels = parent_->channels;
    job_.search_channels = parent_->search_channels;
    job_.merged_nics = first.merged_nics;
    job_.join = first.join;
    job_.sender = first.sender;
    job_.payload = parent_->payload;
    job_.inner = parent_->inner;
    job_.feed = first.feed;
    job_.child = child;
    job_.child->nics = place->nics;
    job_.child->nic_stride = place->nic_stride;
    return true;
  }

  TableReader& table_;
  const Config& config_;
  JobConfig& job_;
  const JobConfig* parent_ = nullptr;
};

}  // namespace

size_t read_child(TableReader& table, ReadContext& context, JobConfig& job, size_t number) {
  return ChildReader(table, context, job).run(number);
}

void check_child(TableReader& table, const ReadContext& context, const JobConfig& job) {
  if (!job.child) return;
  const JobConfig& first = context.config.jobs[job.child->job];
  if (const TomlNode* channels = table.any("channels"); channels && job.channels > first.channels) {
    table.error(channels->line, "channels", channels->describe(),
                "a child has as many as its parent at most, job \"" + first.name + "\" has " +
                    std::to_string(first.channels));
  }
  if (job.operations == OperationsMode::kFed && first.operations != OperationsMode::kFed) {
    table.error(table.any("operations")->line, "operations", "\"fed\"",
                "the plugin tells what it tells to job \"" + first.name +
                    "\": operations = \"fed\" of that one, too");
  }
}

}  // namespace understudy
