// What is inferred of operations from the stream of a real rank: schedules are played as that
// stream, in orders drawn at random, and what is said is compared with what was played.
#include "collective_model/inference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>

#include "tests/collective_model_walk.h"

namespace understudy {
namespace {

std::string text_of(const InferredOperation& o) {
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

/// How what a real rank sends comes to the emulated ones.
enum class Way : uint8_t {
  kAtOnce,
  kInOrder,
  kCreditsFirst,  ///< they overtake a message of data
};

/// Ranks that carry out operations one after the other; some of them are real. Every rank does
/// what its schedule says, in an order drawn from a seed.
class Played {
 public:
  struct Counts {
    uint64_t sent = 0;     ///< by emulated ranks to real ones
    uint64_t known = 0;    ///< when they were sent
    uint64_t guessed = 0;  ///< not known, but right
    uint64_t operations = 0, kind = 0, unique = 0, open = 0;
  };

  Played(Communicator communicator, std::vector<uint32_t> real, std::vector<Operation> operations,
         uint64_t seed, Way way)
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

  /// Plays everything. False if what is known of a size was wrong, or nobody could go on.
  bool play() {
    std::vector<size_t> at(communicator_.ranks(), 0);
    size_t left = at.size();
    uint64_t idle = 0;
    while (left > 0 || !wire_.empty()) {
      bool moved = deliver();
      for (uint32_t i = 0; i < at.size(); ++i) {
        const auto r = static_cast<uint32_t>(random_() % at.size());
        if (at[r] == stages_.size()) continue;
        moved |= advance(at[r], r);
        while (way_ == Way::kAtOnce && deliver()) {
        }
        if (finished(at[r], r)) {
          moved = true;
          if (++at[r] == stages_.size()) --left;
        }
      }
      idle = moved ? 0 : idle + 1;
      if (idle > 1000 || wrong_) return false;
      while (inference_.next(verdict_)) verdicts_.push_back(verdict_);
    }
    inference_.finish();
    while (inference_.next(verdict_)) verdicts_.push_back(verdict_);
    return true;
  }

  /// Checks what was said: right as far as no border is open.
  void check(Counts& counts) const {
    counts.sent += counts_.sent;
    counts.known += counts_.known;
    counts.guessed += counts_.guessed;
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
    if (way_ != Way::kAtOnce && random_() % 2 == 0) return true;
    auto next = wire_.begin();
    if (way_ == Way::kCreditsFirst) {
      if (!next->credit && wire_.size() > 1 && wire_[1].credit) ++next;
    }
    const OnWire w = *next;
    wire_.erase(next);
    Stage& stage = stages_[w.stage];
    const Connection& c = stage.ranks[w.rank]->connections()[w.connection];
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
      const uint64_t k = end.sent++;
      if (crosses && is_real(r)) {
        wire_.push_back({number, r, c, false});
        continue;
      }
      if (crosses) {
        const uint32_t at = border(connection);
        const uint32_t bytes = stage.ranks[r]->message(c, k).wire;
        const Inference::Size size = inference_.next_size(at);
        ++counts_.sent;
        counts_.known += size.known ? 1 : 0;
        counts_.guessed += !size.known && size.wire == bytes ? 1 : 0;
        if (size.known && size.wire != bytes) {
          ADD_FAILURE() << "message " << k << " of operation " << number << " on channel "
                        << connection.channel << " has " << bytes << " bytes, not " << size.wire;
          wrong_ = true;
        }
        inference_.on_sent(at);
      }
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
  Way way_;
  Inference inference_;
  std::vector<Stage> stages_;
  std::deque<OnWire> wire_;
  InferredOperation verdict_;
  std::vector<InferredOperation> verdicts_;
  Counts counts_;
  bool wrong_ = false;
};

uint64_t draw(std::mt19937_64& random, uint64_t least, uint64_t most) {
  return least + random() % (most - least + 1);
}

bool is_pipeline(const Operation& o) {
  return o.collective == Collective::kBroadcast || o.collective == Collective::kReduce;
}

Operation draw_operation(std::mt19937_64& random, const Communicator& communicator) {
  constexpr DataType kTypes[] = {DataType::kInt8, DataType::kFloat16, DataType::kFloat32,
                                 DataType::kFloat64};
  while (true) {
    Operation o;
    o.collective = static_cast<Collective>(random() % 5);
    o.algorithm = static_cast<Algorithm>(random() % 3);
    o.protocol = static_cast<Protocol>(random() % 3);
    if (is_pipeline(o) && o.algorithm != Algorithm::kRing) continue;
    o.type = kTypes[random() % 4];
    o.root = static_cast<uint32_t>(random() % communicator.ranks());
    o.channels = static_cast<uint32_t>(draw(random, 0, communicator.channels));
    const uint64_t most = o.protocol == Protocol::kLL ? 21 : 24;
    o.count = (uint64_t{1} << draw(random, 0, most)) / element_bytes(o.type) + 1;
    if (random() % 3 != 0) o.count = draw(random, 1, o.count);
    if (o.collective == Collective::kAllGather || o.collective == Collective::kReduceScatter) {
      o.count = ceil_div(o.count, communicator.ranks());
    }
    if (check_operation(communicator, o)) return o;
  }
}

std::string describe(const Communicator& c, const std::vector<Operation>& operations) {
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

TEST(Inference, WhatItSaysIsNeverWrong) {
  std::map<Way, Played::Counts> all;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 random(seed);
    Communicator c = nodes_of(static_cast<uint32_t>(draw(random, 2, 8)),
                              static_cast<uint32_t>(draw(random, 1, 4)), 1,
                              static_cast<uint32_t>(draw(random, 18, 30)));
    if (random() % 5 == 0) c.gpus = static_cast<uint32_t>(draw(random, 2, 3));
    const auto node = static_cast<uint32_t>(random() % c.nodes);
    std::vector<uint32_t> real;
    for (uint32_t g = 0; g < c.gpus; ++g) real.push_back(node * c.gpus + g);
    std::vector<Operation> operations;
    for (uint64_t i = draw(random, 1, 5); i > 0; --i) {
      // What one operation explains is taken for one: a rank that only sends in one and only
      // receives in the next looks like one that does both. So pipelines come among their like
      // here.
      Operation o = draw_operation(random, c);
      while (!operations.empty() && is_pipeline(o) != is_pipeline(operations[0])) {
        o = draw_operation(random, c);
      }
      if (!operations.empty() && is_pipeline(o)) {
        const uint64_t bytes = o.bytes();
        o = operations[0];
        o.count = ceil_div(bytes, element_bytes(o.type));
      }
      operations.push_back(o);
    }
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + describe(c, operations));
    const auto way = static_cast<Way>(seed % 3);
    Played played(c, real, operations, random(), way);
    ASSERT_TRUE(played.play());
    played.check(all[way]);
    if (HasFailure()) return;
  }
  for (const auto& [way, counts] : all) {
    std::printf(
        "%s: of %lu operations the kind of %lu and all of %lu is known, a border of %lu is in "
        "doubt;\n"
        "  of %lu messages of emulated ranks the size of %lu is known in time, of %lu guessed\n",
        way == Way::kAtOnce    ? "at once"
        : way == Way::kInOrder ? "in order"
                               : "credits first",
        counts.operations, counts.kind, counts.unique, counts.open, counts.sent, counts.known,
        counts.guessed);
  }
}

/// Plays operations and returns what is said of them.
std::vector<InferredOperation> said(const Communicator& communicator, uint32_t real,
                                    const std::vector<Operation>& operations) {
  Played played(communicator, {real}, operations, 1, Way::kAtOnce);
  EXPECT_TRUE(played.play());
  Played::Counts counts;
  played.check(counts);
  return played.verdicts();
}

/// All-reduces of the recorded runs (nccl-wire J.3) by 2.28: their size is known to the byte.
TEST(Inference, RecordedAllReduces) {
  struct Case {
    uint32_t ranks, channels;
    uint64_t floats;
  };
  for (const Case& c : {Case{4, 1, 25000}, Case{4, 4, 26214400}, Case{8, 2, 3000001},
                        Case{5, 2, 16777216}, Case{4, 3, 16777216}}) {
    const Operation o = operation_of(Collective::kAllReduce, c.floats * 4);
    for (const InferredOperation& v : said(nodes_of(c.ranks, c.channels), 0, {o, o})) {
      ASSERT_FALSE(v.border_open) << text_of(v);
      const auto& candidates = v.candidates;
      const auto found = std::ranges::find_if(candidates, [](const auto& candidate) {
        return candidate.collective == Collective::kAllReduce;
      });
      ASSERT_NE(found, candidates.end()) << text_of(v);
      EXPECT_TRUE(found->bytes == SizeSet(c.floats * 4, c.floats * 4)) << text_of(v);
      EXPECT_EQ(v.channels, c.channels);
    }
  }
}

/// Credits as emulated rank 3 saw them in the run of nccl-wire J.5: LL 18, Simple by two steps 12,
/// LL 18, Simple 12, LL 6, Simple 12 (two operations), Simple by one step 1.
TEST(Inference, RecordedSequenceOfProtocols) {
  const uint64_t count = 98304;
  std::vector<Operation> operations = {
      operation_of(Collective::kAllReduce, count * 4, Algorithm::kRing, Protocol::kLL),
      operation_of(Collective::kAllReduce, count * 8, Algorithm::kRing, Protocol::kSimple,
                   DataType::kFloat64),
      operation_of(Collective::kAllReduce, count * 4, Algorithm::kRing, Protocol::kLL,
                   DataType::kInt32),
      operation_of(Collective::kAllReduce, count * 8, Algorithm::kRing, Protocol::kSimple,
                   DataType::kInt64),
      operation_of(Collective::kAllReduce, count, Algorithm::kRing, Protocol::kLL, DataType::kInt8),
      operation_of(Collective::kAllGather, count * 4),
      operation_of(Collective::kReduceScatter, count * 4),
      operation_of(Collective::kBroadcast, count * 4),
  };
  operations.back().root = 1;
  const auto verdicts = said(nodes_of(4), 0, operations);
  ASSERT_EQ(verdicts.size(), operations.size());
  for (const InferredOperation& v : verdicts) EXPECT_FALSE(v.border_open) << text_of(v);
}

/// An operation that is repeated is sent with the right sizes from its first message on, although
/// these are not known yet.
TEST(Inference, WhatCameBeforeIsExpectedAgain) {
  const Operation a = operation_of(Collective::kAllReduce, 100000);
  const Operation b = operation_of(Collective::kAllReduce, 5 << 20);
  Played::Counts first, more;
  for (const auto& [rounds, counts] : {std::pair(1, &first), std::pair(4, &more)}) {
    std::vector<Operation> operations;
    for (int i = 0; i < rounds; ++i) operations.insert(operations.end(), {a, b});
    Played played(nodes_of(4), {2}, operations, 1, Way::kAtOnce);
    ASSERT_TRUE(played.play());
    played.check(*counts);
  }
  const auto wrong = [](const Played::Counts& c) { return c.sent - c.known - c.guessed; };
  EXPECT_GT(wrong(first), 0u);
  EXPECT_LT(wrong(more), 3 * wrong(first));  // of four times as many
}

TEST(Inference, WhatNothingExplainsIsLost) {
  Inference inference(nodes_of(4), {0});
  uint32_t receive = 0;
  while (!inference.connections()[receive].to_real) ++receive;
  inference.on_credit(receive, 12345);
  ASSERT_TRUE(inference.lost());
  EXPECT_NE(inference.lost()->find("a credit of 12345 bytes on channel 0"), std::string::npos)
      << *inference.lost();
  EXPECT_FALSE(inference.next_size(receive).known);
}

/// Which sizes a message leaves, against trying them all.
TEST(LaneKind, WhatAMessageLeavesIsAllThatHasIt) {
  std::mt19937_64 random(5);
  uint64_t tried = 0;
  for (const uint32_t version : {18u, 20u, 22u, 28u}) {
    Communicator c = nodes_of(static_cast<uint32_t>(draw(random, 2, 5)), 2, 1, version);
    c.buffers = {.simple = 8 * 4096, .ll = 8 * 512, .ll128 = 8 * 4096, .p2p_chunk = 4096};
    const std::vector<uint32_t> real = {1};
    const auto connections = border_connections(c, real);
    for (const LaneKind& kind : lane_kinds(c, real, connections, 1)) {
      for (int i = 0; i < 4; ++i) {
        const LaneKind::Way& way = kind.ways[random() % kind.ways.size()];
        const uint64_t most = std::min(kind.sizes.most(), 2 * kind.loop_bytes + 4096);
        if (kind.sizes.least() > most) continue;
        const uint64_t size = draw(random, kind.sizes.least(), most);
        const uint64_t k = random() % kind.messages(way, size);
        const uint32_t wire = *kind.wire(way, k, size);
        const uint32_t before = k == 0 ? 0 : *kind.wire(way, k - 1, size);
        const SizeSet left = kind.with_wire(way, k, wire, before);
        ASSERT_TRUE(left.contains(size));
        const bool second = k % way.per_loop % kind.chunking.slices() == 1;
        for (uint64_t other = kind.sizes.least(); other <= most; other += 1 + random() % 64) {
          const auto same = kind.wire(way, k, other);
          const bool fits = same == wire && (!second || kind.wire(way, k - 1, other) == before);
          ASSERT_EQ(left.contains(other), fits)
              << other << " for " << size << ", message " << k << " of " << wire << " bytes";
          ++tried;
        }
      }
    }
  }
  EXPECT_GT(tried, 10000u);
}

TEST(Inference, OfFewerChannelsThanThereAre) {
  const Operation small = operation_of(Collective::kAllReduce, 8);
  const Operation larger = operation_of(Collective::kAllReduce, 65536);
  for (const InferredOperation& v :
       said(nodes_of(4, 2), 0, {small, small, larger, larger, small})) {
    EXPECT_FALSE(v.border_open) << text_of(v);
  }
}

}  // namespace
}  // namespace understudy
