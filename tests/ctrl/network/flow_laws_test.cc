// Laws of every run of flows as rates, over random networks and traffic, against a run that is
// worked out independently: all rates anew at every start and end, by the textbook.
#include <algorithm>
#include <map>
#include <queue>

#include "ctrl/report/json.h"
#include "ctrl/run/simulate.h"
#include "tests/rigs/compile_and_simulate.h"
#include "tests/rigs/law_case.h"
#include "tests/rigs/lone_run.h"

namespace understudy {
namespace {

constexpr uint64_t kSeeds = 60;

uint64_t wire_bytes(const FlowSettings& frames, uint64_t payload) {
  const uint64_t packets = (payload + frames.payload - 1) / frames.payload;
  return payload + packets * (frames.overhead + frames.gap);
}

/// In seconds and bits; long double, so that only rounding stands between this and the model.
struct Textbook {
  explicit Textbook(const LawCase& c)
      : graph(c.graph()), flows(c.flows), frames(c.config.queues.flows) {
    const size_t links = graph.links().size();
    full.resize(links);
    received.resize(flows.size());
    for (size_t i = 0; i < flows.size(); ++i) {
      if (flows[i].after.empty()) starts.push_back({seconds(flows[i].start), i});
      waits.push_back(flows[i].after.size());
      ready.push_back(0);
      const uint32_t connection = flows[i].connection;
      sender.push_back(connection == kNoConnection
                           ? static_cast<uint32_t>(senders.size())
                           : by_connection.try_emplace(connection, senders.size()).first->second);
      if (sender.back() == senders.size()) senders.emplace_back();
    }
    cut_through = c.config.queues.network.cut_through;
    run();
  }

  static long double seconds(Duration d) { return static_cast<long double>(d.ps()) * 1e-12L; }
  /// Of a flow that is the first of its sender.
  const std::vector<LinkId>& path(size_t s) const { return flows[senders[s].order.front()].path; }

  void run() {
    long double now = 0;
    size_t done = 0;
    while (done < flows.size()) {
      rates();
      long double next = 1e300L;
      for (const auto& [at, flow] : starts) next = std::min(next, at);
      for (const Sender& s : senders) {
        if (!s.waiting.empty() && s.rate > 0) next = std::min(next, now + s.left / s.rate);
      }
      ASSERT_LT(next, 1e299L) << "nothing moves";
      for (Sender& s : senders) {
        if (!s.waiting.empty()) s.left -= s.rate * (next - now);
      }
      now = next;
      // What ends and starts within a rounding of one another is one event.
      for (Sender& s : senders) {
        while (!s.waiting.empty() && s.left <= 1e-3L) {
          const size_t flow = s.waiting.front();
          s.waiting.erase(s.waiting.begin());
          ++done;
          received[flow] = now + latency(flow);
          for (size_t i = 0; i < flows.size(); ++i) {
            for (const uint32_t before : flows[i].after) {
              if (before != flow) continue;
              ready[i] = std::max(ready[i], received[flow]);
              if (--waits[i] == 0) starts.push_back({ready[i] + seconds(flows[i].start), i});
            }
          }
          if (!s.waiting.empty()) s.left = bits(s.waiting.front());
        }
      }
      for (size_t i = 0; i < starts.size();) {
        if (starts[i].first > now) {
          ++i;
          continue;
        }
        const size_t flow = starts[i].second;
        starts.erase(starts.begin() + static_cast<std::ptrdiff_t>(i));
        Sender& s = senders[sender[flow]];
        s.waiting.push_back(flow);
        s.order.push_back(flow);
        if (s.waiting.size() == 1) s.left = bits(flow);
      }
    }
  }

