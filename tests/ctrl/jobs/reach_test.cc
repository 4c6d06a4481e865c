// The self-test's verdicts: a real node that refuses calls, says nothing, or is not to be called.
#include "ctrl/jobs/nccl/reach_test.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace understudy {
namespace {

IpAddress ip(const std::string& text) { return IpAddress::parse(text).value(); }

std::vector<ReachTest::Source> sources(size_t count) {
  std::vector<ReachTest::Source> all;
  for (size_t i = 0; i < count; ++i) {
    all.push_back({"w" + std::to_string(i),
                   ip("127.1." + std::to_string(i / 250) + "." + std::to_string(i % 250 + 1))});
  }
  return all;
}

/// Takes calls; answer() ends them.
class Calls final : public PeerNetwork {
 public:
  Time now() const override { return Time::zero(); }
  Result<uint16_t> listen(const IpAddress&, uint16_t, Acceptor) override { return fail("no"); }
  Result<ConnectionId> call(const IpAddress& from, const SocketAddress&,
                            std::unique_ptr<Peer>) override {
    ++calls;
    if (from == unreachable) return fail("no route to host");
    under_way.insert(++last_);
    return last_;
  }
  void flush(ConnectionId) override {}
  void drop(ConnectionId id) override { under_way.erase(id); }

  void answer(ReachTest& test, bool refused) {
    for (const ConnectionId id : std::exchange(under_way, {})) {
      EndedConnection ended;
      ended.id = id;
      ended.connected = false;
      ended.refused = refused;
      ended.failure = refused ? "refused" : "timed out";
      EXPECT_TRUE(test.on_ended(ended));
      EXPECT_FALSE(test.on_ended(ended)) << "twice";
    }
  }

  size_t calls = 0;
  std::set<ConnectionId> under_way;
  IpAddress unreachable;

 private:
  ConnectionId last_ = 0;
};

TEST(ReachTest, ARefusalIsAnAnswer) {
  Calls calls;
  ReachTest test("gpu", ip("10.9.0.1"), sources(3), calls);
  EXPECT_FALSE(test.poll(Time::zero()));
  calls.answer(test, true);
  const auto line = test.poll(Time::zero());
  ASSERT_TRUE(line);
  EXPECT_EQ(*line, "self-test: gpu (10.9.0.1) answers all 3 emulated addresses");
  EXPECT_TRUE(test.passed());
  EXPECT_FALSE(test.poll(Time::zero() + Duration::s(9)));
}

TEST(ReachTest, SaysWhoIsSilentOnceAndTriesAgain) {
  Calls calls;
  calls.unreachable = ip("127.1.0.2");
  ReachTest test("gpu", ip("10.9.0.1"), sources(3), calls);
  Time now = Time::zero();
  EXPECT_FALSE(test.poll(now));
  calls.answer(test, true);
  now = now + Duration::s(3);
  const auto line = test.poll(now);
  ASSERT_TRUE(line);
  EXPECT_NE(line->find("does not answer 1 of 3 emulated addresses, w1 (127.1.0.2) first: no route"),
            std::string::npos)
      << *line;
  EXPECT_FALSE(test.poll(now));
  now = now + Duration::s(3);
  EXPECT_FALSE(test.poll(now)) << "complained twice";
  EXPECT_TRUE(calls.under_way.empty()) << "calls that nobody answers stay";
  calls.unreachable = IpAddress();
  EXPECT_FALSE(test.poll(now));
  calls.answer(test, true);
  EXPECT_TRUE(test.poll(now));
  EXPECT_TRUE(test.passed());
}

TEST(ReachTest, WhoseCallsFailIsSilent) {
  Calls calls;
  ReachTest test("gpu", ip("10.9.0.1"), sources(2), calls);
  EXPECT_FALSE(test.poll(Time::zero()));
  calls.answer(test, false);
  const auto line = test.poll(Time::zero() + Duration::s(3));
  ASSERT_TRUE(line);
  EXPECT_NE(line->find("does not answer any emulated address yet: timed out"), std::string::npos)
      << *line;
}

TEST(ReachTest, TriesSomeOfMany) {
  Calls calls;
  ReachTest test("gpu", ip("10.9.0.1"), sources(1000), calls);
  EXPECT_FALSE(test.poll(Time::zero()));
  EXPECT_EQ(calls.calls, ReachTest::kMost);
  calls.answer(test, true);
  const auto line = test.poll(Time::zero());
  ASSERT_TRUE(line);
  EXPECT_NE(line->find("256 of 1000 emulated addresses"), std::string::npos) << *line;
}

}  // namespace
}  // namespace understudy
