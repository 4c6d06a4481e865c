// ring_node without verbs: its cutting against known numbers, and whole rings of its channels whose
// queue pairs are replaced by memory, verified bit by bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "collective_model/schedule/simple_all_reduce.h"
#include "dataplane/base/pattern.h"
#include "dataplane/nccl/cts_layout.h"
#include "tools/rigs/ring_node/ring/channel.h"
#include "tools/rigs/ring_node/ring/cutting.h"
#include "tools/rigs/ring_node/ring/values.h"

namespace understudy {
namespace {

RingJobMessage job(uint32_t ranks, uint32_t rank, uint32_t channels) {
  RingJobMessage m;
  m.ranks = ranks;
  m.client_rank = rank;
  m.peer_rank = (rank + 1) % ranks;
  m.real_ranks = {rank};
  m.channels = channels;
  m.seed = 42;
  m.exact = true;
  return m;
}

/// Bytes of the messages of one loop that rank `rank` sends on the only channel.
std::vector<uint64_t> sent_bytes(uint32_t ranks, uint64_t bytes, uint64_t loop) {
  const RankCutting cutting(job(ranks, 0, 1));
  const ElementRange part = cutting.parts(bytes / 4)[0];
  std::vector<uint64_t> out;
  for (uint32_t j = 0; j < 2 * (ranks - 1); ++j) {
    const ElementRange chunk = cutting.chunk(part, loop, (2 * ranks - 1 - j) % ranks);
    for (unsigned s = 0; s < cutting.slices_per_chunk(); ++s) {
      out.push_back(cutting.slice(chunk, s).count * 4);
    }
  }
  return out;
}

// Figures recorded from NCCL 2.28.9 and listed in its description (docs/nccl G.1, J.3).
TEST(RankCutting, MatchesNccl) {
  EXPECT_EQ(sent_bytes(4, 100000, 0),
            (std::vector<uint64_t>{24976, 0, 25008, 0, 25008, 0, 25008, 0, 24976, 0, 25008, 0}));
  EXPECT_EQ(sent_bytes(4, 64 << 20, 7), std::vector<uint64_t>(12, 1 << 20));
  EXPECT_EQ(sent_bytes(4, 100 << 20, 12), std::vector<uint64_t>(12, 524288));
  EXPECT_EQ(sent_bytes(4, 8, 0), (std::vector<uint64_t>{0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0}));
  const RankCutting cutting(job(64, 0, 1));
  EXPECT_EQ(cutting.messages({0, 16777216}), 252u);
}

std::vector<uint64_t> part_bytes(uint32_t channels, uint64_t bytes) {
  std::vector<uint64_t> out;
  for (const auto& part : RankCutting(job(4, 0, channels)).parts(bytes / 4)) {
    if (part.count != 0) out.push_back(part.count * 4);
  }
  return out;
}

TEST(RankCutting, GivesChannelsTheirParts) {
  EXPECT_EQ(part_bytes(8, 4096), (std::vector<uint64_t>{4096}));
  EXPECT_EQ(part_bytes(8, 16384), (std::vector<uint64_t>{8192, 8192}));
  EXPECT_EQ(part_bytes(8, 100000),
            (std::vector<uint64_t>{16384, 16384, 16384, 16384, 16384, 16384, 1696}));
  EXPECT_EQ(part_bytes(3, 64 << 20), (std::vector<uint64_t>{22372352, 22372352, 22364160}));
  EXPECT_EQ(part_bytes(2, 12000004), (std::vector<uint64_t>{6004736, 5995268}));
}

TEST(RankCutting, CoversEveryElementOnce) {
  for (uint32_t ranks : {2u, 3u, 5u, 16u}) {
    for (uint64_t count : {1u, 3u, 1000u, 25000u, 3000001u}) {
      const RankCutting cutting(job(ranks, 0, 3));
      uint64_t next = 0;
      for (const auto& part : cutting.parts(count)) {
        for (uint64_t loop = 0; loop < cutting.loops(part); ++loop) {
          for (uint32_t k = 0; k < ranks; ++k) {
            const ElementRange chunk = cutting.chunk(part, loop, k);
            for (unsigned s = 0; s < cutting.slices_per_chunk(); ++s) {
              const ElementRange slice = cutting.slice(chunk, s);
              ASSERT_EQ(slice.first, next);
              next += slice.count;
            }
          }
        }
      }
      EXPECT_EQ(next, count);
    }
  }
}

// Two implementations from one description: what the emulator's model says is what ring_node says.
TEST(RankCutting, AgreesWithTheModel) {
  for (uint32_t ranks : {2u, 3u, 4u, 8u, 63u, 300u}) {
    for (uint32_t channels : {1u, 2u, 3u, 16u}) {
      for (uint64_t bytes : {4ull, 100ull, 8196ull, 100000ull, 131072ull * 16 + 4, 50000004ull}) {
        const RankCutting cutting(job(ranks, 0, channels));
        std::vector<ElementRange> parts = cutting.parts(bytes / 4);
        std::erase_if(parts, [](const ElementRange& part) { return part.count == 0; });
        const auto model_parts = cut_all_reduce(bytes, 4, channels);
        ASSERT_EQ(parts.size(), model_parts.size());
        for (size_t c = 0; c < parts.size(); ++c) {
          ASSERT_EQ(parts[c].first * 4, model_parts[c].offset);
          ASSERT_EQ(parts[c].count * 4, model_parts[c].bytes);
          const RingSchedule model(ranks, model_parts[c], 4);
          ASSERT_EQ(cutting.messages(parts[c]), model.messages());
          for (uint32_t m = 0; m < model.messages(); ++m) {
            const RingMessage sent = model.sent(1, m);
            const ElementRange ours =
                cutting.slice(cutting.chunk(parts[c], sent.loop, sent.chunk), sent.slice);
            ASSERT_EQ(ours.count * 4, sent.size) << ranks << " " << channels << " " << bytes;
            if (sent.size != 0) {
              ASSERT_EQ(ours.first * 4, sent.offset);
            }
          }
        }
      }
    }
  }
}

TEST(Values, AreSummedInRingOrder) {
  RingJobMessage m = job(3, 0, 1);
  const std::vector<float> input = input_values(9, 0, 24);
  const std::vector<float> sum = expected_values(m, 9, input);
  const Pattern one(42, 1);
  const Pattern two(42, 2);
  // 24 elements in 3 chunks of 8; chunk k starts at rank k + 1.
  EXPECT_EQ(sum[0], (one.at(0) + two.at(0)) + input[0]);
  EXPECT_EQ(sum[8], (two.at(8) + input[8]) + one.at(8));
  EXPECT_EQ(sum[16], (input[16] + one.at(16)) + two.at(16));
}

TEST(Values, AreKnownOnlyIfAllRanksAreKnown) {
  RingJobMessage m = job(3, 0, 1);
  EXPECT_TRUE(verifiable(m, false));
  m.real_ranks = {0, 1};
  EXPECT_FALSE(verifiable(m, false));
  EXPECT_TRUE(verifiable(m, true));
  m.exact = false;
  EXPECT_FALSE(verifiable(m, true));
}

TEST(Values, DifferencesAreBitDifferences) {
  const std::vector<float> a = {0.0f, 1.0f, 2.0f};
  const std::vector<float> b = {-0.0f, 1.0f, 2.0f};
  EXPECT_EQ(count_differences(a, b), 1u);
  EXPECT_EQ(only_difference(a, b), 0u);
  EXPECT_EQ(first_difference(a, b), "element 0 is 0 (0x00000000), expected -0 (0x80000000)");
  EXPECT_EQ(only_difference(a, a), std::nullopt);
  EXPECT_EQ(only_difference(a, std::vector<float>{1, 2, 2}), std::nullopt);
}

/// One rank's queue pairs as memory: what it writes lies in a queue until the ring delivers it.
class MemoryLinks : public ChannelLinks {
 public:
  struct Message {
    uint64_t k;
    uint64_t address;
    uint32_t bytes;
    std::vector<float> data;
  };

