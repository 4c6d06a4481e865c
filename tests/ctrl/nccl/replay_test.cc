// Recorded runs of NCCL: the real rank's side is played byte for byte against our emulated ranks,
// and every reply has the recorded one's length, framing and meaning.
#include <gtest/gtest.h>

#include "tests/rigs/nccl_rank/replay.h"
#include "tools/nccl_decode/packet.h"

namespace understudy::nccl_rank {
namespace {

std::vector<nccl_decode::TcpConnection> load(const std::string& name) {
  auto capture = nccl_decode::read_capture(std::string(UNDERSTUDY_TEST_DATA) + "/nccl/" + name);
  EXPECT_TRUE(capture.has_value());
  return std::move(capture->connections);
}

class NcclReplay : public testing::TestWithParam<const char*> {};

TEST_P(NcclReplay, AsRecorded) {
  Replay replay(nccl_decode::decode(load(GetParam())));
  replay.run();
  for (const std::string& difference : replay.differences()) ADD_FAILURE() << difference;
  EXPECT_EQ(replay.communicator().failure(), "");
  EXPECT_TRUE(replay.communicator().finished());
  // Each reply came where it was recorded, before the real rank said anything else.
  EXPECT_EQ(replay.late(), 0);
  const bool eight = std::string(GetParam()).find("n8") != std::string::npos;
  EXPECT_EQ(replay.replies(), eight ? 169 : 67);
  EXPECT_EQ(replay.connections(), eight ? 20 : 6);
}

// A recording in which one byte of a stand-in's is another: its replies are not ours.
TEST(NcclReplayBites, EachMeaning) {
  using nccl_decode::Message;
  using nccl_decode::Stream;
  const auto altered = [](auto wanted, size_t at) {
    auto connections = load("bootstrap_2.28.9_n4_c1.pcap");
    const auto exchange = nccl_decode::decode(connections);
    for (size_t i = 0; i < exchange.streams.size(); ++i) {
      const Stream& stream = exchange.streams[i];
      for (const Message& message : stream.messages) {
        if (!wanted(stream, message)) continue;
        connections[i].sides[message.from_opener ? 0 : 1].bytes[message.begin + at] ^= 0x10;
        Replay replay(nccl_decode::decode(std::move(connections)));
        replay.run();
        return replay.differences().size();
      }
    }
    ADD_FAILURE() << "no such message";
    return size_t{1};
  };
  const auto part = [](nccl_decode::GatherKind kind) {
    return [kind](const Stream& stream, const Message& message) {
      return stream.taker_rank == 0 && message.from_opener && message.gather == kind;
    };
  };
  using nccl_decode::GatherKind;
  EXPECT_GT(altered(part(GatherKind::kPeerInfo), 4 + 112), 0U);       // version
  EXPECT_GT(altered(part(GatherKind::kPeerInfo), 4 + 72), 0U);        // fabric
  EXPECT_GT(altered(part(GatherKind::kAddresses), 4 + 64), 0U);       // RAS
  EXPECT_GT(altered(part(GatherKind::kGraphInfo), 4 + 4), 0U);        // channels of a tree
  EXPECT_GT(altered(part(GatherKind::kGraphInfo), 4 + 224 + 4), 0U);  // ring_recv
  EXPECT_GT(altered(part(GatherKind::kRingInfo), 4 + 1), 0U);
  const auto setup = [](const Stream& stream, const Message& message) {
    return stream.taker_rank == 0 && stream.opener_rank == 1 && stream.tag == 0x101 &&
           message.what.starts_with("set-up");
  };
  EXPECT_GT(altered(setup, 4 + 33), 0U);   // net_ib's magic
  EXPECT_GT(altered(setup, 4 + 128), 0U);  // GDR
  EXPECT_GT(altered(setup, 4 + 200), 0U);  // reserved
  const auto metadata = [](const Stream& stream, const Message& message) {
    return stream.kind == nccl_decode::StreamKind::kNetIb && stream.taker_rank == 1 &&
           !message.from_opener && message.what == "metadata";
  };
  EXPECT_GT(altered(metadata, 4), 0U);                          // a vendor's ECE
  EXPECT_GT(altered(metadata, 3072 + 4), 0U);                   // port
  EXPECT_GT(altered(metadata, 3072 + 8), 0U);                   // MTU
  EXPECT_GT(altered(metadata, 3072 + 12), 0U);                  // link layer
  EXPECT_GT(altered(metadata, 3632), 0U);                       // devices
  EXPECT_GT(altered(metadata, 3636), 0U);                       // traffic class
  EXPECT_EQ(altered(part(GatherKind::kPeerInfo), 4 + 24), 0U);  // process hash: random
}

INSTANTIATE_TEST_SUITE_P(Recordings, NcclReplay,
                         testing::Values("bootstrap_2.28.9_n4_c1.pcap",
                                         "bootstrap_2.29.7_n4_c1.pcap",
                                         "bootstrap_2.28.9_n8_c2.pcap"));

}  // namespace
}  // namespace understudy::nccl_rank
