// The fold where messages meet: real ranks beside the plan of all others, whose messages the
// network carries, against a run of all ranks that knows no plan. Leaf-spines with fewer uplinks
// than hosts, where data, credits and acknowledgements of several ranks share links: with PFC only,
// and with random marks and DCQCN; with and without time on the ways inside nodes. FOLD_SEED,
// FOLD_CASES and FOLD_TABLE=1 as in collective_fold_test.
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>

#include "dataplane/cc/make_controller.h"
#include "tests/rigs/fold_run.h"

namespace understudy {
namespace {

constexpr uint64_t kSeed = 3, kCases = 40, kRandomCases = 5, kPackets = 2'000;
constexpr uint64_t kLeastMarks = 20;  // of a case with random marks
constexpr uint32_t kSpines = 2;
constexpr Rate kRate = Rate::bits_per_second(100'000'000'000);
constexpr uint64_t kRuns = 8;  // of a case, each with a seed of the marks

/// Hosts' links are twice as fast as all uplinks of their leaf together. A NIC has one cable,
/// whatever number of ranks and connections use it.
struct LeafSpine : FoldNetwork {
  explicit LeafSpine(const FoldCase& c) : payload(c.payload) {
    constexpr Duration kLatency = Duration::ns(500);
    const uint32_t nodes = c.communicator.nodes;
    hosts_per_leaf = nodes > 4 ? 4 : 1;
    std::vector<VertexId> leaf, spine;
    for (uint32_t i = 0; i * hosts_per_leaf < nodes; ++i) {
      leaf.push_back(graph.add_vertex({VertexKind::kSwitch, numbered("leaf", i), 0, 0, 1}));
    }
    for (uint32_t i = 0; i < kSpines; ++i) {
      spine.push_back(graph.add_vertex({VertexKind::kSwitch, numbered("spine", i), 0, 0, 2}));
    }
    const Rate uplink = Rate::bits_per_second(kRate.bps() * hosts_per_leaf / 2 / kSpines);
    for (const VertexId l : leaf) {
      for (const VertexId s : spine) graph.connect(l, s, uplink, kLatency);
    }
    for (uint32_t i = 0; i < nodes; ++i) {
      nics.push_back(graph.add_vertex({VertexKind::kNic, numbered("h", i), i, 0, 0}));
      graph.connect(nics.back(), leaf[i / hosts_per_leaf], kRate, kLatency);
    }
    settings.full_packet_bytes = payload + 82;
    settings.classes[0].pfc.emplace();
    settings.classes[0].pfc->xoff = 4 * uint64_t{payload};
    settings.classes[0].pfc->xon = 2 * uint64_t{payload};
    settings.classes[0].pfc->headroom_by_link = true;
    costs.first_header = 16;
    costs.last_header = 4;
  }
  void route(std::vector<FlowSpec>& flows) override {
    for (FlowSpec& flow : flows) {
      flow.path = known_path(flow.from, flow.to);
      flow.back = known_path(flow.to, flow.from);
    }
  }
  const std::vector<LinkId>& known_path(VertexId from, VertexId to) {
    const auto [it, fresh] = known.try_emplace({from, to});
    if (fresh) it->second = path(from, to);
    return it->second;
  }
  Hop hop(uint32_t from_node, uint32_t to_node) const override {
    Hop out{kRate, {}};
    for (const LinkId link : path(nics[from_node], nics[to_node])) {
      out.latency += graph.link(link).latency;
      out.rate = std::min(out.rate, graph.link(link).rate);
    }
    return out;
  }
  std::vector<LinkId> path(VertexId from, VertexId to) const {
    const uint32_t a = graph.vertices()[from].node, b = graph.vertices()[to].node;
    const std::string up = numbered("leaf", a / hosts_per_leaf);
    const std::string down = numbered("leaf", b / hosts_per_leaf);
    const std::string first = graph.vertices()[from].name, last = graph.vertices()[to].name;
    if (up == down) return path_of(graph, {first, up, last});
    return path_of(graph, {first, up, numbered("spine", (a * 7 + b) % kSpines), down, last});
  }

  const uint32_t payload;
  uint32_t hosts_per_leaf = 1;
  std::map<std::pair<VertexId, VertexId>, std::vector<LinkId>> known;
};

/// The same, with queues that mark and senders that obey.
struct MarkingLeafSpine final : LeafSpine {
  MarkingLeafSpine(const FoldCase& c, uint64_t seed) : LeafSpine(c) {
    settings.seed = seed;
    settings.classes[0].pfc->xoff = 24 * uint64_t{payload};
    settings.classes[0].pfc->xon = 16 * uint64_t{payload};
    settings.classes[0].ecn.push_back({Rate(), 4 * uint64_t{payload}, 40 * uint64_t{payload}, 0.2});
    costs.ect = true;
    costs.control = 0;
  }
  FlowControl control(const FlowSpec& flow, Rate line, Duration base_rtt) const override {
    if (flow.control == kNoControl) return line_rate(flow, line, base_rtt);
    FlowControl out;
    out.controller = make_controller(DcqcnParameters(), {line, base_rtt, payload});
    out.cnps = true;
    return out;
  }
};

FoldCase congested_case(uint64_t i) {
  return draw_fold(number("FOLD_SEED", kSeed), i, number("FOLD_PACKETS", kPackets));
}

void print_heading(uint64_t cases) {
  std::printf("seed %llu, %llu cases\n",
              static_cast<unsigned long long>(number("FOLD_SEED", kSeed)),
              static_cast<unsigned long long>(cases));
}

/// Of all links.
uint64_t sum(const FoldRun& run, uint64_t NetworkLinkCounters::*counter) {
  uint64_t n = 0;
  for (LinkId l = 0; l < run.graph().links().size(); ++l) n += run.network().counters(l).*counter;
  return n;
}

struct Outcome {
  std::string name;
  FoldDifference by;
  double share = 0;  ///< of the operation's time
  uint64_t pauses = 0;
};

Outcome compare(const FoldCase& c) {
  LeafSpine for_all(c), for_plan(c);
  FoldRun full(c, Others::kPlayed, for_all), folded(c, Others::kCarriedPlan, for_plan);
  EXPECT_TRUE(full.run()) << c.name;
  EXPECT_TRUE(folded.run()) << c.name;
  Outcome out{c.name, difference(c, full, folded), 0, sum(full, &NetworkLinkCounters::pauses)};
  out.share = out.by.worst.seconds() / out.by.took.seconds();
  return out;
}

// The issue asks for 1 %; the plan hears and says everything when played ranks do, and what falls
// on one picosecond happens in the same order (flow_traffic.h), so nothing is left to differ.
TEST(FoldUnderCongestion, RealRanksDoTheSameWithPausesOnly) {
  const uint64_t count = number("FOLD_CASES", kCases);
  print_heading(count);
  std::vector<Outcome> outcomes;
  for (uint64_t i = 0; i < count; ++i) {
    outcomes.push_back(compare(congested_case(i)));
    EXPECT_EQ(outcomes.back().by.worst, Duration()) << outcomes.back().name;
  }
  EXPECT_TRUE(std::ranges::any_of(outcomes, [](const Outcome& o) { return o.pauses > 20; }));
  if (number("FOLD_TABLE", 0) == 0) return;
  std::ranges::stable_sort(outcomes,
                           [](const Outcome& a, const Outcome& b) { return a.share > b.share; });
  std::printf("%10s %12s %10s %14s %8s  case\n", "worst", "worst (ps)", "messages", "took (us)",
              "pauses");
  for (const Outcome& o : outcomes) {
    std::printf("%9.4f%% %12lld %10llu %14.3f %8llu  %s\n", o.share * 100,
                static_cast<long long>(o.by.worst.ps()),
                static_cast<unsigned long long>(o.by.messages), o.by.took.microseconds(),
                static_cast<unsigned long long>(o.pauses), o.name.c_str());
  }
}

/// Runs of one case with other seeds of the marks: when the last real rank had done its part, us.
struct Runs {
  std::vector<double> took;
  uint64_t marked = 0;  ///< packets, in all

  double least() const { return *std::ranges::min_element(took); }
  double most() const { return *std::ranges::max_element(took); }
  double mean() const {
    return std::accumulate(took.begin(), took.end(), 0.0) / static_cast<double>(took.size());
  }
};

void run_with_seed(const FoldCase& c, Others others, uint64_t seed, Runs& runs) {
  MarkingLeafSpine network(c, seed);
  FoldRun run(c, others, network);
  EXPECT_TRUE(run.run()) << c.name;
  Time last;
  for (const uint32_t rank : c.real) last = std::max(last, run.completion(0, rank));
  runs.took.push_back((last - Time::zero()).microseconds());
  runs.marked += sum(run, &NetworkLinkCounters::marked);
}

struct RandomOutcome {
  std::string name;
  Runs full, folded;
  /// How far the folded runs' mean is outside of the full runs' range, as a share of it; below zero
  /// inside: -0.5 is its middle.
  double outside() const {
    const double range = full.most() - full.least();
    const double off = std::max(full.least() - folded.mean(), folded.mean() - full.most());
    return range > 0 ? off / range : 0;
  }
  /// The same as a share of the time.
  double error() const { return std::max(0.0, outside() * (full.most() / full.least() - 1)); }
};

// The same seed of the marks gives the same run, to the picosecond; the mean of others is inside
// what eight seeds make of the run of all ranks, or, where the marks hardly matter, within 0.1 %.
TEST(FoldUnderCongestion, RealRanksAreInTheRangeOfSeedsWithRandomMarks) {
  const uint64_t count = number("FOLD_RANDOM_CASES", kRandomCases);
  print_heading(count);
  std::vector<RandomOutcome> outcomes;
  for (uint64_t i = 0; outcomes.size() < count; ++i) {
    const FoldCase c = congested_case(i);
    RandomOutcome outcome{c.name, {}, {}};
    run_with_seed(c, Others::kPlayed, 1, outcome.full);
    if (outcome.full.marked < kLeastMarks) continue;
    Runs same;
    for (uint64_t seed = 1; seed <= kRuns; ++seed) {
      if (seed > 1) run_with_seed(c, Others::kPlayed, seed, outcome.full);
      if (seed <= 2) run_with_seed(c, Others::kCarriedPlan, seed, same);
      run_with_seed(c, Others::kCarriedPlan, kRuns + seed, outcome.folded);
    }
    for (size_t k = 0; k < same.took.size(); ++k) EXPECT_EQ(same.took[k], outcome.full.took[k]);
    EXPECT_LE(outcome.error(), 0.001) << c.name;
    outcomes.push_back(std::move(outcome));
  }
  if (number("FOLD_TABLE", 0) == 0) return;
  std::ranges::stable_sort(outcomes, [](const RandomOutcome& a, const RandomOutcome& b) {
    return a.outside() > b.outside();
  });
  std::printf("%6s %14s %14s %14s %14s %10s  case\n", "out", "folded (us)", "least (us)",
              "mean (us)", "most (us)", "marks");
  for (const RandomOutcome& o : outcomes) {
    std::printf("%6.2f %14.3f %14.3f %14.3f %14.3f %10llu  %s\n", o.outside(), o.folded.mean(),
                o.full.least(), o.full.mean(), o.full.most(),
                static_cast<unsigned long long>(o.full.marked / kRuns), o.name.c_str());
  }
}

}  // namespace
}  // namespace understudy
