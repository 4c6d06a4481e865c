// A guest's network device: its messages of vhost-user and its frames.
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "dataplane/virtual_time/guest_nic.h"
#include "tests/virtual_time/guest_vhost.h"

namespace understudy {
namespace {

constexpr MacAddress kMac{{2, 0x75, 1, 0, 0, 9}};
constexpr uint64_t kReceiveRing = 0, kTransmitRing = 4096, kBuffers = 16 << 10;
constexpr uint32_t kHeader = 12;  ///< virtio_net_hdr_mrg_rxbuf

constexpr uint64_t guest(uint64_t offset) { return GuestFile::kGuest + offset; }

class Nic : public testing::Test {
 protected:
  Nic() : path(testing::TempDir() + "/nic" + std::to_string(getpid())) {
    std::filesystem::remove(path);
    EXPECT_TRUE(nic.listen(path));
    client = VhostClient(path);
    EXPECT_TRUE(serve());
  }
  ~Nic() override { std::filesystem::remove(path); }

  Result<void> serve(int messages = 1) {
    for (int i = 0; i < messages; ++i) {
      auto served = nic.serve([this](GuestNic::Queue queue) {
        kicks.push_back(queue);
        return Result<void>();
      });
      if (!served) return served;
    }
    return {};
  }
  /// The answer to a request that has one.
  VhostMessage ask(Vhost code, const std::vector<uint8_t>& payload = {}) {
    client.send(code, payload);
    EXPECT_TRUE(serve());
    const VhostMessage answer = client.receive();
    EXPECT_EQ(answer.code, static_cast<uint32_t>(code));
    EXPECT_EQ(answer.flags, 5u);
    return answer;
  }
  void expect_error(const std::string& words) {
    const auto served = serve();
    ASSERT_FALSE(served);
    EXPECT_NE(served.error().text.find(words), std::string::npos) << served.error().text;
  }
  void set_up() {
    client.share(file);
    client.set_up(GuestNic::kReceive, receive);
    client.set_up(GuestNic::kTransmit, transmit);
    ASSERT_TRUE(serve(9));
  }

