// job.groups: which ranks the communicators beyond the first one have.
#include <charconv>
#include <map>
#include <set>

#include "ctrl/config/read/sections.h"

namespace understudy {
namespace {

constexpr const char* kAllowed =
    "expected \"all\", \"node\", \"local_rank\", \"/4\" (ranks divided by 4), \"%4\" (the rest of "
    "that), or ranks, as in [0, 8] or [[0, 1], [2, 3]]";

using Partition = std::vector<std::vector<uint32_t>>;

class GroupsReader {
 public:
  GroupsReader(TableReader& table, JobConfig& job, uint64_t ranks)
      : table_(table), job_(job), ranks_(static_cast<uint32_t>(ranks)) {}

  void run(const TomlNode& toml) {
    if (!job_.join) {
      return table_.error(toml.line, "groups", toml.describe(),
                          "groups belong to jobs of NCCL's own ranks: set join");
    }
    if (toml.kind != TomlNode::Kind::kArray) return wrong(toml);
    for (const TomlNode& element : toml.children) read(element);
  }

 private:
  void wrong(const TomlNode& toml) { table_.error(toml.line, "groups", toml.describe(), kAllowed); }

  void read(const TomlNode& toml) {
    if (toml.kind == TomlNode::Kind::kString) return read_rule(toml);
    if (toml.kind != TomlNode::Kind::kArray || toml.children.empty()) return wrong(toml);
    const bool several = toml.children.front().kind == TomlNode::Kind::kArray;
    Partition partition;
    std::set<uint32_t> seen;
    if (!several) {
      partition.push_back(read_ranks(toml, seen));
    } else {
      for (const TomlNode& group : toml.children) {
        if (group.kind != TomlNode::Kind::kArray) return wrong(group);
        partition.push_back(read_ranks(group, seen));
      }
    }
    job_.groups.push_back(std::move(partition));
  }

  std::vector<uint32_t> read_ranks(const TomlNode& toml, std::set<uint32_t>& seen) {
    std::vector<uint32_t> ranks;
    if (toml.children.empty()) wrong(toml);
    for (const TomlNode& element : toml.children) {
      if (element.kind != TomlNode::Kind::kInteger || element.integer < 0 ||
          element.integer >= ranks_) {
        table_.error(element.line, "groups", element.describe(),
                     "expected ranks, 0 to " + std::to_string(ranks_ - 1));
      } else if (!seen.insert(static_cast<uint32_t>(element.integer)).second) {
        table_.error(element.line, "groups", element.describe(), "each rank is in one group once");
      } else {
        ranks.push_back(static_cast<uint32_t>(element.integer));
      }
    }
    return ranks;
  }

  void read_rule(const TomlNode& toml) {
    const uint32_t gpus = ranks_ / static_cast<uint32_t>(job_.ranks.size());
    if (toml.text == "all") return add([](uint32_t) { return 0u; });
    if (toml.text == "node") return add([=](uint32_t rank) { return rank / gpus; });
    if (toml.text == "local_rank") return add([=](uint32_t rank) { return rank % gpus; });
    uint32_t number = 0;
    const char* end = toml.text.data() + toml.text.size();
    if (toml.text.size() < 2 || (toml.text[0] != '/' && toml.text[0] != '%')) return wrong(toml);
    const auto [rest, error] = std::from_chars(toml.text.data() + 1, end, number);
    if (error != std::errc() || rest != end || number == 0) return wrong(toml);
    if (toml.text[0] == '/') return add([=](uint32_t rank) { return rank / number; });
    add([=](uint32_t rank) { return rank % number; });
  }

  template <typename Color>
  void add(Color color) {
    std::map<uint32_t, std::vector<uint32_t>> groups;
    for (uint32_t rank = 0; rank < ranks_; ++rank) groups[color(rank)].push_back(rank);
    Partition partition;
    for (auto& [c, ranks] : groups) partition.push_back(std::move(ranks));
    job_.groups.push_back(std::move(partition));
  }

  TableReader& table_;
  JobConfig& job_;
  const uint32_t ranks_;
};

}  // namespace

void read_groups(TableReader& table, JobConfig& job, uint64_t ranks) {
  const TomlNode* toml = table.any("groups");
  if (toml != nullptr && ranks > 0 && !job.ranks.empty())
    GroupsReader(table, job, ranks).run(*toml);
}

}  // namespace understudy
