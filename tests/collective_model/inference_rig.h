// For tests of inference: schedules played as the stream of real ranks, in orders drawn at random,
// and what is said compared with what was played.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "collective_model/inference/inference.h"
#include "tests/collective_model/walk.h"

namespace understudy {

inline std::string text_of(const InferredOperation& o) {
  std::string text = std::to_string(o.channels) + " channels" + (o.border_open ? ", open" : "");
  for (const InferredOperation::Candidate& c : o.candidates) {
    text += "; " + std::string(name_of(kCollectiveNames, c.collective)) + " " +
            std::string(name_of(kAlgorithmNames, c.algorithm)) + " " +
            std::string(name_of(kProtocolNames, c.protocol)) + " elements " +
            std::to_string(c.elements) + " bytes";
    for (const SizeSet::Interval& i : c.bytes.intervals()) {
      text += " " + std::to_string(i.least) + "-" + std::to_string(i.most);
    }
  }
  return text;
}

inline uint64_t draw(std::mt19937_64& random, uint64_t least, uint64_t most) {
  return least + random() % (most - least + 1);
}

/// Any collective that is no group of sends and receives, of a size up to 2 or 16 MiB.
inline Operation draw_operation(std::mt19937_64& random, const Communicator& communicator) {
  constexpr DataType kTypes[] = {DataType::kInt8, DataType::kFloat16, DataType::kFloat32,
                                 DataType::kFloat64};
  while (true) {
    Operation o;
    o.collective = static_cast<Collective>(random() % 5);
    o.algorithm = static_cast<Algorithm>(random() % 3);
    o.protocol = static_cast<Protocol>(random() % 3);
    if (is_pipeline(o.collective) && o.algorithm != Algorithm::kRing) continue;
    o.type = kTypes[random() % 4];
    o.root = static_cast<uint32_t>(random() % communicator.ranks());
    o.channels = static_cast<uint32_t>(draw(random, 0, communicator.channels));
    const uint64_t most = o.protocol == Protocol::kLL ? 21 : 24;
    o.count = (uint64_t{1} << draw(random, 0, most)) / element_bytes(o.type) + 1;
    if (random() % 3 != 0) o.count = draw(random, 1, o.count);
    if (has_rank_parts(o.collective)) o.count = ceil_div(o.count, communicator.ranks());
    if (check_operation(communicator, o)) return o;
  }
}

inline std::string describe(const Communicator& c, const std::vector<Operation>& operations) {
  std::string text = std::to_string(c.nodes) + " x " + std::to_string(c.gpus) + " ranks, " +
                     std::to_string(c.channels) + " channels, 2." + std::to_string(c.version.minor);
  for (const Operation& o : operations) {
    text += "; " + std::string(name_of(kCollectiveNames, o.collective)) + " " +
            std::string(name_of(kAlgorithmNames, o.algorithm)) + " " +
            std::string(name_of(kProtocolNames, o.protocol)) + " " + std::to_string(o.bytes()) +
            " B of " + std::to_string(element_bytes(o.type)) + ", root " + std::to_string(o.root) +
            ", channels " + std::to_string(o.channels);
  }
  return text;
}

/// How what a real rank sends comes to the emulated ones.
enum class DeliveryOrder : uint8_t {
  kAtOnce,
  kInOrder,
  kCreditsFirst,  ///< they overtake a message of data
};

/// Ranks that carry out operations one after the other; some of them are real. Every rank does
/// what its schedule says, in an order drawn from a seed.
class Played {
 public:
  struct Counts {
    uint64_t operations = 0, kind = 0, unique = 0, open = 0;
  };

  Played(Communicator communicator, std::vector<uint32_t> real, std::vector<Operation> operations,
         uint64_t seed, DeliveryOrder way)
      : communicator_(std::move(communicator)),
        real_(std::move(real)),
        operations_(std::move(operations)),
        random_(seed),
        way_(way),
        inference_(communicator_, real_) {
    for (const Operation& o : operations_) {
      const auto cut = cut_group(communicator_, {&o, 1});
      EXPECT_TRUE(cut.has_value());
      Stage stage;
      stage.entered.resize(communicator_.ranks());
      std::vector<const RankSchedule*> all;
      for (uint32_t r = 0; r < communicator_.ranks(); ++r) {
        stage.ranks.push_back(rank_schedule(communicator_, o, (*cut)[0], r));
        all.push_back(stage.ranks.back().get());
        stage.ends.emplace_back(all.back()->connections().size());
      }
      stage.far = *far_ends(all);
      stages_.push_back(std::move(stage));
    }
  }