  const std::string path;
  GuestFile file{128 << 10};
  GuestRing receive{file, kReceiveRing, 8}, transmit{file, kTransmitRing, 8};
  GuestNic nic{kMac};
  VhostClient client;
  std::vector<GuestNic::Queue> kicks;
};

TEST_F(Nic, OffersWhatItCan) {
  const uint64_t features = ask(Vhost::kGetFeatures).number();
  EXPECT_EQ(features, 1ULL << 5 | 1ULL << 15 | 1ULL << 30 | 1ULL << 32)
      << "MAC, merged buffers, protocol features, version 1";
  EXPECT_EQ(ask(Vhost::kGetProtocolFeatures).number(),
            1ULL << 3 | 1ULL << 5 | 1ULL << 9 | 1ULL << 14)
      << "replies, requests of ours, configuration, in-band notifications";
  EXPECT_EQ(ask(Vhost::kGetQueueNum).number(), 1u);
}

TEST_F(Nic, RepliesWhereItIsAskedTo) {
  client.send(Vhost::kSetFeatures, packed(uint64_t{0}));
  client.send(Vhost::kSetOwner);
  ASSERT_TRUE(serve(2));
  EXPECT_TRUE(client.silent());
  client.send(Vhost::kSetFeatures, packed(uint64_t{0}), {},
              VhostClient::kVersion | VhostClient::kNeedReply);
  ASSERT_TRUE(serve());
  const VhostMessage answer = client.receive();
  EXPECT_EQ(answer.flags, 5u) << "a reply has the flags of a reply, and no others";
  EXPECT_EQ(answer.payload, packed(uint64_t{0}));
}

TEST_F(Nic, AnswersOnceWhereAReplyIsWantedAnyway) {
  client.send(Vhost::kGetFeatures, {}, {}, VhostClient::kVersion | VhostClient::kNeedReply);
  ASSERT_TRUE(serve());
  EXPECT_NE(client.receive().number(), 0u);
  EXPECT_TRUE(client.silent());
}

TEST_F(Nic, ItsConfigurationIsReadFromAnyOffset) {
  const auto read = [this](uint32_t offset, uint32_t bytes) {
    std::vector<uint8_t> payload = packed(offset, bytes, uint32_t{0});
    payload.resize(payload.size() + bytes);
    const VhostMessage answer = ask(Vhost::kGetConfig, payload);
    EXPECT_EQ(answer.payload.size(), payload.size());
    return std::vector<uint8_t>(answer.payload.begin() + 12, answer.payload.end());
  };
  EXPECT_EQ(read(0, 6), std::vector<uint8_t>(kMac.bytes.begin(), kMac.bytes.end()));
  EXPECT_EQ(read(6, 2), (std::vector<uint8_t>{1, 0})) << "the link is up";
  EXPECT_EQ(read(4, 3), (std::vector<uint8_t>{0, 9, 1}));
  EXPECT_EQ(read(1000, 4), std::vector<uint8_t>(4)) << "behind its end there are zeros";
  EXPECT_EQ(read(0, 1012).size(), 1012u);
}

TEST_F(Nic, TellsOfKicks) {
  client.send(Vhost::kVringKick, packed(uint32_t{1}, uint32_t{0}), {},
              VhostClient::kVersion | VhostClient::kNeedReply);
  client.send(Vhost::kVringKick, packed(uint32_t{0}, uint32_t{0}));
  ASSERT_TRUE(serve(2));
  EXPECT_EQ(kicks, (std::vector{GuestNic::kTransmit, GuestNic::kReceive}));
  EXPECT_EQ(client.receive().code, static_cast<uint32_t>(Vhost::kVringKick));
}

TEST_F(Nic, ErrorsOfAKickEndTheMessage) {
  client.send(Vhost::kVringKick, packed(uint32_t{1}, uint32_t{0}));
  const auto served = nic.serve([](GuestNic::Queue) { return Result<void>(fail("no")); });
  ASSERT_FALSE(served);
  EXPECT_EQ(served.error().text, "no");
}

TEST_F(Nic, TakesFramesFromTheGuest) {
  set_up();
  std::vector<uint8_t> frame(100);
  std::iota(frame.begin(), frame.end(), uint8_t{1});
  file.write(kBuffers + kHeader, std::span(frame).first(60));
  file.write(kBuffers + 4096, std::span(frame).subspan(60));
  transmit.describe(0, guest(kBuffers), kHeader + 60, GuestRing::kNext, 1);
  transmit.describe(1, guest(kBuffers + 4096), 40);
  transmit.offer(0);
  std::vector<uint8_t> taken;
  uint16_t head = 9;
  ASSERT_TRUE(nic.take_frame(taken, head));
  EXPECT_EQ(taken, frame);
  EXPECT_EQ(head, 0);
  EXPECT_FALSE(nic.take_frame(taken, head));
  EXPECT_TRUE(transmit.take_used().empty()) << "it comes back when it was sent";
  nic.give_back(0);
  EXPECT_EQ(transmit.take_used(), (std::vector<GuestRing::Used>{{0, 0}}));
}

TEST_F(Nic, WhatIsNoFrameComesBackAndCounts) {
  set_up();
  transmit.describe(0, guest(kBuffers), kHeader);             // a header only
  transmit.describe(1, guest(file.bytes()), 100);             // outside
  transmit.describe(2, guest(kBuffers), kHeader + 9018 + 1);  // longer than any frame
  transmit.describe(3, guest(kBuffers), kHeader + 9018);
  for (uint16_t i = 0; i < 4; ++i) transmit.offer(i);
  std::vector<uint8_t> frame;
  uint16_t head = 0;
  ASSERT_TRUE(nic.take_frame(frame, head));
  EXPECT_EQ(head, 3);
  EXPECT_EQ(frame.size(), 9018u);
  EXPECT_EQ(nic.broken(), 3u);
  EXPECT_EQ(transmit.take_used(), (std::vector<GuestRing::Used>{{0, 0}, {1, 0}, {2, 0}}));
}

TEST_F(Nic, DeliversIntoAsManyBuffersAsAFrameNeeds) {
  set_up();
  for (uint16_t i = 0; i < 4; ++i) {
    receive.describe(i, guest(kBuffers + uint64_t{i} * 4096), 64, GuestRing::kWrite);
  }
  std::vector<uint8_t> frame(150);
  std::iota(frame.begin(), frame.end(), uint8_t{3});
  receive.offer(2);
  receive.offer(0);
  EXPECT_FALSE(nic.deliver(frame)) << "162 bytes into 128";
  EXPECT_TRUE(receive.take_used().empty()) << "and nothing is taken";
  receive.offer(1);
  ASSERT_TRUE(nic.deliver(frame));
  EXPECT_EQ(receive.take_used(), (std::vector<GuestRing::Used>{{2, 64}, {0, 64}, {1, 34}}));
  std::vector<uint8_t> bytes = file.read(kBuffers + 2 * 4096, 64);
  EXPECT_EQ(std::vector<uint8_t>(bytes.begin(), bytes.begin() + kHeader),
            (std::vector<uint8_t>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0}))
      << "no offloads, three buffers";
  for (const auto& [offset, count] : {std::pair{kBuffers, 64}, {kBuffers + 4096, 34}}) {
    const auto more = file.read(offset, static_cast<size_t>(count));
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
  EXPECT_EQ(std::vector<uint8_t>(bytes.begin() + kHeader, bytes.end()), frame);
}

TEST_F(Nic, CountsMoreThan255BuffersRight) {
  client.share(file);
  ASSERT_TRUE(serve());
  // Rings of 512 entries: descriptors, and behind them the others.
  constexpr uint64_t kAt = 32 << 10, kAvailable = kAt + 8192, kUsed = kAvailable + 2048;
  constexpr uint32_t kEntries = 512, kEach = 16;
  for (uint16_t i = 0; i < kEntries; ++i) {
    file.put<uint64_t>(kAt + 16 * uint64_t{i}, guest(kBuffers + uint64_t{i} * kEach));
    file.put<uint32_t>(kAt + 16 * uint64_t{i} + 8, kEach);
    file.put<uint16_t>(kAvailable + 4 + 2 * uint64_t{i}, i);
  }
  file.put<uint16_t>(kAvailable + 2, kEntries);
  client.send(Vhost::kSetVringNum, packed(uint32_t{0}, kEntries));
  client.send(Vhost::kSetVringAddr,
              packed(uint32_t{0}, uint32_t{0}, GuestFile::kUser + kAt, GuestFile::kUser + kUsed,
                     GuestFile::kUser + kAvailable, uint64_t{0}));
  client.send(Vhost::kSetVringEnable, packed(uint32_t{0}, uint32_t{1}));
  ASSERT_TRUE(serve(3));
  ASSERT_TRUE(nic.deliver(std::vector<uint8_t>(300 * kEach - kHeader)));
  EXPECT_EQ(file.get<uint16_t>(kBuffers + 10), 300);
  EXPECT_EQ(file.get<uint16_t>(kUsed + 2), 300);
}

TEST_F(Nic, BrokenReceiveBuffersComeBackEmpty) {
  set_up();
  receive.describe(0, guest(file.bytes()), 2048, GuestRing::kWrite);
  receive.describe(1, guest(kBuffers), 2048, GuestRing::kWrite);
  receive.offer(0);
  receive.offer(1);
  ASSERT_TRUE(nic.deliver(std::vector<uint8_t>(60)));
  EXPECT_EQ(receive.take_used(), (std::vector<GuestRing::Used>{{0, 0}, {1, 72}}));
  EXPECT_EQ(nic.broken(), 1u);
}

TEST_F(Nic, InterruptsAreRequestsOnTheOtherSocket) {
  set_up();
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const UniqueFd ours(ends[0]), given(ends[1]);
  client.send(Vhost::kSetBackendRequestFd, {}, {given.get()});
  ASSERT_TRUE(serve());
  int waited = -1;
  const auto answer = packed(uint32_t{4}, uint32_t{5}, uint32_t{8}, uint64_t{0});
  ASSERT_TRUE(nic.interrupt(GuestNic::kTransmit, [&](int fd) {
    waited = fd;
    EXPECT_TRUE(write_whole(ours.get(), answer));
    return Result<void>();
  }));
  EXPECT_GE(waited, 0);
  std::vector<uint8_t> request(20);
  ASSERT_TRUE(read_whole(ours.get(), request));
  EXPECT_EQ(request, packed(uint32_t{4}, uint32_t{9}, uint32_t{8}, uint32_t{1}, uint32_t{0}));

  const auto failed =
      nic.interrupt(GuestNic::kReceive, [](int) { return Result<void>(fail("no")); });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().text, "no");
}

TEST_F(Nic, WithoutTheOtherSocketThereAreNoInterrupts) {
  set_up();
  EXPECT_TRUE(nic.interrupt(GuestNic::kReceive, [](int) -> Result<void> {
    ADD_FAILURE() << "waits for what cannot come";
    return {};
  }));
}

TEST_F(Nic, SaysWhereItsRingsStand) {
  set_up();
  transmit.describe(0, guest(kBuffers), kHeader + 60);
  transmit.offer(0);
  std::vector<uint8_t> frame;
  uint16_t head = 0;
  ASSERT_TRUE(nic.take_frame(frame, head));
  EXPECT_EQ(ask(Vhost::kGetVringBase, packed(uint32_t{1}, uint32_t{0})).payload,
            packed(uint32_t{1}, uint32_t{1}));
}

/// Rings in memory that is unmapped would be our end.
TEST_F(Nic, OtherMemoryTakesTheRingsAway) {
  set_up();
  transmit.describe(0, guest(kBuffers), kHeader + 60);
  transmit.offer(0);
  GuestFile other(64 << 10);
  client.share(other);
  ASSERT_TRUE(serve());
  std::vector<uint8_t> frame;
  uint16_t head = 0;
  EXPECT_FALSE(nic.take_frame(frame, head));
  EXPECT_FALSE(nic.deliver(std::vector<uint8_t>(60)));
  EXPECT_FALSE(nic.wants_interrupt(GuestNic::kReceive));
  nic.give_back(0);
}

TEST_F(Nic, AGuestThatHangsUpLeavesNothing) {
  set_up();
  EXPECT_GE(nic.fd(), 0);
  client.hang_up();
  ASSERT_TRUE(serve());
  EXPECT_EQ(nic.fd(), -1);
  EXPECT_FALSE(nic.deliver(std::vector<uint8_t>(60)));
  nic.give_back(0);
}

TEST_F(Nic, HalfAMessageIsAnEnd) {
  client.send_bytes(packed(uint32_t{1}, uint32_t{1}));
  client.hang_up();
  ASSERT_TRUE(serve());
  EXPECT_EQ(nic.fd(), -1);
}

TEST_F(Nic, QueuesThatItLacks) {
  for (const Vhost code : {Vhost::kSetVringNum, Vhost::kSetVringAddr, Vhost::kSetVringBase,
                           Vhost::kGetVringBase, Vhost::kSetVringEnable, Vhost::kVringKick}) {
    client.send(code, packed(uint32_t{2}, uint32_t{8}));
    expect_error("names a queue that its network device does not have");
  }
}

TEST_F(Nic, SizesThatNoRingHas) {
  client.send(Vhost::kSetVringNum, packed(uint32_t{0}, uint32_t{7}));
  expect_error("a ring has 7 entries: expected a power of two up to 32768");
}

TEST_F(Nic, RingsOutsideTheMemory) {
  client.share(file);
  client.send(Vhost::kSetVringNum, packed(uint32_t{0}, uint32_t{8}));
  ASSERT_TRUE(serve(2));
  client.send(Vhost::kSetVringAddr,
              packed(uint32_t{0}, uint32_t{0}, GuestFile::kUser,
                     GuestFile::kUser + file.bytes() - 8, receive.available()));
  expect_error("a ring is not in the guest's memory");
}

TEST_F(Nic, RegionsNeedADescriptorEach) {
  client.send(Vhost::kSetMemTable, packed(uint32_t{2}, uint32_t{0}), {file.fd()});
  expect_error("its memory's regions do not have a descriptor each");
  client.send(Vhost::kSetMemTable, packed(uint32_t{0xffffffff}, uint32_t{0}));
  expect_error("its memory's regions do not have a descriptor each");
}

TEST_F(Nic, RegionsLargerThanTheirFile) {
  client.send(Vhost::kSetMemTable,
              packed(uint32_t{1}, uint32_t{0}, GuestFile::kGuest, uint64_t{file.bytes() + 1},
                     GuestFile::kUser, uint64_t{0}),
              {file.fd()});
  expect_error("its memory cannot be mapped");
}

TEST_F(Nic, MessagesOfAnotherVersion) {
  client.send(Vhost::kGetFeatures, {}, {}, 2);
  expect_error("a vhost-user message has flags 2: expected version 1");
}

TEST_F(Nic, MessagesThatAreTooLong) {
  client.send_bytes(packed(uint32_t{1}, uint32_t{1}, uint32_t{1025}));
  expect_error("a vhost-user message has 1025 bytes: expected up to 1024");
}

TEST(Listening, NeedsAPathThatASocketCanHave) {
  GuestNic nic(kMac);
  const auto listening = nic.listen("/tmp/" + std::string(120, 'x'));
  ASSERT_FALSE(listening);
  EXPECT_NE(listening.error().text.find("too long for a UNIX socket"), std::string::npos);
  const auto nowhere = nic.listen("/nowhere/nic");
  ASSERT_FALSE(nowhere);
  EXPECT_NE(nowhere.error().text.find("/nowhere/nic: No such file"), std::string::npos);
}

}  // namespace
}  // namespace understudy
