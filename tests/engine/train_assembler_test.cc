// Which packets join to a train, and what it stands for.
#include "dataplane/engine/receive/train_assembler.h"

#include "tests/engine/parts.h"

namespace understudy {
namespace {

constexpr uint32_t kNode = 1, kSlot = 2;

class TrainAssemblerTest : public testing::Test {
 protected:
  TrainAssemblerTest() {
    parts.connect(kSlot, kNode);
    parts.state.qps[kSlot].wants_payload = false;
  }
  static ShardConfig config() {
    return rig_config(Rate::bits_per_second(400'000'000'000), Duration::ns(500));
  }
  static ReadFrame packet(uint32_t psn, Opcode opcode = Opcode::kWriteMiddle) {
    static const std::vector<uint8_t> kFrame(1024 + 62);
    ReadFrame read;
    read.kind = FrameKind::kRoce;
    read.view.frame = kFrame;
    read.roce.opcode = static_cast<uint8_t>(opcode);
    read.roce.psn = Psn(psn);
    read.roce.payload_bytes = 1024;
    return read;
  }
  /// As the receive path does it with the packet at place `at`; its id if it stands for itself.
  uint32_t come(const ReadFrame& read, uint32_t at) {
    if (trains.accepts(read.view, read.roce, kSlot)) {
      trains.add(read.view, read.roce, at, Time());
      return kNoPacket;
    }
    trains.close(Time());
    const bool opens = trains.may_open(read.view, read.roce, kSlot);
    const uint32_t id = parts.inbound.take(PacketKind::kFromReal, read.view, kNode, Time());
    parts.state.pool[id].view = read.roce;
    trains.note_last(kSlot, read.roce.psn, at);
    if (opens) {
      trains.open(id, read.roce);
    } else {
      parts.network.accept(id, Time());
    }
    return id;
  }
  Parts parts{config()};
  TrainAssembler trains{parts.state, parts.network};
};

TEST_F(TrainAssemblerTest, MiddlePacketsInOrderAreOnePacketOfThePool) {
  const uint32_t first = come(packet(10), 0), train = come(packet(11), 1);
  EXPECT_EQ(parts.state.pool[first].kind, PacketKind::kFromReal);
  for (uint32_t i = 2; i < 8; ++i) EXPECT_EQ(come(packet(10 + i), i), kNoPacket);
  EXPECT_EQ(come(packet(18, Opcode::kWriteLast), 8), kNoPacket);
  EXPECT_EQ(parts.state.pool[train].kind, PacketKind::kTrain);
  EXPECT_EQ(parts.state.pool[train].packets(), 8u);
  EXPECT_EQ(parts.state.pool[train].view.psn, Psn(18));
  // The last packet of the message has closed it.
  EXPECT_FALSE(trains.accepts(packet(19).view, packet(19).roce, kSlot));
  parts.run(at_ns(10'000));
  ASSERT_EQ(parts.arrived.size(), 2u);
  EXPECT_EQ(parts.arrived[1].packet, train);
}

TEST_F(TrainAssemblerTest, AGapOrAnotherQueuePairDoesNotJoin) {
  come(packet(10), 0);
  come(packet(11), 1);
  EXPECT_TRUE(trains.accepts(packet(12).view, packet(12).roce, kSlot));
  EXPECT_FALSE(trains.accepts(packet(13).view, packet(13).roce, kSlot));
  EXPECT_FALSE(trains.accepts(packet(12).view, packet(12).roce, kSlot + 1));
  ReadFrame marked_ce = packet(12);
  marked_ce.view.tos = kCongestionExperienced;
  EXPECT_FALSE(trains.accepts(marked_ce.view, marked_ce.roce, kSlot));
  const ReadFrame first = packet(12, Opcode::kWriteFirst);
  EXPECT_FALSE(trains.accepts(first.view, first.roce, kSlot));
}

TEST_F(TrainAssemblerTest, NoMoreThanKMostInTrainGoTogether) {
  come(packet(0), 0);
  std::vector<uint32_t> own;
  for (uint32_t i = 1; i < 2 * kMostInTrain; ++i) {
    if (const uint32_t id = come(packet(i), i); id != kNoPacket) own.push_back(id);
  }
  ASSERT_GE(own.size(), 2u);
  EXPECT_EQ(parts.state.pool[own[0]].packets(), kMostInTrain);
}

TEST_F(TrainAssemblerTest, ContentsThatAreWantedKeepPacketsApart) {
  parts.state.qps[kSlot].wants_payload = true;
  come(packet(10), 0);
  EXPECT_FALSE(trains.may_open(packet(11).view, packet(11).roce, kSlot));
}

}  // namespace
}  // namespace understudy