  long double bits(size_t flow) const {
    return static_cast<long double>(wire_bytes(frames, flows[flow].bytes)) * 8;
  }
  long double latency(size_t flow) const {
    long double sum = 0;
    const uint64_t packet = std::min<uint64_t>(wire_bytes(frames, flows[flow].bytes),
                                               frames.payload + frames.overhead + frames.gap);
    for (const LinkId link : flows[flow].path) {
      sum += seconds(graph.link(link).latency);
      if (!cut_through && link != flows[flow].path.front()) {
        sum += static_cast<long double>(packet) * 8 /
               static_cast<long double>(graph.link(link).rate.bps());
      }
    }
    return sum;
  }

  /// Everybody's rate grows until one of his links is full.
  void rates() {
    std::vector<long double> left;
    std::vector<bool> open(senders.size());
    for (const GraphLink& link : graph.links())
      left.push_back(static_cast<long double>(link.rate.bps()));
    for (size_t s = 0; s < senders.size(); ++s) {
      senders[s].rate = 0;
      open[s] = !senders[s].waiting.empty();
    }
    while (std::find(open.begin(), open.end(), true) != open.end()) {
      std::vector<int> users(left.size());
      for (size_t s = 0; s < senders.size(); ++s) {
        if (!open[s]) continue;
        for (const LinkId link : path(s)) ++users[link];
      }
      long double step = 1e300L;
      for (size_t l = 0; l < left.size(); ++l) {
        if (users[l] != 0) step = std::min(step, left[l] / users[l]);
      }
      for (size_t l = 0; l < left.size(); ++l) left[l] -= step * users[l];
      for (size_t s = 0; s < senders.size(); ++s) {
        if (!open[s]) continue;
        senders[s].rate += step;
        for (const LinkId link : path(s)) {
          if (left[link] > 1e-3L) continue;
          open[s] = false;
          full[link] = true;
        }
      }
    }
    for (size_t l = 0; l < left.size(); ++l) full[l] = full[l] || left[l] < 1;
  }

  struct Sender {
    std::vector<size_t> waiting, order;  ///< flows
    long double left = 0, rate = 0;
  };
  const Graph& graph;
  const std::vector<FlowSpec>& flows;
  const FlowSettings& frames;
  bool cut_through = true;
  std::map<uint32_t, uint32_t> by_connection;
  std::vector<uint32_t> sender;
  std::vector<Sender> senders;
  std::vector<std::pair<long double, size_t>> starts;
  std::vector<size_t> waits;
  std::vector<long double> ready, received;
  std::vector<bool> full;  ///< at some time
};

LawOptions options_of(uint64_t seed) {
  LawOptions options;
  options.cycles = seed % 2 == 0;
  options.pfc = false;
  options.paths = true;
  return options;
}

// The rates are rounded down to 2^-12 bit/s and times up to a picosecond, at every event.
TEST(FlowLaws, TimesAreThoseOfATextbooksRates) {
  for (uint64_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    const LawCase c(seed, options_of(seed));
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + c.text());
    ASSERT_TRUE(c.ok);
    const auto run = run_flows(c.config, c.topology, c.flows);
    ASSERT_TRUE(run) << run.error().text;
    const Textbook book(c);
    for (size_t i = 0; i < c.flows.size(); ++i) {
      EXPECT_NEAR(run->flows[i].received.seconds() * 1e12,
                  static_cast<double>(book.received[i] * 1e12L),
                  20.0 + 0.1 * static_cast<double>(c.flows.size()))
          << c.flows[i].name;
    }
  }
}

TEST(FlowLaws, BytesAreConservedAndNoCutIsFasterThanItsLinks) {
  for (uint64_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    const LawCase c(seed, options_of(seed));
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + c.text());
    ASSERT_TRUE(c.ok);
    const auto run = run_flows(c.config, c.topology, c.flows);
    ASSERT_TRUE(run) << run.error().text;
    const Graph& graph = c.graph();
    std::vector<uint64_t> bytes(graph.links().size());
    for (const FlowSpec& flow : c.flows) {
      for (const LinkId link : flow.path)
        bytes[link] += wire_bytes(c.config.queues.flows, flow.bytes);
    }
    EXPECT_EQ(run->link_bytes, bytes);
    std::mt19937_64 random(seed);
    for (int cut = 0; cut < 100; ++cut) {
      std::vector<bool> inside;
      for (size_t v = 0; v < graph.vertices().size(); ++v) inside.push_back(random() % 2 != 0);
      uint64_t rate = 0, sum = 0;
      Duration latency = Duration::max();
      for (const GraphLink& link : graph.links()) {
        if (!inside[link.from] || inside[link.to]) continue;
        rate += link.rate.bps();
        latency = std::min(latency, link.latency);
      }
      Time first = Time::never(), last;
      for (size_t i = 0; i < c.flows.size(); ++i) {
        if (!inside[c.flows[i].from] || inside[c.flows[i].to]) continue;
        sum += wire_bytes(c.config.queues.flows, c.flows[i].bytes);
        first = std::min(first, run->flows[i].start);
        last = std::max(last, run->flows[i].received);
      }
      if (sum == 0) continue;
      EXPECT_GE(last - first, Rate::bits_per_second(rate).time_for(sum) + latency);
    }
  }
}

