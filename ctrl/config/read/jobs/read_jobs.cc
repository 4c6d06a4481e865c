// [[job]]: the collectives that run, their ranks and sizes.
#include <algorithm>
#include <set>

#include "ctrl/config/job_operation.h"
#include "ctrl/config/merged_nics.h"
#include "ctrl/config/read/sections.h"

namespace understudy {
namespace {

constexpr int64_t kMostOperations = 1'000'000;
constexpr int64_t kMostSplits = 65'536;

class JobReader {
 public:
  /// `number`: of the communicators that it stands for.
  JobReader(const TomlNode& toml, ReadContext& context, size_t number)
      : toml_(toml), table_(toml, "job", context.errors), context_(context), number_(number) {
    job_.line = table_.line();
  }

  /// How many communicators it stands for: more than one, of some [[job]]s with child_of.
  size_t communicators() const { return communicators_; }

  JobOrder run() {
    table_.require("name", "a name for the job");
    const bool is_child = table_.any("child_of") != nullptr;
    if (is_child) read_as_child();
    if (const auto name = table_.text("name")) read_name(*name);
    job_.listed = is_listed();
    read_operation(table_, context_, job_);
    const auto nic = is_child ? std::nullopt : table_.integer("nic", 0, kMostNics - 1);
    if (nic) job_.nic = static_cast<unsigned>(nic->value);
    if (!is_child) read_ranks();
    if (ranks_complete_) check_dimension_ranks(table_, context_, job_);
    if (!is_child) {
      read_gpus();
      read_merged_nics(table_, context_, job_);
      read_queue_pairs(table_, job_);
    }
    if (ranks_complete_ && rank_count() < 2) {
      table_.error(ranks_line_, "ranks", "1 rank(s)",
                   "expected the names of at least two nodes in the order of the ring, or one with "
                   "several GPUs");
      ranks_complete_ = false;
    }
    read_root();
    read_group();
    read_sizes();
    read_counts();
    table_.choice("payload",
                  {{"synthetic", PayloadMode::kSynthetic}, {"exact", PayloadMode::kExact}},
                  job_.payload);
    if (const auto cost = table_.duration("step_cost")) job_.step_cost = cost->value;
    table_.choice("entry",
                  {{"scheduled", EntryMode::kScheduled}, {"first_credit", EntryMode::kFirstCredit}},
                  job_.entry);
    const TomlNode* entry = table_.any("entry");
    job_.entry_told = entry != nullptr;
    table_.choice("operations",
                  {{"told", OperationsMode::kTold},
                   {"inferred", OperationsMode::kInferred},
                   {"fed", OperationsMode::kFed}},
                  job_.operations);
    if (entry != nullptr && job_.entry == EntryMode::kScheduled &&
        job_.operations != OperationsMode::kTold) {
      table_.error(entry->line, "entry", entry->describe(),
                   "when ranks enter operations that are not known beforehand real ranks' first "
                   "credits show: entry = \"first_credit\", or operations = \"told\"");
    }
    if (is_child) {
      check_child(table_, context_, job_);
    } else {
      read_feed();
      read_join(table_, context_, job_);
      read_groups(table_, job_, rank_count());
    }
    read_inner();
    if (const auto interval = table_.duration("interval")) job_.interval = interval->value;
    read_period();
    JobOrder order = read_order(toml_, table_, job_);
    read_skew();
    read_iteration(table_, context_, job_, rank_count());
    read_sender(table_, context_, job_.sender);
    if (!is_child || table_.any("control") != nullptr) {
      name_sender(table_, context_, job_.sender, "job " + job_.name, job_.ranks);
    }
    table_.finish();
    const bool nic_known = nic || table_.any("nic") == nullptr;
    if (ranks_complete_ && nic_known) check_ranks(nic ? nic->line : table_.line());
    context_.config.jobs.push_back(std::move(job_));
    return order;
  }

