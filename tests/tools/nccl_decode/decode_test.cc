// The decoder on recordings of NCCL itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "tests/fuzz/nccl_decode_drive.h"
#include "tools/nccl_decode/exchange.h"
#include "tools/nccl_decode/packet.h"

namespace understudy::nccl_decode {
namespace {

Capture load(const std::string& name) {
  auto capture = read_capture(std::string(UNDERSTUDY_TEST_DATA) + "/nccl/" + name + ".pcap");
  EXPECT_TRUE(capture.has_value());
  return std::move(*capture);
}

struct Recording {
  const char* name;
  const char* release;
  int ranks, channels;
};
constexpr Recording kRecordings[] = {{"bootstrap_2.28.9_n4_c1", "2.28.9", 4, 1},
                                     {"bootstrap_2.29.7_n4_c1", "2.29.7", 4, 1},
                                     {"bootstrap_2.28.9_n8_c2", "2.28.9", 8, 2}};

std::string field(const Message& message, const std::string& name) {
  for (const Field& f : message.fields) {
    if (f.name == name) return f.value;
  }
  return "?";
}

TEST(NcclDecode, Recordings) {
  for (const Recording& recording : kRecordings) {
    SCOPED_TRACE(recording.name);
    const Exchange exchange = decode(load(recording.name).connections);
    ASSERT_TRUE(exchange.release.has_value());
    EXPECT_EQ(exchange.release->text(), recording.release);
    EXPECT_EQ(exchange.open_ends, std::vector<std::string>{});
    ASSERT_EQ(exchange.communicators.size(), 1U);
    EXPECT_EQ(exchange.communicators[0].ranks, recording.ranks);
    int check_ins = 0, answers = 0, rings = 0;
    for (const Stream& stream : exchange.streams) {
      EXPECT_NE(stream.kind, StreamKind::kOther);
      EXPECT_NE(stream.kind, StreamKind::kBootstrap);
      check_ins += stream.kind == StreamKind::kCheckIn;
      answers += stream.kind == StreamKind::kRootAnswer;
      for (const Message& message : stream.messages) {
        EXPECT_TRUE(message.whole);
        // The stand-ins wrote their number into the channels that are not in use, too.
        for (const Field& f : message.fields) {
          EXPECT_TRUE(f.kind != FieldKind::kUnknown || message.gather == GatherKind::kGraphInfo)
              << stream.about << " " << message.what << " " << f.name;
        }
      }
      if (stream.kind == StreamKind::kMessage || stream.kind == StreamKind::kNetIb) {
        EXPECT_TRUE(stream.opener_rank.has_value() && stream.taker_rank.has_value());
        EXPECT_TRUE(*stream.opener_rank == 0 || *stream.taker_rank == 0) << stream.about;
      }
      if (stream.kind != StreamKind::kRing) continue;
      ++rings;
      EXPECT_EQ(*stream.taker_rank, (*stream.opener_rank + 1) % recording.ranks);
      std::vector<GatherKind> kinds;
      for (const Message& message : stream.messages) {
        if (!message.gather || !message.from_opener) continue;
        const auto number = static_cast<size_t>(message.gather_number);
        if (kinds.size() <= number) kinds.push_back(*message.gather);
        EXPECT_EQ(kinds.at(number), *message.gather);
        if (*message.gather != GatherKind::kPeerInfo) continue;
        // The order of slices that the titles claim is what the peer infos say.
        const std::string title = "peer info of rank " + field(message, "rank");
        EXPECT_NE(message.what.find(title), std::string::npos) << message.what;
        EXPECT_EQ(field(message, "version"),
                  std::to_string(Release::parse(recording.release)->code()));
      }
      EXPECT_EQ(kinds, (std::vector{GatherKind::kAddresses, GatherKind::kPeerInfo,
                                    GatherKind::kGraphInfo, GatherKind::kRingInfo}));
    }
    EXPECT_EQ(check_ins, recording.ranks);
    EXPECT_EQ(answers, recording.ranks);
    EXPECT_EQ(rings, recording.ranks);
  }
}

TEST(NcclDecode, NetIbOfARecording) {
  const Exchange exchange = decode(load("bootstrap_2.28.9_n4_c1").connections);
  int connections = 0;
  for (const Stream& stream : exchange.streams) {
    if (stream.kind != StreamKind::kNetIb) continue;
    ++connections;
    ASSERT_EQ(stream.messages.size(), 6U) << stream.about;  // handshake, 2 lists, 2 metadata, ready
    for (const Message& message : stream.messages) {
      if (message.what != "metadata") continue;
      EXPECT_EQ(field(message, "devices"), "1");
      EXPECT_EQ(field(message, "device0.link_layer"), "2");
      EXPECT_EQ(field(message, "device0.mtu"), "5");
      EXPECT_NE(field(message, "qp0.qpn"), "?");
    }
  }
  EXPECT_EQ(connections, 6);  // ring 1 and 1, tree with rank 2 both ways, PAT's other directions
}

// A capture that ends early, as one of a job that hangs: what is not complete is named.
TEST(NcclDecode, OpenEnds) {
  const auto ends_before = [](size_t connections) {
    Capture capture = load("bootstrap_2.28.9_n4_c1");
    capture.connections.resize(connections);
    return decode(std::move(capture.connections)).open_ends;
  };
  const auto says = [](const std::vector<std::string>& ends, const std::string& what) {
    return std::any_of(ends.begin(), ends.end(),
                       [&](const std::string& end) { return end.find(what) != std::string::npos; });
  };
  EXPECT_TRUE(says(ends_before(2), "no check-in in the capture of ranks 2, 3"));
  EXPECT_TRUE(says(ends_before(15), "no answer of rank 3"));

  Capture capture = load("bootstrap_2.28.9_n4_c1");
  for (TcpConnection& connection : capture.connections) {
    for (TcpSide& side : connection.sides) {
      if (side.bytes.size() == 3668) side.bytes.resize(20);  // a receiver's answer
      if (side.bytes.size() == 2550) side.bytes.resize(1000);
    }
  }
  const auto ends = decode(std::move(capture.connections)).open_ends;
  EXPECT_TRUE(says(ends, "the receiver has not answered the sender's metadata"));
  EXPECT_TRUE(says(ends, "rank 3 to rank 0): all-gather 2, graph info of rank 0"));
  EXPECT_TRUE(says(ends, "all-gather 3 stands at 0 of 1 steps of rank 0"));
}

// Each connection's bytes cut at every place: nothing is fatal, and what came whole stays so.
TEST(NcclDecode, CutAnywhere) {
  const Capture capture = load("bootstrap_2.29.7_n4_c1");
  for (size_t c = 0; c < capture.connections.size(); ++c) {
    for (size_t side = 0; side < 2; ++side) {
      const size_t size = capture.connections[c].sides[side].bytes.size();
      for (size_t cut = 0; cut < size; cut += 1 + size / 40) {
        auto connections = capture.connections;
        connections[c].sides[side].bytes.resize(cut);
        const Exchange exchange = decode(std::move(connections));
        EXPECT_EQ(exchange.streams.size(), capture.connections.size());
      }
    }
  }
}

TEST(NcclDecode, AnyBytes) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<uint8_t> bytes(random() % 2000);
    for (uint8_t& byte : bytes)
      byte = static_cast<uint8_t>(random() % 4 == 0 ? random() : random() % 8);
    drive_nccl_decode(bytes);
  }
}

}  // namespace
}  // namespace understudy::nccl_decode
