// Which children of ncclCommSplit emulated ranks go into (docs/nccl 1.8). Each says a color and a
// key, often before all real ranks have said theirs: both follow from a rule that fits those of
// the real ranks, or from the configuration.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ctrl/peers/nccl/bootstrap/ring_shape.h"
#include "dataplane/base/result.h"

namespace understudy {

/// Groups of ranks of the first communicator; a rank is in one of them or in none.
using RankPartition = std::vector<std::vector<uint32_t>>;

class SplitRule {
 public:
  static constexpr uint32_t kNoColor = ~0u;  ///< NCCL_SPLIT_NOCOLOR

  /// Both outlive this. `configured`: what the user says of this split, or nothing. `expected`: if
  /// that does not fit, it is said of another one.
  SplitRule(const std::vector<NcclMember>& members, const RingShape& shape,
            std::optional<RankPartition> configured, bool expected = false);

  /// A real rank has said it.
  void color_came(uint32_t rank, uint32_t color) { colors_[rank] = color; }
  void key_came(uint32_t rank, uint32_t key) { keys_[rank] = key; }
  /// What an emulated rank says: by what has come until it is first asked for, and then the same.
  uint32_t color_of(uint32_t rank);
  uint32_t key_of(uint32_t rank);

  /// Children that have real ranks, in the order of their ranks, once all real ranks' words have
  /// come. Errors: the configuration says another thing; what emulated ranks had to say early does
  /// not fit what came later.
  Result<std::vector<std::vector<uint32_t>>> children();
  /// Why the emulated ranks are where they are, as a clause.
  std::string reason() const;

 private:
  enum class Rule : uint8_t { kPlace, kNobody, kConfigured, kTorch, kBlocks, kStride };
  struct Choice {
    Rule rule = Rule::kPlace;
    uint32_t number = 0;  ///< ranks of a block, or the stride
  };
  /// Ranks first, first+step, ..., `count` of them.
  struct Progression {
    uint32_t first = 0, step = 1, count = 0;
    std::optional<uint32_t> place(uint32_t rank) const;
  };

  const Choice& choose();
  Choice first_that_fits();
  bool fits_blocks(uint32_t ranks) const;
  bool fits_stride(uint32_t stride) const;
  bool fits_place_count() const;
  bool find_torch();
  std::optional<Progression> progression(uint32_t color, uint32_t rank) const;
  bool configuration_fits() const;
  uint32_t predicted_color(uint32_t rank, const Choice& choice) const;
  uint32_t configured_color(uint32_t rank) const;
  uint32_t predicted_key(uint32_t rank, const Choice& choice) const;
  template <typename Color, typename Key>
  std::vector<std::vector<uint32_t>> children_by(Color color, Key key) const;

  const std::vector<NcclMember>& members_;
  const RingShape& shape_;
  std::vector<uint32_t> groups_;  ///< configured, by rank; none: kNoColor
  bool configured_ = false, expected_ = false;
  uint32_t most_places_ = 1;                              ///< ranks of the largest node
  std::map<uint32_t, uint32_t> colors_, keys_;            ///< of real ranks
  std::map<uint32_t, uint32_t> said_colors_, said_keys_;  ///< of emulated ones
  std::map<uint32_t, std::optional<Progression>> torch_;  ///< by color; nothing: is no hash
  Choice chosen_;
  size_t chosen_by_ = ~size_t{0};  ///< words that had come then
};

}  // namespace understudy