 private:
  /// Without sizes it is whatever a program does that others tell of, or that shows what it does.
  bool is_listed() {
    const TomlNode* const operations = table_.any("operations");
    const TomlNode* const collective = table_.any("collective");
    const bool found_out =
        operations != nullptr && (operations->text == "fed" || operations->text == "inferred");
    const bool joins = table_.any("join") != nullptr || table_.any("child_of") != nullptr;
    const bool has_matrix = collective != nullptr && collective->text == "all_to_all_v";
    return !found_out || !joins || has_matrix || table_.any("sizes") != nullptr ||
           table_.any("ddp") != nullptr;
  }

  void read_as_child() {
    communicators_ = read_child(table_, context_, job_, number_);
    ranks_complete_ = communicators_ > 0;
    ranks_line_ = table_.line();
    rank_lines_.assign(job_.ranks.size(), ranks_line_);
  }

  void read_name(const Located<std::string>& name) {
    job_.name = name.value;
    if (communicators_ > 1) job_.name += "/" + std::to_string(number_);
    if (name.value.empty()) table_.error(name.line, "name", "an empty text", "expected a name");
    for (const JobConfig& other : context_.config.jobs) {
      if (other.name != job_.name || job_.name.empty()) continue;
      table_.error(name.line, "name", "\"" + name.value + "\"",
                   "two jobs have this name; the other is in line " + std::to_string(other.line));
    }
  }

  void read_inner() {
    if (table_.any("inner") == nullptr) return;
    InnerMode mode = InnerMode::kTimes;
    table_.choice("inner", {{"packets", InnerMode::kPackets}, {"times", InnerMode::kTimes}}, mode);
    job_.inner = mode;
  }

  void read_feed() {
    const TomlNode* toml = table_.table("feed");
    if (toml == nullptr) return;
    if (job_.operations != OperationsMode::kFed) {
      table_.error(toml->line, "feed", "a feed", "only operations = \"fed\" has one");
    }
    TableReader table(*toml, "job.feed", context_.errors);
    if (const auto port = table.integer("port", 1, 65535)) {
      job_.feed.port = static_cast<uint16_t>(port->value);
    }
    if (const auto delay = table.duration("delay")) job_.feed.delay = delay->value;
    if (const auto patience = table.duration("patience")) {
      job_.feed.patience = patience->value;
      if (patience->value == Duration()) {
        table.error(patience->line, "patience", "no time", "expected a longer one");
      }
    }
    table.finish();
  }

  void read_counts() {
    const auto count = [&](std::string_view key, int64_t least, int64_t most, uint32_t& out) {
      if (const auto value = table_.integer(key, least, most)) {
        out = static_cast<uint32_t>(value->value);
      }
    };
    count("iterations", 1, kMostOperations, job_.iterations);
    count("warmup", 0, kMostOperations, job_.warmup);
    count("channels", 1, kMostChannels, job_.channels);
    count("search_channels", 1, kMostChannels, job_.search_channels);
    count("splits", 1, kMostSplits, job_.splits);
    if (const TomlNode* splits = table_.any("splits"); splits && job_.dimensions.empty()) {
      table_.error(splits->line, "splits", splits->describe(),
                   "chunks go through dimensions: it needs a list as algorithm");
    }
  }

  void read_ranks() {
    const std::string allowed = "the names of at least two nodes in the order of the ring";
    table_.require("ranks", allowed);
    const TomlNode* array = table_.any("ranks");
    const auto entries = table_.texts("ranks");
    ranks_complete_ = entries && entries->size() == array->children.size();
    if (!entries) return;
    std::set<NodeId> seen;
    for (const Located<std::string>& entry : *entries) {
      const std::vector<NodeId> nodes = context_.resolve_all(table_, "ranks", entry);
      if (nodes.empty()) ranks_complete_ = false;
      bool reported = false;
      for (NodeId node : nodes) {
        if (seen.insert(node).second) {
          job_.ranks.push_back(node);
          rank_lines_.push_back(entry.line);
        } else if (!reported) {
          table_.error(entry.line, "ranks", "\"" + entry.value + "\"",
                       "node " + name_of(node) + " already is a rank of this job");
          reported = true;
        }
      }
    }
    ranks_line_ = array->line;
    if (ranks_complete_ && job_.ranks.empty()) {
      table_.error(ranks_line_, "ranks", "0 rank(s)", "expected " + allowed);
      ranks_complete_ = false;
    }
  }