  explicit MemoryLinks(uint32_t previous_rank)
      : tag_(previous_rank), receive_(kRingSteps * kStep), send_(kRingSteps * kStep) {}

  Result<void> grant(uint64_t k) override {
    credits_out.push_back({k, CreditEntry{.address = 1 + slot(k),
                                          .size = 2 * kStep * 4,
                                          .rkeys = {7},
                                          .nreqs = 1,
                                          .tag = tag_,
                                          .idx = k + 1}});
    return {};
  }
  const CreditEntry* credit(uint64_t k) override {
    const auto it = credits_in.find(k);
    return it == credits_in.end() ? nullptr : &it->second;
  }
  Result<void> send(uint64_t k, const CreditEntry& credit, uint32_t bytes) override {
    const float* data = send_slot(k);
    data_out.push_back({k, credit.address - 1, bytes, {data, data + bytes / 4}});
    most_in_flight = std::max(most_in_flight, data_out.size() + unacknowledged);
    return {};
  }
  const float* receive_slot(uint64_t k) override { return receive_.data() + slot(k); }
  float* send_slot(uint64_t k) override { return send_.data() + slot(k); }

  void take(const Message& m) {
    std::ranges::copy(m.data, receive_.begin() + static_cast<std::ptrdiff_t>(m.address));
  }