  /// Moves `rank` once in so many turns only.
  void slow_down(uint32_t rank, uint64_t turns) {
    slow_ = rank;
    turns_ = turns;
  }

  /// Plays everything. False if nobody could go on.
  bool play() {
    std::vector<size_t> at(communicator_.ranks(), 0);
    size_t left = at.size();
    uint64_t idle = 0;
    while (left > 0 || !wire_.empty()) {
      bool moved = deliver();
      for (uint32_t i = 0; i < at.size(); ++i) {
        const auto r = static_cast<uint32_t>(random_() % at.size());
        if (at[r] == stages_.size()) continue;
        if (r == slow_ && random_() % turns_ != 0) {
          moved = true;
          continue;
        }
        moved |= advance(at[r], r);
        while (way_ == DeliveryOrder::kAtOnce && deliver()) {
        }
        if (finished(at[r], r)) {
          moved = true;
          if (++at[r] == stages_.size()) --left;
        }
      }
      idle = moved ? 0 : idle + 1;
      if (idle > 1000) return false;
      while (inference_.next(verdict_)) verdicts_.push_back(verdict_);
    }
    inference_.finish();
    while (inference_.next(verdict_)) verdicts_.push_back(verdict_);
    return true;
  }

  /// Checks what was said: right as far as no border is open.
  void check(Counts& counts) const {
    counts.operations += operations_.size();
    for (size_t i = 0; i < operations_.size(); ++i) {
      if (i >= verdicts_.size()) {
        ADD_FAILURE() << "operation " << i << " was not seen"
                      << (inference_.lost() ? ": " + *inference_.lost() : "");
        return;
      }
      const InferredOperation& verdict = verdicts_[i];
      if (verdict.border_open) {
        counts.open += operations_.size() - i;
        return;
      }
      const Operation& o = operations_[i];
      bool contained = false;
      for (const InferredOperation::Candidate& c : verdict.candidates) {
        contained |= c.collective == o.collective && c.algorithm == o.algorithm &&
                     c.protocol == o.protocol && c.bytes.contains(o.bytes()) &&
                     (c.elements & element_bytes(o.type)) != 0 &&
                     (c.roots.empty() || std::ranges::find(c.roots, o.root) != c.roots.end());
      }
      ASSERT_TRUE(contained) << "operation " << i << " is none of " << text_of(verdict);
      counts.unique += verdict.unique() ? 1 : 0;
      counts.kind += verdict.candidates.size() == 1 ? 1 : 0;
    }
    EXPECT_EQ(verdicts_.size(), operations_.size());
    EXPECT_FALSE(inference_.lost()) << *inference_.lost();
  }
  const std::vector<InferredOperation>& verdicts() const { return verdicts_; }
  /// The operation that began with this observation on the first channel; null: none did.
  const Operation* begun_at(uint64_t observation) const {
    const auto found = begun_.find(observation);
    return found == begun_.end() ? nullptr : &operations_[found->second];
  }

 private:
  struct End {
    uint64_t granted = 0, done = 0, arrived = 0;  ///< receives
    uint64_t credits = 0, sent = 0;               ///< sends (done: filled)
  };
  struct Stage {
    std::vector<std::unique_ptr<RankSchedule>> ranks;
    std::vector<std::vector<FarEnd>> far;
    std::vector<std::vector<End>> ends;
    std::vector<bool> entered;
    bool seen = false;  ///< something of it on the first channel
  };
  struct OnWire {
    size_t stage = 0;
    uint32_t rank = 0, connection = 0;  ///< real sender or receiver
    bool credit = false;
  };

  bool is_real(uint32_t rank) const { return std::ranges::find(real_, rank) != real_.end(); }
  uint32_t border(const Connection& c) const {
    const auto& all = inference_.connections();
    for (uint32_t i = 0; i < all.size(); ++i) {
      if (all[i].channel == c.channel && all[i].from == c.from && all[i].to == c.to) return i;
    }
    ADD_FAILURE() << "a connection that is not known";
    return 0;
  }