  void read_gpus() {
    if (const auto gpus = table_.integer("gpus", 1, kMostGpus)) {
      job_.gpus = static_cast<uint32_t>(gpus->value);
      for (const NodeId node : job_.ranks) {
        const NodeConfig& n = context_.config.nodes[node];
        if (n.gpus >= *job_.gpus) continue;
        table_.error(gpus->line, "gpus", std::to_string(*job_.gpus),
                     "node " + n.name + " has " + std::to_string(n.gpus) + " GPU(s)");
        return;
      }
    }
  }

  /// 0 while they are not known.
  uint64_t rank_count() const {
    return ranks_complete_ ? job_rank_count(context_.config, job_) : 0;
  }

  void read_root() {
    const auto root = table_.integer("root", 0, static_cast<int64_t>(kMostNodes) * kMostGpus - 1);
    if (!root) return;
    job_.root = static_cast<uint32_t>(root->value);
    if (!has_root(job_.collective)) {
      table_.error(root->line, "root", std::to_string(job_.root),
                   "only broadcast, reduce, gather and scatter have a root");
    } else if (ranks_complete_ && job_.root >= rank_count()) {
      table_.error(root->line, "root", std::to_string(job_.root),
                   "the job's ranks are 0 to " + std::to_string(rank_count() - 1));
    }
  }

  void read_group() {
    const auto group = table_.boolean("group");
    if (!group) return;
    job_.group = group->value;
    if (job_.group && (is_p2p(job_.collective) || !job_.dimensions.empty())) {
      table_.error(group->line, "group", "true",
                   "only collectives of NCCL's share channels in a group");
    }
  }

  /// By dimensions, what a rank holds is divided to whole bytes; an all-gather has its parts.
  bool needs_equal_parts() const {
    return has_parts(job_.collective) &&
           (job_.dimensions.empty() || job_.collective == Collective::kAllGather);
  }

  void check_size(const Located<uint64_t>& size) {
    const uint64_t element = element_bytes(job_.type);
    const uint64_t parts = needs_equal_parts() ? rank_count() : 1;
    if (size.value == 0 || size.value % element != 0) {
      table_.error(size.line, "sizes", std::to_string(size.value) + " bytes",
                   "a size must be a positive multiple of " + std::to_string(element) + " bytes (" +
                       std::string(understudy::name_of(kDataTypeNames, job_.type)) + " elements)");
    } else if (parts > 1 && size.value % (element * parts) != 0) {
      table_.error(size.line, "sizes", std::to_string(size.value) + " bytes",
                   "a size must be a multiple of " + std::to_string(element * parts) +
                       " bytes: of " + std::to_string(parts) + " ranks' parts of " +
                       std::to_string(element) + " byte(s) an element");
    }
    job_.sizes.push_back(size.value);
  }

  /// Of a job that lists no operations.
  void take_usual_size() {
    constexpr uint64_t kUsual = 1 << 20;
    const uint64_t unit = element_bytes(job_.type) * std::max<uint64_t>(rank_count(), 1);
    job_.sizes.push_back((kUsual + unit - 1) / unit * unit);
    for (const char* key : {"iterations", "warmup", "root", "group"}) {
      const TomlNode* const given = table_.any(key);
      if (given == nullptr) continue;
      table_.error(given->line, key, given->describe(),
                   "without sizes the job is whatever its programs do, and as often: give sizes, "
                   "too, or leave it out");
    }
  }

