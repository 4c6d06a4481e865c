// The self-test's verdicts, with sockets on the loopback device: a port where nobody listens, and
// calls that fail.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "ctrl/session/reach_test.h"

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

/// A port of the loopback device that was free a moment ago, so that calls are refused.
Result<int> refused(const IpAddress&, const IpAddress&, uint16_t) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const int free = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bind(free, reinterpret_cast<sockaddr*>(&address), size);
  getsockname(free, reinterpret_cast<sockaddr*>(&address), &size);
  close(free);
  fcntl(fd, F_SETFL, O_NONBLOCK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 && errno != EINPROGRESS) {
    const int error = errno;
    close(fd);
    return fail(std::strerror(error));
  }
  return fd;
}

TEST(ReachTest, ARefusalIsAnAnswer) {
  ReachTest test("gpu", ip("10.9.0.1"), sources(3), refused);
  const auto line = test.poll(Time::zero());
  ASSERT_TRUE(line);
  EXPECT_EQ(*line, "self-test: gpu (10.9.0.1) answers all 3 emulated addresses");
  EXPECT_TRUE(test.passed());
  EXPECT_FALSE(test.poll(Time::zero() + Duration::s(9)));
}

TEST(ReachTest, SaysWhoIsSilentOnceAndTriesAgain) {
  bool reachable = false;
  ReachTest test("gpu", ip("10.9.0.1"), sources(3),
                 [&](const IpAddress& from, const IpAddress& to, uint16_t port) -> Result<int> {
                   if (!reachable && from == ip("127.1.0.2")) return fail("no route to host");
                   return refused(from, to, port);
                 });
  Time now = Time::zero();
  EXPECT_FALSE(test.poll(now));
  now = now + Duration::s(3);
  const auto line = test.poll(now);
  ASSERT_TRUE(line);
  EXPECT_NE(line->find("does not answer 1 of 3 emulated addresses, w1 (127.1.0.2) first: no route"),
            std::string::npos)
      << *line;
  EXPECT_FALSE(test.poll(now));
  now = now + Duration::s(3);
  EXPECT_FALSE(test.poll(now)) << "complained twice";
  reachable = true;
  EXPECT_TRUE(test.poll(now));
  EXPECT_TRUE(test.passed());
}

TEST(ReachTest, TriesSomeOfMany) {
  size_t calls = 0;
  ReachTest test("gpu", ip("10.9.0.1"), sources(1000),
                 [&](const IpAddress& from, const IpAddress& to, uint16_t port) {
                   ++calls;
                   return refused(from, to, port);
                 });
  const auto line = test.poll(Time::zero());
  ASSERT_TRUE(line);
  EXPECT_EQ(calls, ReachTest::kMost);
  EXPECT_NE(line->find("256 of 1000 emulated addresses"), std::string::npos) << *line;
}

}  // namespace
}  // namespace understudy