  std::deque<std::pair<uint64_t, CreditEntry>> credits_out;
  std::map<uint64_t, CreditEntry> credits_in;
  std::deque<Message> data_out;
  size_t unacknowledged = 0;
  size_t most_in_flight = 0;

 private:
  static constexpr size_t kStep = 524288 / 4;  ///< elements
  static size_t slot(uint64_t k) { return k * 2 % kRingSteps * kStep; }
  uint32_t tag_;
  std::vector<float> receive_;
  std::vector<float> send_;
};

/// All ranks of a ring in one process; every rank is real to itself and the others are patterns.
class MemoryRing {
 public:
  /// `ack_every`: a rank hears of one message's acknowledgement every so many turns.
  explicit MemoryRing(uint32_t ranks, uint32_t ack_every = 1)
      : ranks_(ranks), ack_every_(ack_every), turns_(ranks) {
    for (uint32_t r = 0; r < ranks; ++r) {
      links_.push_back(std::make_unique<MemoryLinks>((r + ranks - 1) % ranks));
      channels_.push_back(std::make_unique<RankChannel>(job(ranks, r, 1), 0, *links_[r]));
    }
  }

  MemoryLinks& links(uint32_t rank) { return *links_[rank]; }
  RankChannel& channel(uint32_t rank) { return *channels_[rank]; }

  /// Runs one all-reduce; what rank r puts in is inputs[r].
  std::vector<std::vector<float>> run(const std::vector<std::vector<float>>& inputs) {
    std::vector<std::vector<float>> outputs;
    for (const auto& input : inputs) outputs.emplace_back(input.size());
    for (uint32_t r = 0; r < ranks_; ++r) {
      channels_[r]->start({0, inputs[r].size()}, inputs[r].data(), outputs[r].data());
    }
    // A different rank is served first in each round, so that no order is taken for granted.
    for (uint32_t round = 0; round < 100000 && !done(); ++round) {
      for (uint32_t i = 0; i < ranks_; ++i) serve((round + i) % ranks_);
    }
    EXPECT_TRUE(done());
    return outputs;
  }

 private:
  bool done() const {
    return std::ranges::all_of(channels_, [](const auto& c) { return c->done(); });
  }

  void serve(uint32_t r) {
    MemoryLinks& mine = *links_[r];
    if (++turns_[r] % ack_every_ == 0 && mine.unacknowledged > 0) {
      --mine.unacknowledged;
      channels_[r]->on_sent();
    }
    const auto progressed = channels_[r]->progress();
    ASSERT_TRUE(progressed) << progressed.error().text;
    MemoryLinks& previous = *links_[(r + ranks_ - 1) % ranks_];
    if (!mine.credits_out.empty()) {
      previous.credits_in.insert(mine.credits_out.front());
      mine.credits_out.pop_front();
    }
    if (mine.data_out.empty()) return;
    const uint32_t next = (r + 1) % ranks_;
    links_[next]->take(mine.data_out.front());
    const auto received = channels_[next]->on_received(mine.data_out.front().bytes);
    ASSERT_TRUE(received) << received.error().text;
    mine.data_out.pop_front();
    ++mine.unacknowledged;
  }