  void read_sizes() {
    if (const TomlNode* ddp = table_.table("ddp")) return read_ddp(*ddp, table_, context_, job_);
    if (!job_.listed) return take_usual_size();
    if (job_.collective == Collective::kAllToAllV) {
      read_matrix(table_, job_, rank_count());
      return;
    }
    const std::string allowed =
        "[\"4KiB\", \"16MiB\"] or { from = \"4KiB\", to = \"16MiB\", factor = 4 }";
    if (!table_.require("sizes", allowed)) {
      table_.any("sizes");
      return;
    }
    const TomlNode* value = table_.any("sizes");
    if (value->kind == TomlNode::Kind::kTable) {
      read_size_range(*value);
      return;
    }
    for (const Located<uint64_t>& size : table_.sizes("sizes")) check_size(size);
    if (value->kind == TomlNode::Kind::kArray && value->children.empty()) {
      table_.error(value->line, "sizes", "an empty array", "expected " + allowed);
    }
  }

  void read_size_range(const TomlNode& toml) {
    TableReader range(toml, "job.sizes", context_.errors);
    range.require("from", "the first size");
    range.require("to", "the largest size");
    const auto from = range.size("from");
    const auto to = range.size("to");
    uint64_t factor = 2;
    if (const auto value = range.integer("factor", 2, 1024)) {
      factor = static_cast<uint64_t>(value->value);
    }
    range.finish();
    if (!from || !to) return;
    if (from->value > to->value) {
      range.error(to->line, "to", std::to_string(to->value) + " bytes",
                  "smaller than from, which is " + std::to_string(from->value) + " bytes");
      return;
    }
    if (from->value == 0 || from->value % element_bytes(job_.type) != 0) {
      check_size(*from);
      return;
    }
    uint64_t size = from->value;
    while (true) {
      check_size({size, from->line});
      if (size > to->value / factor) break;
      size *= factor;
    }
  }

  void read_period() {
    const auto period = table_.duration("period");
    if (!period) return;
    job_.period = period->value;
    if (job_.period == Duration()) {
      table_.error(period->line, "period", table_.any("period")->describe(),
                   "expected more than 0");
    } else if (job_.entry != EntryMode::kScheduled || job_.operations != OperationsMode::kTold ||
               job_.join) {
      table_.error(period->line, "period", table_.any("period")->describe(),
                   "emulated ranks enter by the clock: goes with entry = \"scheduled\" and "
                   "operations = \"told\" only, and without join");
    }
  }

  void read_skew() {
    job_.skew.assign(job_.ranks.size(), Duration());
    std::set<size_t> seen;
    for (const TomlNode* toml : table_.tables("skew")) {
      TableReader entry(*toml, "job.skew", context_.errors);
      entry.require("rank", "the rank's position in ranks, from 0");
      entry.require("delay", "how late the rank enters, as in \"5ms\"");
      const auto rank = entry.integer("rank", 0, static_cast<int64_t>(kMostNodes) - 1);
      const auto delay = entry.duration("delay");
      entry.finish();
      if (!rank || !ranks_complete_) continue;
      const size_t index = static_cast<size_t>(rank->value);
      if (index >= job_.ranks.size()) {
        entry.error(rank->line, "rank", std::to_string(index),
                    "the job's ranks are 0 to " + std::to_string(job_.ranks.size() - 1));
      } else if (!seen.insert(index).second) {
        entry.error(rank->line, "rank", std::to_string(index), "this rank's skew is given twice");
      } else if (delay) {
        job_.skew[index] = delay->value;
      }
    }
  }

  void check_ranks(unsigned nic_line) {
    const auto& nodes = context_.config.nodes;
    // A configuration without real nodes, and other operations, are there to be looked at.
    const auto known = std::ranges::find_if(nodes, &NodeConfig::real);
    const bool any_real = known != nodes.end();
    std::vector<size_t> real;
    bool nics_reported = false;
    for (size_t i = 0; i < job_.ranks.size(); ++i) {
      const NodeConfig& node = nodes[job_.ranks[i]];
      if (node.real) real.push_back(i);
      if (!nics_reported) nics_reported = !check_nic(node, nic_line, any_real);
    }
    check_operations(!real.empty());
    if (!any_real || !is_plain_ring(context_.config, job_)) return;
    if (real.empty()) {
      table_.error(rank_lines_.front(), "ranks", "no real node",
                   "the configuration has one, \"" + known->name + "\": add it to ranks, or take " +
                       (known->kernel ? "its key real" : "real = true") + " from it");
    } else if (!nics_reported && context_.ports_complete) {
      for (const size_t rank : real) check_port(rank);
    }
  }