  bool deliver() {
    if (wire_.empty()) return false;
    if (way_ != DeliveryOrder::kAtOnce && random_() % 2 == 0) return true;
    auto next = wire_.begin();
    if (way_ == DeliveryOrder::kCreditsFirst) {
      if (!next->credit && wire_.size() > 1 && wire_[1].credit) ++next;
    }
    const OnWire w = *next;
    wire_.erase(next);
    Stage& stage = stages_[w.stage];
    const Connection& c = stage.ranks[w.rank]->connections()[w.connection];
    ++observations_;
    if (c.channel == 0 && !stage.seen) {
      stage.seen = true;
      begun_[observations_] = w.stage;
    }
    const FarEnd far = stage.far[w.rank][w.connection];
    End& end = stage.ends[far.rank][far.connection];
    if (w.credit) {
      ++end.credits;
      inference_.on_credit(border(c), c.capacity);
    } else {
      inference_.on_data(border(c), stage.ranks[w.rank]->message(w.connection, end.arrived).wire);
      ++end.arrived;
    }
    return true;
  }

  bool ready(const Stage& stage, uint32_t r, uint32_t c, uint64_t k) const {
    for (const Wait& wait : stage.ranks[r]->waits(c, k)) {
      const End& end = stage.ends[r][wait.connection];
      if (wait.message >= (wait.moment == Wait::Moment::kArrival ? end.arrived : end.done)) {
        return false;
      }
    }
    return true;
  }

  void grant(size_t number, uint32_t r, uint32_t c) {
    Stage& stage = stages_[number];
    const Connection& connection = stage.ranks[r]->connections()[c];
    if (connection.direction == Direction::kSend) return;
    End& end = stage.ends[r][c];
    const FarEnd far = stage.far[r][c];
    while (end.granted < std::min<uint64_t>(connection.messages, end.done + connection.window)) {
      ++end.granted;
      if (connection.network && is_real(r) && !is_real(far.rank)) {
        wire_.push_back({number, r, c, true});
      } else {
        ++stage.ends[far.rank][far.connection].credits;
      }
    }
  }

  /// A rank is done with what it received as it fills what carries it on, not later.
  bool use_receives(size_t number, uint32_t r) {
    Stage& stage = stages_[number];
    bool any = false;
    for (bool moved = true; moved;) {
      moved = false;
      for (uint32_t c = 0; c < stage.ends[r].size(); ++c) {
        End& end = stage.ends[r][c];
        if (stage.ranks[r]->connections()[c].direction == Direction::kSend) continue;
        if (end.done == end.arrived || !ready(stage, r, c, end.done)) continue;
        ++end.done;
        grant(number, r, c);
        moved = any = true;
      }
    }
    return any;
  }

  bool advance(size_t number, uint32_t r) {
    Stage& stage = stages_[number];
    bool moved = false;
    if (!stage.entered[r]) {
      stage.entered[r] = true;
      for (uint32_t c = 0; c < stage.ends[r].size(); ++c) grant(number, r, c);
      return true;
    }
    for (uint32_t c = 0; c < stage.ends[r].size(); ++c) {
      if (random_() % 4 == 0) continue;
      const Connection& connection = stage.ranks[r]->connections()[c];
      End& end = stage.ends[r][c];
      const FarEnd far = stage.far[r][c];
      End& other = stage.ends[far.rank][far.connection];
      const bool crosses = connection.network && is_real(r) != is_real(far.rank);
      if (connection.direction == Direction::kReceive) {
        moved |= use_receives(number, r);
        continue;
      }
      if (end.done < connection.messages && end.done < other.arrived + connection.window &&
          ready(stage, r, c, end.done)) {
        ++end.done;
        use_receives(number, r);
        moved = true;
      }
      if (end.sent == end.done || end.sent == end.credits) continue;
      moved = true;
      ++end.sent;
      if (crosses && is_real(r)) {
        wire_.push_back({number, r, c, false});
        continue;
      }
      if (crosses) inference_.on_sent(border(connection));
      ++other.arrived;
    }
    return moved;
  }

  bool finished(size_t number, uint32_t r) const {
    const Stage& stage = stages_[number];
    for (uint32_t c = 0; c < stage.ends[r].size(); ++c) {
      const Connection& connection = stage.ranks[r]->connections()[c];
      const End& end = stage.ends[r][c];
      if (end.done != connection.messages) return false;
      if (connection.direction == Direction::kSend && end.sent != connection.messages) return false;
    }
    return true;
  }

  Communicator communicator_;
  std::vector<uint32_t> real_;
  std::vector<Operation> operations_;
  std::mt19937_64 random_;
  DeliveryOrder way_;
  Inference inference_;
  std::vector<Stage> stages_;
  std::deque<OnWire> wire_;
  uint64_t observations_ = 0;
  std::map<uint64_t, size_t> begun_;  ///< operations by their first observation
  uint32_t slow_ = ~uint32_t{0};
  uint64_t turns_ = 1;
  InferredOperation verdict_;
  std::vector<InferredOperation> verdicts_;
};

}  // namespace understudy