// Where no share has to be rounded, nothing is; else an event's time is rounded up to a picosecond,
// k of them where all times are multiplied by k.
TEST(FlowLaws, KTimesTheRatesAndTheKthPartOfAllTimesIsTheSameRun) {
  for (uint64_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    LawOptions options = options_of(seed);
    const LawCase c(seed, options);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + c.text());
    ASSERT_TRUE(c.ok);
    const auto run = run_flows(c.config, c.topology, c.flows);
    ASSERT_TRUE(run) << run.error().text;
    for (const int64_t k : {2, 4}) {
      options.k = k;
      const LawCase faster(seed, options);
      const auto other = run_flows(faster.config, faster.topology, faster.flows);
      ASSERT_TRUE(faster.ok && other);
      for (size_t i = 0; i < c.flows.size(); ++i) {
        EXPECT_NEAR(static_cast<double>(run->flows[i].received.ps()),
                    static_cast<double>(other->flows[i].received.ps() * k),
                    static_cast<double>(k) * (50 + static_cast<double>(c.flows.size())));
      }
    }
  }
}

// "Nowhere the bottleneck": never full. "Nothing": all times, to the picosecond.
TEST(FlowLaws, AFasterLinkThatIsNeverFullChangesNothing) {
  size_t raised = 0;
  for (uint64_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    LawCase c(seed, options_of(seed));
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + c.text());
    ASSERT_TRUE(c.ok);
    c.config.queues.network.cut_through = true;  // else a packet's time on it counts
    const auto run = run_flows(c.config, c.topology, c.flows);
    const Textbook book(c);
    for (LinkId link = 0; link < book.full.size(); ++link) {
      if (book.full[link] || run->link_bytes[link] == 0) continue;
      Rate& rate = c.topology.graph.link(link).rate;
      rate = Rate::bits_per_second(rate.bps() * (2 + seed % 5) + seed);
      ++raised;
    }
    const auto faster = run_flows(c.config, c.topology, c.flows);
    ASSERT_TRUE(run && faster);
    for (size_t i = 0; i < c.flows.size(); ++i) {
      EXPECT_EQ(run->flows[i].received, faster->flows[i].received) << c.flows[i].name;
    }
  }
  EXPECT_GT(raised, kSeeds);
}

TEST(FlowLaws, EqualConfigurationsGiveEqualBytes) {
  for (uint64_t seed = 1; seed <= 20 && !testing::Test::HasFailure(); ++seed) {
    LawCase c(seed, options_of(seed));
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + c.text());
    ASSERT_TRUE(c.ok);
    c.config.fabric.fidelity = FabricFidelity::kFlow;
    const auto one = compile_and_simulate(c.config);
    LawCase again(seed, options_of(seed));
    again.config.fabric.fidelity = FabricFidelity::kFlow;
    const auto other = compile_and_simulate(again.config);
    ASSERT_TRUE(one && other);
    EXPECT_EQ(report_json(*one), report_json(*other));
  }
}

}  // namespace
}  // namespace understudy
