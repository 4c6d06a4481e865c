// Queue pairs that gave up and are set up anew with the same numbers and PSNs, as NCCL's port recovery does it: another connection
// between the same two ends, without a word of RDMA-CM.
#include <gtest/gtest.h>

#include "tests/tools/roce_check/conversation.h"
#include "tools/roce_check/output/report.h"

namespace understudy {
namespace {

using O = Opcode;

/// Four WRITEs that are acknowledged, and one that is sent `times` times in vain.
Conversation given_up(uint32_t times) {
  Conversation c;
  for (uint32_t i = 0; i < 4; ++i) {
    c.client(O::kWriteOnly, talk_psn(i), 64, 64).ack(talk_psn(i), i + 1);
  }
  for (uint32_t i = 0; i < times; ++i) {
    c.wait(Duration::ms(20)).client(O::kWriteOnly, talk_psn(4), 64, 64);
  }
  return c;
}
void write_from(Conversation& c, uint32_t psn) {
  for (uint32_t i = 0; i < 3; ++i) {
    c.client(O::kWriteOnly, talk_psn(psn + i), 512, 512).ack(talk_psn(psn + i), i + 1);
  }
}

// rules: A5.6 A4.8 A4.17
TEST(Reset, AfterRetriesTheFirstPsnIsABeginning) {
  for (const bool own : {true, false}) {
    Conversation c = given_up(3);
    c.capture.own = own;
    write_from(c.wait(Duration::ms(500)), 0);
    const Analysis analysis = c.capture.judge({});
    expect_holds(analysis);
    ASSERT_EQ(analysis.findings.notes(Check::kOrder).size(), 1u);
    EXPECT_NE(analysis.findings.notes(Check::kOrder)[0].find("begins anew in frame 12"),
              std::string::npos)
        << analysis.findings.notes(Check::kOrder)[0];
  }
}

// rules: A4.8
TEST(Reset, GoingBackElsewhereIsNone) {
  Conversation behind = given_up(3);  // behind what was acknowledged, and not to the first PSN
  write_from(behind.wait(Duration::ms(500)), 1);
  Conversation soon = given_up(1);  // nobody has sent anything again yet
  write_from(soon.wait(Duration::ms(500)), 0);
  for (const Conversation* c : {&behind, &soon}) {
    const Analysis analysis = c->capture.judge({});
    EXPECT_TRUE(analysis.findings.notes(Check::kOrder).empty());
    expect_fails(analysis, Check::kAcks);
  }
}

}  // namespace
}  // namespace understudy
