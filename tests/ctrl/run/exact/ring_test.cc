// Exact payload: what the reference node ends up with, element by element, for rings, channels and
// sizes that leave tails; and ranks that enter late.
#include "tests/ctrl/run/simulate_rig.h"
#include "tests/extent.h"

namespace understudy {
namespace {

/// Cut to nothing, to one element, not by ranks, not by 16 bytes, into more than one loop.
constexpr char kOddSizes[] = "\"4B\", \"20B\", \"4100B\", \"65540B\", \"999996B\"";

RunReport exact(unsigned ranks, unsigned channels, const std::string& sizes,
                const std::string& job = "") {
  RingText ring;
  ring.ranks = ranks;
  ring.sizes = sizes;
  ring.job = "payload = \"exact\"\nchannels = " + std::to_string(channels) + "\n" + job;
  return simulated(config_of(ring.text()));
}

void expect_right(const RunReport& report, const std::string& what) {
  EXPECT_TRUE(report.verdict.faithful) << what;
  ASSERT_EQ(report.jobs.size(), 1u);
  EXPECT_EQ(report.jobs[0].collectives.size(), report.jobs[0].planned) << what;
  EXPECT_EQ(report.jobs[0].violations, 0u) << what;
  for (const CollectiveReport& c : report.jobs[0].collectives) {
    EXPECT_EQ(c.wrong_elements, 0u) << what << ", " << c.bytes << " bytes";
    EXPECT_EQ(c.size_mismatches, 0u) << what << ", " << c.bytes << " bytes";
  }
}

TEST(SimulateExact, RanksChannelsAndTails) {
  SomeCases some(5);
  for (const unsigned ranks : {2u, 3u, 4u, 5u}) {
    for (const unsigned channels : {1u, 2u, 3u}) {
      if (!some.take()) continue;
      expect_right(exact(ranks, channels, kOddSizes),
                   std::to_string(ranks) + " ranks, " + std::to_string(channels) + " channels");
    }
  }
}

/// Two whole loops of 2 MiB chunks and a tail, on each number of ranks that makes it short.
TEST(SimulateExact, SeveralLoops) {
  if (every_case()) expect_right(exact(2, 1, "\"8500004B\"", "iterations = 2\n"), "2 ranks");
  expect_right(exact(3, 2, "\"12700004B\""), "3 ranks, 2 channels");
}

/// The real rank may stand anywhere in the ring.
TEST(SimulateExact, AnyPositionOfTheRealRank) {
  for (const char* ranks : {"\"w0\", \"gpu\", \"w1\", \"w2\"", "\"w0\", \"w1\", \"gpu\", \"w2\"",
                            "\"w2\", \"w1\", \"w0\", \"gpu\""}) {
    RingText ring;
    ring.sizes = kOddSizes;
    ring.job = "payload = \"exact\"\nchannels = 2\n";
    std::string text = ring.text();
    const std::string listed = "\"gpu\", \"w*\"";
    text.replace(text.find(listed), listed.size(), ranks);
    expect_right(simulated(config_of(text)), ranks);
  }
}

/// Bit n of `real`: rank n is a reference node; bit n of `slow`: its link is.
std::string several(unsigned ranks, unsigned real, const std::string& entry,
                    const std::string& sizes = kOddSizes, unsigned slow = 0) {
  std::string nodes, ports, names;
  for (unsigned rank = 0; rank < ranks; ++rank) {
    const std::string name = "n" + std::to_string(rank);
    const bool is_real = (real >> rank & 1) != 0;
    nodes += "[[node]]\nname = \"" + name + "\"\n" + (is_real ? "real = true\n" : "") +
             "link = { rate = \"" + ((slow >> rank & 1) != 0 ? "1" : "10") +
             "Gbit/s\", latency = \"1us\" }\n";
    if (is_real) ports += "[[port]]\nreal = \"" + name + "\"\ndevice = \"virtual\"\n";
    names += (rank == 0 ? "\"" : ", \"") + name + "\"";
  }
  return "format = 1\n[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/16\"\n" + nodes + ports +
         "[[job]]\nname = \"ring\"\ncollective = \"all_reduce\"\nalgorithm = \"ring\"\nranks = [" +
         names + "]\nsizes = [" + sizes +
         "]\npayload = \"exact\"\nchannels = 2\niterations = 2\nentry = \"" + entry + "\"\n";
}

/// Neighbours that are both real, emulated ranks between them, in any order.
TEST(SimulateExact, AnySetOfRealRanks) {
  for (const unsigned ranks : {3u, 5u}) {
    for (unsigned real = 1; real < 1u << ranks; ++real) {
      const std::string entry = real % 2 == 0 ? "scheduled" : "first_credit";
      const std::string text = several(ranks, real, entry);
      expect_right(simulated(config_of(text)), text);
    }
  }
}

/// What a real rank has sent stays readable until the next real one, which is slower, has got it;
/// over several loops.
TEST(SimulateExact, ASlowRealRankGetsWhatAFastOneSentLongBefore) {
  for (const unsigned slow : {0b00001u, 0b00010u, 0b00100u, 0b01000u}) {
    const std::string text = several(5, 0b01101, "scheduled", "\"21000004B\"", slow);
    expect_right(simulated(config_of(text)), text);
  }
}

/// The emulated ranks enter with the real one, as its first credit shows.
TEST(SimulateExact, TheFirstCreditStartsAnOperation) {
  RingText ring;
  ring.sizes = "\"3MiB\", \"4KiB\"";
  ring.job = "payload = \"exact\"\nchannels = 2\niterations = 2\n";
  std::string text = ring.text();
  const std::string scheduled = "\"scheduled\"";
  text.replace(text.find(scheduled), scheduled.size(), "\"first_credit\"");
  expect_right(simulated(config_of(text)), text);
}

TEST(SimulateExact, SyntheticPayloadTakesTheSameTime) {
  RingText ring;
  ring.sizes = "\"4MiB\"";
  const RunReport synthetic = simulated(config_of(ring.text()));
  const RunReport values = exact(4, 1, ring.sizes);
  const Duration took = *values.jobs[0].collectives[0].node_reported;
  EXPECT_EQ(took, *synthetic.jobs[0].collectives[0].node_reported);
  // 6 MiB each way at 10 Gbit/s is 5.03 ms; it cannot be less and should not be much more.
  EXPECT_GT(took, Duration::us(5033));
  EXPECT_LT(took, Duration::us(5500));
}

/// One link at a fifth of the others' rate delays everybody as the plan says.
TEST(SimulateExact, ASlowerNodeAnywhere) {
  for (const size_t node : {1u, 2u, 3u}) {
    RingText ring;
    ring.sizes = "\"1MiB\"";
    ring.job = "payload = \"exact\"\niterations = 2\n";
    Config config = config_of(ring.text());
    config.nodes[node].nics[0].link_rate = Rate::bits_per_second(2'000'000'000);
    const RunReport report = simulated(config);
    expect_right(report, config.nodes[node].name + " is slow");
    for (const CollectiveReport& c : report.jobs[0].collectives) {
      EXPECT_NEAR(c.node_reported->seconds() / c.modelled.seconds(), 1, 0.005)
          << config.nodes[node].name;
    }
  }
}

/// A rank that enters late delays everybody as the plan says. A late real rank's clock starts when
/// it enters.
TEST(SimulateExact, ALateRankCostsWhatThePlanSays) {
  const Duration late = Duration::ms(5);
  const RunReport prompt = exact(4, 1, "\"1MiB\"", "iterations = 2\n");
  for (unsigned rank = 0; rank < 4; ++rank) {
    const RunReport report = exact(
        4, 1, "\"1MiB\"",
        "iterations = 2\nskew = [ { rank = " + std::to_string(rank) + ", delay = \"5ms\" } ]\n");
    expect_right(report, "rank " + std::to_string(rank) + " is late");
    for (size_t i = 0; i < 2; ++i) {
      const CollectiveReport& c = report.jobs[0].collectives[i];
      const Duration alone = *prompt.jobs[0].collectives[i].node_reported;
      const Duration took = *c.node_reported;
      if (rank != 0) {
        EXPECT_GT(c.modelled, late);
        EXPECT_GT(took - alone, late - Duration::ms(1)) << rank;
      }
      EXPECT_NEAR(took.seconds() / c.modelled.seconds(), 1, 0.005) << rank;
    }
  }
}

}  // namespace
}  // namespace understudy
