// The self-test's verdicts on RoCE: communication managers that answer, do not, or are not there,
// and what the ports' counters show instead.
#include "ctrl/jobs/nccl/roce_test.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace understudy {
namespace {

IpAddress ip(const std::string& text) { return IpAddress::parse(text).value(); }
const IpAddress kReal = ip("10.9.0.1"), kSecond = ip("10.10.0.1");

class RoceTestTest : public testing::Test {
 protected:
  std::vector<ReachTest::Source> sources(size_t count) const {
    std::vector<ReachTest::Source> all;
    for (size_t i = 0; i < count; ++i) {
      all.push_back({"w" + std::to_string(i),
                     ip("10.9." + std::to_string(i / 250 + 1) + "." + std::to_string(i % 250))});
    }
    return all;
  }
  RoceTest::Seams seams(bool with_probe = true) {
    RoceTest::Seams s;
    if (with_probe) {
      s.probe = [this](const IpAddress& local, const IpAddress& remote, auto answered) {
        ++probes;
        asked.insert({local, remote});
        if (answers && !silent.contains(local)) answered();
      };
    }
    s.count = [this](const IpAddress& remote, auto then) {
      ++counted;
      then(counts[remote]);
    };
    return s;
  }
  /// Control's turns each millisecond for so long: what is said, and when first.
  std::vector<std::string> lines(RoceTest& test, Duration by, bool reached, bool connected,
                                 bool carried = false) {
    std::vector<std::string> all;
    for (const Time until = now + by; now < until; now = now + Duration::ms(1)) {
      const auto line = test.poll(now, reached, connected, carried);
      if (!line) continue;
      if (all.empty()) said_at = now;
      all.push_back(*line);
    }
    return all;
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  Time now, said_at;
  bool answers = true;
  std::set<IpAddress> silent;
  size_t probes = 0, counted = 0;
  std::set<std::pair<IpAddress, IpAddress>> asked;
  std::map<IpAddress, RoceTest::Counts> counts;
};

TEST_F(RoceTestTest, AnAnswerToEachAddressPasses) {
  RoceTest test("gpu", kReal, sources(3), seams());
  EXPECT_TRUE(lines(test, Duration::s(5), false, false).empty());
  EXPECT_EQ(probes, 0u) << "before TCP was answered";
  const std::string passed =
      "self-test: RoCE passes between gpu (10.9.0.1) and 3 emulated addresses";
  EXPECT_EQ(lines(test, Duration::s(5), true, false), std::vector{passed});
  EXPECT_EQ(probes, 3u);
  EXPECT_EQ(counted, 0u);
  EXPECT_TRUE(test.passed());
  EXPECT_EQ(test.status(), passed);
}

TEST_F(RoceTestTest, SomeOfManyAreAskedAndEachPort) {
  auto all = sources(1000);
  for (size_t i = 0; i < 1000; ++i) all.push_back({"w, NIC 1", all[i].address, kSecond});
  RoceTest test("gpu", kReal, all, seams());
  const auto said = lines(test, Duration::s(1), true, false);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_TRUE(has(said[0], "and 16 of 2000 emulated addresses")) << said[0];
  EXPECT_EQ(asked.size(), RoceTest::kMost);
  std::map<IpAddress, size_t> by_port;
  for (const auto& [local, remote] : asked) ++by_port[remote];
  EXPECT_EQ(by_port[kReal], 8u);
  EXPECT_EQ(by_port[kSecond], 8u);
}

TEST_F(RoceTestTest, WithoutAnAnswerBothReasonsAreNamedOnceAndTheQuestionIsRepeated) {
  answers = false;
  RoceTest test("gpu", kReal, sources(2), seams());
  const auto said = lines(test, Duration::s(60), true, false);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said_at, Time::zero() + Duration::s(3));
  EXPECT_TRUE(has(said[0], "self-test: gpu (10.9.0.1) answers no REQ of RDMA-CM yet")) << said[0];
  EXPECT_TRUE(has(said[0], "module ib_cm")) << said[0];
  EXPECT_TRUE(has(said[0], "UDP port 4791")) << said[0];
  EXPECT_TRUE(has(said[0], "the job goes on")) << said[0];
  EXPECT_GE(probes, 2u * 15);
  EXPECT_LE(probes, 2u * 16) << "too often once it was said";
  EXPECT_EQ(test.status(),
            "self-test: waiting for gpu (10.9.0.1) to answer RDMA-CM's REQ: 0 of 2 emulated "
            "addresses have an answer, w0 (10.9.1.0) is the first without");
  answers = true;
  const auto late = lines(test, Duration::s(6), true, false);
  ASSERT_EQ(late.size(), 1u);
  EXPECT_TRUE(has(late[0], "RoCE passes")) << late[0];
}

TEST_F(RoceTestTest, TheFirstSilentOneIsNamed) {
  auto all = sources(4);
  silent = {all[1].address, all[3].address};
  RoceTest test("gpu", kReal, all, seams());
  counts[kReal] = {.received = 1, .acknowledged = 1};  // another address' queue pair
  const auto said = lines(test, Duration::s(9), true, true);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_TRUE(has(said[0], "to 2 of 4 emulated addresses, w1 (10.9.1.1) is the first without"))
      << said[0];
  EXPECT_FALSE(test.passed());
  EXPECT_EQ(probes, 4u + 2 * 4);
  silent.clear();
  EXPECT_EQ(lines(test, Duration::s(6), true, true).size(), 1u);
  EXPECT_TRUE(test.passed());
}

TEST_F(RoceTestTest, AnAcknowledgementPassesWhereNobodyAnswersProbes) {
  answers = false;
  for (const bool with_probe : {false, true}) {
    now = Time::zero();
    counts.clear();
    RoceTest test("gpu", kReal, sources(2), seams(with_probe));
    EXPECT_TRUE(lines(test, Duration::ms(2500), true, true).empty());
    EXPECT_GE(counted, 25u);
    counts[kReal] = {.received = 3};  // it may be that our answers are lost
    EXPECT_TRUE(lines(test, Duration::ms(450), true, true).empty());
    EXPECT_FALSE(test.passed());
    counts[kReal].acknowledged = 1;
    const auto said = lines(test, Duration::s(9), true, true);
    ASSERT_FALSE(said.empty());
    EXPECT_EQ(said.back(),
              "self-test: RoCE passes between gpu (10.9.0.1) and queue pairs of the job");
    const size_t before = counted;
    EXPECT_TRUE(lines(test, Duration::s(9), true, true).empty());
    EXPECT_EQ(counted, before) << "asked on";
  }
}

TEST_F(RoceTestTest, AnOperationThatIsOverPassesBeforePacketsAreCounted) {
  RoceTest test("gpu", kReal, sources(2), seams(false));
  EXPECT_TRUE(lines(test, Duration::ms(5), true, false, true).empty()) << "others' operation";
  EXPECT_EQ(lines(test, Duration::ms(5), true, true, true),
            std::vector{std::string(
                "self-test: RoCE passes between gpu (10.9.0.1) and queue pairs of the job")});
}

TEST_F(RoceTestTest, EveryPortHasToAcknowledge) {
  auto all = sources(2);
  all.push_back({"w0, NIC 1", ip("10.10.0.2"), kSecond});
  RoceTest test("gpu", kReal, all, seams(false));
  counts[kReal] = {.received = 1, .acknowledged = 1};
  EXPECT_TRUE(lines(test, Duration::s(9), true, true).empty());
  counts[kSecond].timeouts = 1;
  const auto said = lines(test, Duration::s(9), true, true);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_TRUE(has(said[0], "to gpu (10.10.0.1) for ")) << said[0];
  counts[kSecond].acknowledged = 1;
  EXPECT_EQ(lines(test, Duration::s(1), true, true).size(), 1u);
  EXPECT_TRUE(test.passed());
}

/// A rank that talks to its own node only.
TEST_F(RoceTestTest, APortWithoutConnectionsIsNotWaitedFor) {
  auto all = sources(2);
  all.push_back({"w0, NIC 1", ip("10.10.0.2"), kSecond, false});
  RoceTest test("gpu", kReal, all, seams(false));
  counts[kReal] = {.received = 1, .acknowledged = 1};
  EXPECT_EQ(lines(test, Duration::s(1), true, true).size(), 1u);
  EXPECT_TRUE(test.passed());
}

TEST_F(RoceTestTest, PacketsWithoutAnyAnswerAreNamedOnce) {
  RoceTest test("gpu", kReal, sources(2), seams(false));
  EXPECT_EQ(test.status(), "self-test: waiting for gpu (10.9.0.1) to acknowledge a RoCE packet");
  EXPECT_TRUE(lines(test, Duration::s(20), true, false).empty());
  EXPECT_TRUE(lines(test, Duration::s(20), true, true).empty()) << "nothing was sent yet";
  counts[kReal].timeouts = 1;
  const auto said = lines(test, Duration::s(20), true, true);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_LE(said_at, Time::zero() + Duration::s(40) + Duration::ms(101));
  EXPECT_EQ(said[0],
            "self-test: RoCE packets were sent to gpu (10.9.0.1) for 20 s and none has come back: "
            "TCP between the same addresses works, so look for what treats UDP port 4791 in "
            "another way: a firewall, the NIC's RoCE mode, PFC or VLAN settings");
  EXPECT_EQ(test.status(), "self-test: gpu (10.9.0.1) has acknowledged no RoCE packet yet");
}

TEST_F(RoceTestTest, NotBeforeThreeSecondsThoughTimeoutsAreShorter) {
  RoceTest test("gpu", kReal, sources(2), seams(false));
  counts[kReal] = {.received = 4, .timeouts = 2};
  const auto said = lines(test, Duration::s(4), true, true);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said_at, Time::zero() + Duration::s(3));
  EXPECT_TRUE(has(said[0], "for 3 s and none was acknowledged, though its own come here: TCP"))
      << said[0];
}

// Whoever was told that packets are lost need not hear that there may be no communication manager.
TEST_F(RoceTestTest, TheFirmLineStandsAlone) {
  answers = false;
  RoceTest test("gpu", kReal, sources(2), seams());
  counts[kReal].timeouts = 1;
  EXPECT_TRUE(lines(test, Duration::s(1), false, true).empty());
  const auto said = lines(test, Duration::s(9), true, true);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_TRUE(has(said[0], "RoCE packets were sent to gpu")) << said[0];
}

}  // namespace
}  // namespace understudy
