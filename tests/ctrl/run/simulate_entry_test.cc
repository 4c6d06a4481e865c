// When ranks enter their operations, and what leaves then: by a common clock, with the real rank's
// first credit, and late.
#include "tests/ctrl/run/simulate_rig.h"

namespace understudy {
namespace {

/// Two ranks whose messages take a few packets.
RingText pair_of_ranks(const std::string& job) {
  RingText ring;
  ring.ranks = 2;
  ring.rate = "100Gbit/s";
  ring.latency = "500ns";
  ring.sizes = "\"64KiB\"";
  ring.job = "iterations = 4\nwarmup = 1\n" + job;
  return ring;
}

std::string with_first_credit(std::string text) {
  text.replace(text.find("\"scheduled\""), 11, "\"first_credit\"");
  return text;
}

std::vector<CollectiveReport> collectives_of(const std::string& text) {
  return simulated(config_of(text)).jobs.at(0).collectives;
}

TEST(SimulateEntry, RanksWithAPeriodEnterAtItsMultiples) {
  const auto all = collectives_of(pair_of_ranks("period = \"3ms\"\n").text());
  ASSERT_EQ(all.size(), 5u);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].entry, Time::zero() + Duration::ms(3 * static_cast<int64_t>(i))) << i;
  }
  // The same operation as the first one, which all enter at once.
  EXPECT_EQ(all[4].measured, all[0].measured);
}

// A late rank's credits leave when it enters: without them the real rank sends nothing.
TEST(SimulateEntry, ALateRankGrantsItsCreditsWhenItEnters) {
  for (const char* late : {"20us", "3us"}) {
    const std::string skew = "skew = [ { rank = 1, delay = \"" + std::string(late) + "\" } ]\n";
    for (const auto& c : collectives_of(with_first_credit(pair_of_ranks(skew).text()))) {
      ASSERT_TRUE(c.node_reported.has_value());
      EXPECT_NEAR((*c.node_reported - c.modelled).seconds(), 0, 50e-9) << late;
    }
  }
}

// Nobody else saw what they did.
TEST(SimulateEntry, TimesOfRealRanksOnlyAreTheirOwn) {
  RingText ring = pair_of_ranks("");
  ring.more = "[[port]]\nreal = \"w\"\ndevice = \"virtual\"\n";
  std::string text = ring.text();
  text.replace(text.find("count = 1\n"), 10, "real = true\n");
  for (const auto& c : collectives_of(text)) {
    EXPECT_FALSE(c.entry.is_never());
    EXPECT_EQ(c.measured, c.node_reported);
    EXPECT_NEAR((c.measured - c.modelled).seconds(), 0, 0.01 * c.modelled.seconds());
  }
}

// Of what leaves at one moment: the next rank waits for the credit, and data take long.
TEST(SimulateEntry, CreditsGoBeforeData) {
  RingText ring = pair_of_ranks("");
  ring.sizes = "\"4MiB\"";  // more messages than the window has
  const ScratchFile file("pcapng");
  simulated(config_of(ring.text()), file.path());
  for (const CaptureDirection way : {CaptureDirection::kIn, CaptureDirection::kOut}) {
    std::vector<Time> credits, first;
    for (const TestFrame& frame : TestCapture::load(file.path()).frames) {
      if (frame.direction != way || !frame.is_rc()) continue;
      const RoceView roce = frame.roce();
      if (roce.opcode == static_cast<uint8_t>(Opcode::kWriteOnly)) credits.push_back(frame.at);
      if (roce.opcode == static_cast<uint8_t>(Opcode::kWriteFirst)) first.push_back(frame.at);
    }
    ASSERT_GT(credits.size(), 8u);
    ASSERT_GT(first.size(), 4u);
    for (const Time credit : credits) {
      for (const Time data : first) {
        EXPECT_FALSE(data < credit && credit - data < Duration::ns(400))
            << data.ps() << " " << credit.ps();
      }
    }
  }
}

}  // namespace
}  // namespace understudy
