// What frames of ARP and neighbour discovery say of their senders. Questions and answers are held
// to account in tests/node/neighbour_test.cc.
#include "dataplane/wire/neighbour.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/wire/frames.h"

namespace understudy {
namespace {

const IpAddress kOne4 = *IpAddress::parse("10.0.0.1"), kTwo4 = *IpAddress::parse("10.0.0.2");
const IpAddress kOne6 = *IpAddress::parse("fd00::1"), kTwo6 = *IpAddress::parse("fd00::2");

Parsed question(const IpAddress& own, const IpAddress& target) {
  std::array<uint8_t, kNeighbourFrameBytes> out;
  const uint32_t bytes = write_neighbour_question({kMacA, {}}, own, target, out.data());
  return Parsed({out.data(), bytes});
}

void expect_news(const Parsed& frame, const IpAddress& address, const MacAddress& mac,
                 const IpAddress& told) {
  EXPECT_TRUE(is_neighbour_frame(frame.view));
  const auto news = neighbour_news(frame.view);
  ASSERT_TRUE(news);
  EXPECT_EQ(news->address, address);
  EXPECT_EQ(news->mac, mac);
  EXPECT_EQ(news->told, told);
}

TEST(NeighbourFrames, SayWhoTheirSenderIs) {
  for (const bool v6 : {false, true}) {
    const IpAddress& one = v6 ? kOne6 : kOne4;
    const IpAddress& two = v6 ? kTwo6 : kTwo4;
    const Parsed asked = question(one, two);
    expect_news(asked, one, kMacA, two);
    EXPECT_EQ(asked_address(asked.view), two);
    std::array<uint8_t, kNeighbourFrameBytes> out;
    const uint32_t bytes = write_neighbour_answer(asked.view, kMacB, out.data());
    const Parsed answer({out.data(), bytes});
    expect_news(answer, two, kMacB, one);
    EXPECT_FALSE(asked_address(answer.view));
  }
}

TEST(NeighbourFrames, AreNotBelievedFromBehindARouter) {
  Parsed asked = question(kOne6, kTwo6);
  asked.view.ttl = 254;
  EXPECT_FALSE(neighbour_news(asked.view));
  EXPECT_FALSE(asked_address(asked.view));
}

TEST(NeighbourFrames, SayNothingWithoutAnOption) {
  const Parsed whole = question(kOne6, kTwo6);
  constexpr size_t kOptionAt = 14 + 40 + 24;
  auto bytes = whole.bytes;
  bytes[kOptionAt] = 5;  // an MTU
  EXPECT_FALSE(neighbour_news(Parsed(bytes).view));
  bytes[kOptionAt + 1] = 0;  // no length at all
  EXPECT_FALSE(neighbour_news(Parsed(bytes).view));
  bytes.resize(kOptionAt);
  bytes[14 + 5] = 24;  // the payload ends before it
  EXPECT_FALSE(neighbour_news(Parsed(bytes).view));
  EXPECT_EQ(asked_address(Parsed(bytes).view), kTwo6);
}

TEST(NeighbourFrames, WhoLooksForDuplicatesHasNoAddressYet) {
  const Parsed asked = question(IpAddress(), kTwo6);
  EXPECT_FALSE(neighbour_news(asked.view));
  EXPECT_FALSE(asked_address(asked.view));
  EXPECT_EQ(solicited_address(asked.view), kTwo6);
}

}  // namespace
}  // namespace understudy
