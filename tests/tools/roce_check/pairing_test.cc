// Which flows are the two directions of one connection: of several that do the same at the same
// time only the order of their ACKs tells.
#include <gtest/gtest.h>

#include "tests/tools/roce_check/conversation.h"

namespace understudy {
namespace {

class Twins {
 public:
  static constexpr Qpn kThere[] = {0x41, 0x42}, kBack[] = {0x21, 0x22};

  void request(size_t which, uint32_t psn) {
    add(true,
        {.opcode = Opcode::kWriteOnly,
         .ack_request = true,
         .dest_qpn = kThere[which],
         .psn = Psn(psn),
         .dma_length = 64},
        64);
  }
  void ack(size_t which, uint32_t psn) {
    add(false,
        {.opcode = Opcode::kAcknowledge,
         .dest_qpn = kBack[which],
         .psn = Psn(psn),
         .syndrome = kNoCredits,
         .msn = psn + 1},
        0);
  }
  void expect_paired() const {
    const Analysis analysis = capture_.judge();
    ASSERT_EQ(analysis.connections.size(), 2u);
    for (const ConnectionResult& result : analysis.connections) {
      ASSERT_NE(result.connection.reverse, kNoFlow);
      const Qpn a = analysis.table.flows[result.connection.forward].dest_qpn;
      const Qpn b = analysis.table.flows[result.connection.reverse].dest_qpn;
      EXPECT_EQ(std::max(a, b) - std::min(a, b), kThere[0] - kBack[0]);
    }
  }

 private:
  void add(bool there, const RoceFields& fields, uint32_t bytes) {
    RoceAddressing a;
    a.src = there ? Conversation::client_ip() : Conversation::server_ip();
    a.dst = there ? Conversation::server_ip() : Conversation::client_ip();
    a.udp_src = 0xc000;
    TestFrame frame;
    frame.bytes.resize(roce_frame_bytes(a, fields.opcode, bytes));
    uint8_t* payload = begin_roce(frame.bytes.data(), a, fields, bytes);
    std::fill_n(payload, bytes, uint8_t{1});
    finish_roce(frame.bytes.data(), a, fields.opcode, bytes);
    now_ = now_ + Duration::us(5);
    frame.at = now_;
    capture_.frames.push_back(std::move(frame));
  }

  TestCapture capture_;
  Time now_;
};

// The first connection is always a request ahead of its ACK, so that each of these names the very
// request that the second one waits for.
TEST(Pairing, OneIsAheadOfTheOther) {
  Twins twins;
  twins.request(0, 0);
  twins.request(1, 0);
  for (uint32_t k = 1; k < 20; ++k) {
    twins.request(0, k);
    twins.ack(0, k - 1);
    twins.request(1, k);
    twins.ack(1, k - 1);
  }
  twins.ack(0, 19);
  twins.ack(1, 19);
  twins.expect_paired();
}

// ACKs that answer several requests.
TEST(Pairing, SeveralAtATime) {
  Twins twins;
  for (uint32_t k = 0; k < 40; k += 4) {
    for (uint32_t i = 0; i < 4; ++i) {
      twins.request(0, k + i);
      twins.request(1, k + i);
    }
    if (k % 8 == 0) continue;
    twins.ack(0, k + 3);
    twins.ack(1, k + 3);
  }
  twins.expect_paired();
}

}  // namespace
}  // namespace understudy
