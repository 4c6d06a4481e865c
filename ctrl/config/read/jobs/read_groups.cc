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

class GroupsReader {
 public:
  GroupsReader(TableReader& table, const char* key, uint32_t ranks, uint32_t gpus)
      : table_(table), key_(key), ranks_(ranks), gpus_(gpus) {}

  void wrong(const TomlNode& toml) { table_.error(toml.line, key_, toml.describe(), kAllowed); }

  RankGroups read(const TomlNode& toml) {
    if (toml.kind == TomlNode::Kind::kString) return read_rule(toml);
    RankGroups groups;
    if (toml.kind != TomlNode::Kind::kArray || toml.children.empty()) {
      wrong(toml);
      return groups;
    }
    const bool several = toml.children.front().kind == TomlNode::Kind::kArray;
    std::set<uint32_t> seen;
    if (!several) {
      groups.push_back(read_ranks(toml, seen));
      return groups;
    }
    for (const TomlNode& group : toml.children) {
      if (group.kind != TomlNode::Kind::kArray) {
        wrong(group);
        break;
      }
      groups.push_back(read_ranks(group, seen));
    }
    return groups;
  }

 private:
  std::vector<uint32_t> read_ranks(const TomlNode& toml, std::set<uint32_t>& seen) {
    std::vector<uint32_t> ranks;
    if (toml.children.empty()) wrong(toml);
    for (const TomlNode& element : toml.children) {
      if (element.kind != TomlNode::Kind::kInteger || element.integer < 0 ||
          element.integer >= ranks_) {
        table_.error(element.line, key_, element.describe(),
                     "expected ranks, 0 to " + std::to_string(ranks_ - 1));
      } else if (!seen.insert(static_cast<uint32_t>(element.integer)).second) {
        table_.error(element.line, key_, element.describe(), "each rank is in one group once");
      } else {
        ranks.push_back(static_cast<uint32_t>(element.integer));
      }
    }
    return ranks;
  }

  RankGroups read_rule(const TomlNode& toml) {
    if (toml.text == "all") return by([](uint32_t) { return 0u; });
    if (toml.text == "node") return by([this](uint32_t rank) { return rank / gpus_; });
    if (toml.text == "local_rank") return by([this](uint32_t rank) { return rank % gpus_; });
    uint32_t number = 0;
    const char* end = toml.text.data() + toml.text.size();
    const bool known = toml.text.size() >= 2 && (toml.text[0] == '/' || toml.text[0] == '%');
    if (known) {
      const auto [rest, error] = std::from_chars(toml.text.data() + 1, end, number);
      if (error != std::errc() || rest != end) number = 0;
    }
    if (number == 0) {
      wrong(toml);
      return {};
    }
    if (toml.text[0] == '/') return by([=](uint32_t rank) { return rank / number; });
    return by([=](uint32_t rank) { return rank % number; });
  }

  template <typename Color>
  RankGroups by(Color color) const {
    std::map<uint32_t, std::vector<uint32_t>> groups;
    for (uint32_t rank = 0; rank < ranks_; ++rank) groups[color(rank)].push_back(rank);
    RankGroups all;
    for (auto& [c, ranks] : groups) all.push_back(std::move(ranks));
    return all;
  }

  TableReader& table_;
  const char* const key_;
  const uint32_t ranks_;
  const uint32_t gpus_;
};

}  // namespace

RankGroups read_rank_groups(TableReader& table, const char* key, const TomlNode& toml,
                            uint32_t ranks, uint32_t gpus) {
  return GroupsReader(table, key, ranks, gpus).read(toml);
}

void read_groups(TableReader& table, JobConfig& job, uint64_t ranks) {
  const TomlNode* toml = table.any("groups");
  if (toml == nullptr || ranks == 0 || job.ranks.empty()) return;
  if (!job.join) {
    return table.error(toml->line, "groups", toml->describe(),
                       "groups belong to jobs of NCCL's own ranks: set join");
  }
  const auto gpus = static_cast<uint32_t>(ranks / job.ranks.size());
  GroupsReader reader(table, "groups", static_cast<uint32_t>(ranks), gpus);
  if (toml->kind != TomlNode::Kind::kArray) return reader.wrong(*toml);
  for (const TomlNode& element : toml->children) job.groups.push_back(reader.read(element));
}

}  // namespace understudy
