#include "ctrl/peers/nccl/bootstrap/split_rule.h"

#include <algorithm>
#include <bit>

namespace understudy {
namespace {

/// Python's hash of a tuple of small numbers, of which PyTorch makes the color of a group
/// (Objects/tupleobject.c, from 3.8 on; distributed_c10d.py, _process_group_color).
class TupleHash {
 public:
  void add(uint32_t number) {
    accumulator_ += number * kPrime2;
    accumulator_ = std::rotl(accumulator_, 31) * kPrime1;
    ++count_;
  }
  uint32_t color() const {
    uint64_t hash = accumulator_ + (count_ ^ (kPrime5 ^ 3527539));
    if (hash == ~uint64_t{0}) hash = 1546275796;
    const uint64_t magnitude = hash >> 63 != 0 ? ~hash + 1 : hash;
    return static_cast<uint32_t>(magnitude % (uint64_t{1} << 31));
  }

 private:
  static constexpr uint64_t kPrime1 = 11400714785074694791u, kPrime2 = 14029467366897019727u,
                            kPrime5 = 2870177450012600261u;
  uint64_t accumulator_ = kPrime5, count_ = 0;
};

}  // namespace

std::optional<uint32_t> SplitRule::Progression::place(uint32_t rank) const {
  if (rank < first || (rank - first) % step != 0 || (rank - first) / step >= count) {
    return std::nullopt;
  }
  return (rank - first) / step;
}

SplitRule::SplitRule(const std::vector<NcclMember>& members, const RingShape& shape,
                     std::optional<RankPartition> configured, bool expected)
    : members_(members), shape_(shape), configured_(configured.has_value()), expected_(expected) {
  for (const NcclMember& m : members) most_places_ = std::max(most_places_, m.node_ranks);
  if (!configured_) return;
  std::map<uint32_t, uint32_t> group_of;  // by number in the first communicator
  for (uint32_t g = 0; g < configured->size(); ++g) {
    for (const uint32_t world : (*configured)[g]) group_of[world] = g;
  }
  for (const NcclMember& m : members) {
    const auto found = group_of.find(m.world);
    groups_.push_back(found == group_of.end() ? kNoColor : found->second);
  }
}

uint32_t SplitRule::color_of(uint32_t rank) {
  const auto [said, fresh] = said_colors_.try_emplace(rank);
  if (fresh) said->second = predicted_color(rank, choose());
  return said->second;
}

uint32_t SplitRule::key_of(uint32_t rank) {
  const auto [said, fresh] = said_keys_.try_emplace(rank);
  if (fresh) said->second = predicted_key(rank, choose());
  return said->second;
}

const SplitRule::Choice& SplitRule::choose() {
  const size_t words = colors_.size() + keys_.size();
  if (words != chosen_by_) chosen_ = first_that_fits();
  chosen_by_ = words;
  return chosen_;
}

/// On the first node ranks are places: nothing tells colors by rank from those by place there, and
/// by place is what makes children with emulated ranks.
SplitRule::Choice SplitRule::first_that_fits() {
  if (find_torch()) return {Rule::kTorch};
  if (configured_ && (!expected_ || configuration_fits())) return {Rule::kConfigured};
  if (fits_place_count()) return {Rule::kPlace};
  const auto ranks = static_cast<uint32_t>(members_.size());
  // Of numbers that fit those are meant that go with the size of nodes.
  for (const bool even : {true, false}) {
    for (uint32_t k = 2; k < ranks; ++k) {
      if (even != (k % most_places_ == 0 || most_places_ % k == 0)) continue;
      if (fits_blocks(k)) return {Rule::kBlocks, k};
      if (fits_stride(k)) return {Rule::kStride, k};
    }
  }
  if (fits_blocks(1)) return {Rule::kNobody};
  std::map<uint32_t, uint32_t> by_place;
  const bool same_places = std::all_of(colors_.begin(), colors_.end(), [&](const auto& c) {
    return by_place.try_emplace(members_[c.first].local, c.second).first->second == c.second;
  });
  return {same_places ? Rule::kPlace : Rule::kNobody};
}

bool SplitRule::fits_blocks(uint32_t block) const {
  return std::all_of(colors_.begin(), colors_.end(),
                     [block](const auto& c) { return c.second == c.first / block; });
}

bool SplitRule::fits_stride(uint32_t stride) const {
  return std::all_of(colors_.begin(), colors_.end(),
                     [stride](const auto& c) { return c.second == c.first % stride; });
}

/// Places counted from 0, by blocks or by turns: all equal (0), halves of a node, each its own.
bool SplitRule::fits_place_count() const {
  for (uint32_t k = 1; k <= most_places_; ++k) {
    const auto fits = [&](auto color) {
      return std::all_of(colors_.begin(), colors_.end(), [&](const auto& c) {
        return c.second == kNoColor || c.second == color(members_[c.first].local);
      });
    };
    if (fits([k](uint32_t local) { return local / k; })) return true;
    if (fits([k](uint32_t local) { return local % k; })) return true;
  }
  return false;
}

/// Whether all colors are of PyTorch's groups; each is found by its hash.
bool SplitRule::find_torch() {
  bool any = false;
  for (const auto& [rank, color] : colors_) {
    if (color == kNoColor) continue;
    if (color < members_.size()) return false;  // counted colors are no hashes
    const auto [found, fresh] = torch_.try_emplace(color);
    if (fresh) found->second = progression(color, rank);
    if (!found->second) return false;
    any = true;
  }
  return any;
}

/// The group of that color, of which the rank is one. Its key is its place there.
std::optional<SplitRule::Progression> SplitRule::progression(uint32_t color, uint32_t rank) const {
  const auto ranks = static_cast<uint32_t>(members_.size());
  const auto key = keys_.find(rank);  // before 2.23 it comes later
  for (uint32_t step = 1; step < ranks; ++step) {
    for (uint32_t place = 0; place <= rank / step; ++place) {
      if (key != keys_.end() && key->second != place) continue;
      TupleHash hash;
      const uint32_t first = rank - place * step;
      for (uint32_t at = first, count = 1; at < ranks; at += step, ++count) {
        hash.add(at);
        if (count > place && hash.color() == color) return Progression{first, step, count};
      }
    }
  }
  return std::nullopt;
}

uint32_t SplitRule::configured_color(uint32_t rank) const {
  const uint32_t group = groups_[rank];
  if (group == kNoColor) return kNoColor;
  bool real = false;
  for (uint32_t r = 0; r < members_.size(); ++r) {
    if (!members_[r].real || groups_[r] != group) continue;
    real = true;
    const auto said = colors_.find(r);
    if (said != colors_.end()) return said->second;
  }
  // Its real ranks are still to say: colors are counted as a rule.
  return real ? group : kNoColor;
}

uint32_t SplitRule::predicted_color(uint32_t rank, const Choice& choice) const {
  switch (choice.rule) {
    case Rule::kTorch:
      for (const auto& [color, group] : torch_) {
        if (group && group->place(rank)) return color;
      }
      return kNoColor;
    case Rule::kConfigured:
      return configured_color(rank);
    case Rule::kNobody:
      return kNoColor;
    case Rule::kBlocks:
      return rank / choice.number;
    case Rule::kStride:
      return rank % choice.number;
    default: {
      const auto model = colors_.find(shape_.model_of(rank));
      return model == colors_.end() ? kNoColor : model->second;
    }
  }
}

uint32_t SplitRule::predicted_key(uint32_t rank, const Choice& choice) const {
  if (choice.rule == Rule::kTorch) {
    for (const auto& [color, group] : torch_) {
      if (!group) continue;
      if (const auto place = group->place(rank)) return *place;
    }
    return rank;
  }
  const auto ranks = static_cast<uint32_t>(members_.size());
  const auto fits = [&](auto key) {
    return std::all_of(keys_.begin(), keys_.end(),
                       [&](const auto& k) { return k.second == key(k.first); });
  };
  const auto backwards = [&](uint32_t r) { return ranks - 1 - r; };
  const auto local = [&](uint32_t r) { return members_[r].local; };
  const auto local_backwards = [&](uint32_t r) {
    return members_[r].node_ranks - 1 - members_[r].local;
  };
  const auto negative = [](uint32_t r) { return ~r + 1; };
  if (fits([](uint32_t r) { return r; })) return rank;
  if (fits(backwards)) return backwards(rank);
  if (fits(negative)) return negative(rank);
  if (fits(local)) return local(rank);
  if (fits(local_backwards)) return local_backwards(rank);
  const uint32_t model = shape_.model_of(rank);
  const auto key = keys_.find(model);
  return key == keys_.end() || key->second == model ? rank : key->second;
}

template <typename Color, typename Key>
std::vector<std::vector<uint32_t>> SplitRule::children_by(Color color, Key key) const {
  std::map<uint32_t, std::vector<uint32_t>> by_color;
  std::vector<int32_t> keys;
  for (uint32_t rank = 0; rank < members_.size(); ++rank) {
    by_color[color(rank)].push_back(rank);
    keys.push_back(static_cast<int32_t>(key(rank)));
  }
  by_color.erase(kNoColor);
  std::vector<std::vector<uint32_t>> children;
  for (auto& [c, ranks] : by_color) {
    if (std::none_of(ranks.begin(), ranks.end(), [&](uint32_t r) { return members_[r].real; })) {
      continue;
    }
    std::stable_sort(ranks.begin(), ranks.end(),
                     [&](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });
    children.push_back(std::move(ranks));
  }
  return children;
}

bool SplitRule::configuration_fits() const {
  std::map<uint32_t, uint32_t> color_of_group, group_of_color;
  return std::all_of(colors_.begin(), colors_.end(), [&](const auto& c) {
    const uint32_t group = groups_[c.first];
    return color_of_group.try_emplace(group, c.second).first->second == c.second &&
           group_of_color.try_emplace(c.second, group).first->second == group &&
           (group == kNoColor) == (c.second == kNoColor);
  });
}

Result<std::vector<std::vector<uint32_t>>> SplitRule::children() {
  const Choice& choice = choose();
  if (choice.rule == Rule::kConfigured && !configuration_fits()) {
    return fail(
        "groups of the [job] puts the real ranks into other children of this ncclCommSplit "
        "than their colors do");
  }
  const auto real_color = [&](uint32_t r) { return colors_.at(r); };
  const auto real_key = [&](uint32_t r) { return keys_.at(r); };
  const auto expected = children_by(
      [&](uint32_t r) { return members_[r].real ? real_color(r) : predicted_color(r, choice); },
      [&](uint32_t r) { return members_[r].real ? real_key(r) : predicted_key(r, choice); });
  auto made =
      children_by([&](uint32_t r) { return members_[r].real ? real_color(r) : color_of(r); },
                  [&](uint32_t r) { return members_[r].real ? real_key(r) : key_of(r); });
  if (made == expected) return made;
  return fail(
      "emulated ranks had to give their colors of this ncclCommSplit before all real "
      "ranks' had come, and these do not fit: say who goes where with groups in the [job]");
}

std::string SplitRule::reason() const {
  constexpr const char* kUnsure = ": if that is not so, say it with groups in the [job]";
  switch (chosen_.rule) {
    case Rule::kTorch:
      return "PyTorch's color tells its ranks";
    case Rule::kConfigured:
      return expected_ ? "as the [[job]] with child_of says" : "as groups of the job says";
    case Rule::kNobody:
      return std::string("emulated ranks are taken to have no part in it") + kUnsure;
    case Rule::kBlocks:
      return "the real ranks' colors are their ranks divided by " + std::to_string(chosen_.number) +
             kUnsure;
    case Rule::kStride:
      return "the real ranks' colors are the rest of their ranks divided by " +
             std::to_string(chosen_.number) + kUnsure;
    default:
      return std::string(
                 "each emulated rank is taken to go where the real one in its place on a "
                 "node goes") +
             kUnsure;
  }
}

}  // namespace understudy