  uint32_t ranks_, ack_every_;
  std::vector<uint32_t> turns_;
  std::vector<std::unique_ptr<MemoryLinks>> links_;
  std::vector<std::unique_ptr<RankChannel>> channels_;
};

/// Rank 0 has values of its own seed, the others those that the job's seed prescribes.
std::vector<std::vector<float>> inputs_of(uint32_t ranks, uint64_t count) {
  std::vector<std::vector<float>> inputs = {input_values(77, 0, count)};
  for (uint32_t r = 1; r < ranks; ++r) inputs.push_back(input_values(42, r, count));
  return inputs;
}

/// One all-reduce of so many elements, compared bit by bit on every rank.
void run_right(MemoryRing& ring, uint32_t ranks, uint64_t count) {
  const auto inputs = inputs_of(ranks, count);
  const auto outputs = ring.run(inputs);
  const auto expected = expected_values(job(ranks, 0, 1), 77, inputs[0]);
  for (uint32_t r = 0; r < ranks; ++r) {
    ASSERT_EQ(count_differences(outputs[r], expected), 0u)
        << ranks << " ranks, " << count << " elements, rank " << r;
  }
}

TEST(RankChannel, ReducesBitByBitAsExpected) {
  for (uint32_t ranks : {2u, 3u, 4u, 7u}) {
    MemoryRing ring(ranks);
    // Two operations of each size on the same connections: numbers and slots run on.
    for (uint64_t count : {1u, 1024u, 25000u, 25000u, 4u << 20}) run_right(ring, ranks, count);
    for (uint32_t r = 0; r < ranks; ++r) EXPECT_LE(ring.links(r).most_in_flight, 4u);
  }
}

// An operation ends before its last messages are acknowledged: they count in the next one's window,
// and their slots are not written again.
TEST(RankChannel, OperationsOverlapByWhatIsNotAcknowledged) {
  for (uint32_t ranks : {2u, 3u, 4u}) {
    MemoryRing ring(ranks, 9);
    bool overlapped = false;
    for (uint64_t count : {25000u, 1024u, 25000u, 4u << 20, 25000u}) {
      run_right(ring, ranks, count);
      for (uint32_t r = 0; r < ranks; ++r) overlapped = overlapped || !ring.channel(r).idle();
    }
    EXPECT_TRUE(overlapped);
    for (uint32_t r = 0; r < ranks; ++r) EXPECT_LE(ring.links(r).most_in_flight, 4u);
  }
}

TEST(RankChannel, OneChangedInputChangesOneResult) {
  MemoryRing ring(4);
  auto inputs = inputs_of(4, 25000);
  const auto before = ring.run(inputs);
  inputs[0][12345] = -inputs[0][12345];
  const auto after = ring.run(inputs);
  for (uint32_t r = 0; r < 4; ++r) EXPECT_EQ(only_difference(before[r], after[r]), 12345u);
}

TEST(RankChannel, KeepsFourCreditsOutstandingAndSendsNothingWithout) {
  MemoryLinks links(3);
  RankChannel channel(job(4, 0, 1), 0, links);
  std::vector<float> input = input_values(1, 0, 4 << 20);
  std::vector<float> output(input.size());
  channel.start({0, input.size()}, input.data(), output.data());
  EXPECT_TRUE(channel.progress().value());
  EXPECT_FALSE(channel.progress().value());
  EXPECT_EQ(links.credits_out.size(), 4u);
  EXPECT_TRUE(links.data_out.empty());
  EXPECT_NE(channel.waiting_for().find("a credit for message 0"), std::string::npos);
}

TEST(RankChannel, HasFourMessagesInFlightHoweverManyCreditsItHas) {
  MemoryLinks links(3);
  RankChannel channel(job(4, 0, 1), 0, links);
  std::vector<float> input = input_values(1, 0, 4 << 20);
  std::vector<float> output(input.size());
  channel.start({0, input.size()}, input.data(), output.data());
  for (uint64_t k = 0; k < 8; ++k) {
    links.credits_in[k] = {
        .address = 1, .size = 1 << 20, .rkeys = {7}, .nreqs = 1, .tag = 0, .idx = k + 1};
  }
  ASSERT_TRUE(channel.progress());
  EXPECT_EQ(links.data_out.size(), 2u);  // its own chunk; all later ones need what it receives
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(channel.on_received(1 << 20));
  ASSERT_TRUE(channel.progress());
  EXPECT_EQ(links.data_out.size(), 4u);
  channel.on_sent();
  ASSERT_TRUE(channel.progress());
  EXPECT_EQ(links.data_out.size(), 5u);
}

TEST(RankChannel, RefusesCreditsAndMessagesThatDoNotFit) {
  const auto failure = [](auto change) {
    MemoryLinks links(3);
    RankChannel channel(job(4, 0, 1), 0, links);
    std::vector<float> input = input_values(1, 0, 1024);
    std::vector<float> output(input.size());
    channel.start({0, input.size()}, input.data(), output.data());
    CreditEntry credit{.address = 1, .size = 1 << 20, .rkeys = {7}, .nreqs = 1, .tag = 0, .idx = 1};
    change(credit);
    links.credits_in.emplace(0, credit);
    const auto progressed = channel.progress();
    return progressed ? std::string() : progressed.error().text;
  };
  EXPECT_EQ(failure([](auto&) {}), "");
  EXPECT_NE(failure([](auto& c) { c.tag = 3; }).find("tag 3"), std::string::npos);
  EXPECT_NE(failure([](auto& c) { c.size = 1023; }).find("room for 1023"), std::string::npos);
  EXPECT_NE(failure([](auto& c) { c.rkeys[0] = 0; }).find("rkey"), std::string::npos);
  EXPECT_NE(failure([](auto& c) { c.nreqs = 2; }).find("2 requests"), std::string::npos);

  MemoryLinks links(3);
  RankChannel channel(job(4, 0, 1), 0, links);
  std::vector<float> input = input_values(1, 0, 1024);
  std::vector<float> output(input.size());
  channel.start({0, input.size()}, input.data(), output.data());
  EXPECT_NE(channel.on_received(1024).error().text.find("without a credit"), std::string::npos);
  ASSERT_TRUE(channel.progress());
  EXPECT_NE(channel.on_received(1000).error().text.find("the cutting says 1024"),
            std::string::npos);
}

/// Both forms are those that the emulated side reads (docs/nccl 3.1).
TEST(CreditForm, IsThatOfTheEmulatedSide) {
  for (const CtsLayout& layout : {CtsLayout(), CtsLayout::with_eight_devices()}) {
    const CreditForm form(static_cast<uint32_t>(layout.devices()));
    CreditEntry credit{
        .address = 11, .size = 12, .rkeys = {1, 2, 3, 4}, .nreqs = 1, .tag = 5, .idx = 6};
    if (layout.devices() == 8) credit.rkeys[7] = 9;
    std::array<std::byte, CreditForm::kBytes> bytes;
    form.write(credit, bytes.data());
    const auto at = [&](size_t offset) {
      uint32_t word;
      std::memcpy(&word, bytes.data() + offset, sizeof word);
      return word;
    };
    EXPECT_EQ(layout.entry_bytes, CreditForm::kBytes);
    EXPECT_EQ(at(0), 11u);
    EXPECT_EQ(at(8), 12u);
    EXPECT_EQ(at(layout.rkey_at + 12u), 4u);
    EXPECT_EQ(at(layout.requests_at), 1u);
    EXPECT_EQ(at(layout.tag_at), 5u);
    EXPECT_EQ(at(layout.index_at), 6u);
    EXPECT_EQ(form.idx_at(), layout.index_at);
    const CreditEntry read = form.read(bytes.data());
    EXPECT_EQ(read.rkeys[7], credit.rkeys[7]);
    EXPECT_EQ(read.size, credit.size);
    EXPECT_EQ(read.idx, credit.idx);
  }
}

}  // namespace
}  // namespace understudy