  /// What can become known during the run, from what real ranks send or tell.
  void check_operations(bool real) {
    const TomlNode* node = table_.any("operations");
    if (node == nullptr || job_.operations == OperationsMode::kTold) return;
    const bool fed = job_.operations == OperationsMode::kFed;
    std::string why;
    if (!real) why = "none of its ranks is on a node with real = true: there is nothing to see";
    if (!fed && job_.group) why = "operations that come alone, not group = true";
    if (job_.payload == PayloadMode::kExact) {
      why = std::string("contents are not ") + (fed ? "fed" : "inferred") + ": payload = \"exact\"";
    }
    if (!why.empty()) {
      table_.error(node->line, "operations", fed ? "\"fed\"" : "\"inferred\"", why);
    }
  }

  /// NICs of a node that its ranks use.
  std::set<size_t> nics_of(const NodeConfig& node) {
    if (firsts_.empty()) firsts_ = first_nics(context_.config, job_);
    std::set<size_t> all = {job_.nic};
    for (const unsigned first : firsts_) {
      for (uint32_t i = 0; i < merged_nics(job_, node, first); ++i) all.insert(first + i);
    }
    return all;
  }

  bool check_nic(const NodeConfig& node, unsigned line, bool sends) {
    if (job_.nic >= node.nics.size()) {
      table_.error(line, "nic", std::to_string(job_.nic),
                   "node " + node.name + " has " + std::to_string(node.nics.size()) + " NIC(s)");
      return false;
    }
    for (const size_t n : nics_of(node)) {
      const NicConfig& nic = node.nics[n];
      if (!sends || nic.v4 || nic.v6 || !context_.addresses_complete) continue;
      table_.error(line, "nic", std::to_string(n),
                   "NIC " + std::to_string(n) + " of node " + node.name +
                       " has no address: there is no [[prefix]] with nic = " + std::to_string(n));
      return false;
    }
    return true;
  }

  void check_port(size_t rank) {
    const NodeId node = job_.ranks[rank];
    for (const size_t n : nics_of(context_.config.nodes[node])) {
      const bool there = std::ranges::any_of(context_.config.ports, [&](const PortConfig& port) {
        return port.node == node && port.nic == n;
      });
      if (there) continue;
      table_.error(rank_lines_[rank], "ranks", "\"" + name_of(node) + "\"",
                   "there is no [[port]] for NIC " + std::to_string(n) + " of this real node");
    }
  }

  const std::string& name_of(NodeId node) const { return context_.config.nodes[node].name; }

  const TomlNode& toml_;
  TableReader table_;
  ReadContext& context_;
  JobConfig job_;
  const size_t number_;
  size_t communicators_ = 1;
  std::vector<unsigned> rank_lines_;  ///< one per rank
  std::vector<unsigned> firsts_;      ///< first_nics(), once they are asked for
  unsigned ranks_line_ = 0;
  bool ranks_complete_ = false;
};

}  // namespace

void read_jobs(TableReader& root, ReadContext& context) {
  std::vector<JobOrder> orders;
  for (const TomlNode* job : root.tables("job")) {
    const size_t errors = context.errors.size();
    size_t all = 1;
    for (size_t number = 0; number < all && context.errors.size() == errors; ++number) {
      JobReader reader(*job, context, number);
      orders.push_back(reader.run());
      all = reader.communicators();
    }
  }
  resolve_orders(context, orders);
}

}  // namespace understudy
