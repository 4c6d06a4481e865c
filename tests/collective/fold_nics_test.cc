// The fold where a node has one NIC for all that its ranks say: beside the plan of all others, real
// ranks do what they do in a run of all ranks packet by packet, if the way of the others is chosen
// as a run chooses it: the plan's times where each NIC has one connection a direction (nic_use.h),
// else messages on the network. FOLD_SEED, FOLD_CASES and FOLD_TABLE=1 as in collective_fold_test.
#include <cstdio>
#include <map>

#include "collective_model/plan/nic_use.h"
#include "tests/extent.h"
#include "tests/rigs/fold_run.h"

namespace understudy {
namespace {

constexpr uint64_t kSeed = 3, kCases = 60, kPackets = 4'000;
constexpr Rate kRate = Rate::bits_per_second(100'000'000'000);
constexpr Duration kLatency = Duration::ns(500);

/// All nodes at one switch.
struct OneSwitch final : FoldNetwork {
  explicit OneSwitch(const FoldCase& c) : frames_(frames(c)) {
    settings.full_packet_bytes = c.payload + 82;
    const VertexId middle = graph.add_vertex({VertexKind::kSwitch, "s", 0, 0, 1});
    for (uint32_t i = 0; i < c.communicator.nodes; ++i) {
      nics.push_back(graph.add_vertex({VertexKind::kNic, numbered("h", i), i, 0, 0}));
      up_[nics.back()] = graph.connect(nics.back(), middle, kRate, kLatency);
    }
    costs.first_header = 16;
    costs.last_header = 4;
  }
  void route(std::vector<FlowSpec>& flows) override {
    for (FlowSpec& flow : flows) {
      flow.path = {up_.at(flow.from), reverse(up_.at(flow.to))};
      flow.back = {up_.at(flow.to), reverse(up_.at(flow.from))};
    }
  }
  Hop hop(uint32_t, uint32_t) const override { return {kRate, kLatency * 2}; }
  uint32_t beside() const override {
    return frames_.ack_bytes + frames_.overhead + 2 * frames_.gap + costs.first_header +
           costs.credit_bytes;
  }

 private:
  const FlowSettings frames_;
  std::map<VertexId, LinkId> up_;
};

struct Outcome {
  std::string name;
  bool by_times = false;
  FoldDifference by;
  Duration allowed;
  double share() const { return by.worst.seconds() / by.took.seconds(); }
};

/// Half a percent, or two packets for each way between nodes that a ring has.
Duration allowed(const FoldCase& c, Duration took) {
  const Duration packet = kRate.time_for(c.payload + 82);
  return std::max(took * 5 / 1000, packet * 2 * static_cast<int64_t>(c.communicator.nodes));
}

NicUse use_of(const FoldCase& c) {
  std::vector<std::shared_ptr<const RankSchedule>> ranks;
  for (uint32_t r = 0; r < c.communicator.ranks(); ++r) ranks.push_back(c.schedule(r));
  return nic_use(c.communicator, ranks, who_plays(c, false));
}

Outcome compare(const FoldCase& c) {
  Outcome out{c.name, use_of(c).alone, {}, {}};
  OneSwitch for_all(c), for_plan(c);
  FoldRun full(c, Others::kPlayed, for_all);
  FoldRun folded(c, out.by_times ? Others::kPlan : Others::kCarriedPlan, for_plan);
  EXPECT_TRUE(full.run()) << c.name;
  EXPECT_TRUE(folded.run()) << c.name;
  out.by = difference(c, full, folded);
  out.allowed = allowed(c, out.by.took);
  return out;
}

TEST(FoldOfSharedNics, RealRanksDoTheSame) {
  const uint64_t seed = number("FOLD_SEED", kSeed),
                 cases = number("FOLD_CASES", every_case() ? kCases : kCases / 3);
  std::vector<Outcome> outcomes;
  for (uint64_t i = 0; i < cases; ++i) {
    outcomes.push_back(compare(draw_fold(seed, i, number("FOLD_PACKETS", kPackets))));
    EXPECT_LE(outcomes.back().by.worst, outcomes.back().allowed) << outcomes.back().name;
  }
  const auto times = std::ranges::count_if(outcomes, &Outcome::by_times);
  const auto equal =
      std::ranges::count(outcomes, Duration(), [](const Outcome& o) { return o.by.worst; });
  const auto far =
      std::ranges::count_if(outcomes, [](const Outcome& o) { return o.share() > 0.005; });
  double most = 0;
  for (const Outcome& o : outcomes) {
    most = std::max(most, o.by.worst.seconds() / o.allowed.seconds());
    if (!o.by_times) {
      EXPECT_EQ(o.by.worst, Duration()) << o.name;
    }
  }
  std::printf("seed %llu, %llu cases, %lld of them by the plan's times\n",
              static_cast<unsigned long long>(seed), static_cast<unsigned long long>(cases),
              static_cast<long long>(times));
  std::printf(
      "%lld equal to the picosecond, %lld more than 0.5 %% off, at most %.0f %% of a limit\n",
      static_cast<long long>(equal), static_cast<long long>(far), 100 * most);
  EXPECT_GT(times, 0);
  EXPECT_LT(times, static_cast<int64_t>(cases));
  if (number("FOLD_TABLE", 0) == 0) return;
  std::ranges::stable_sort(
      outcomes, [](const Outcome& a, const Outcome& b) { return a.share() > b.share(); });
  std::printf("%10s %12s %12s %10s %14s %8s  case\n", "worst", "worst (ps)", "most (ps)",
              "messages", "took (us)", "way");
  for (const Outcome& o : outcomes) {
    std::printf("%9.4f%% %12lld %12lld %10llu %14.3f %8s  %s\n", o.share() * 100,
                static_cast<long long>(o.by.worst.ps()), static_cast<long long>(o.allowed.ps()),
                static_cast<unsigned long long>(o.by.messages), o.by.took.microseconds(),
                o.by_times ? "times" : "packets", o.name.c_str());
  }
}

}  // namespace
}  // namespace understudy
