// roce-check --impaired: what the network did to packets behind the capture is nobody's fault.
#include <gtest/gtest.h>

#include "tests/tools/roce_check/conversation.h"

namespace understudy {
namespace {

AnalysisOptions impaired() {
  AnalysisOptions options;
  options.impaired = true;
  return options;
}

// rules: A4.2
TEST(Impaired, APacketHeldBackBehindTheCaptureComesAfterTheNakOfItsGap) {
  Conversation c;
  for (uint32_t i = 0; i < 3; ++i) c.client(Opcode::kWriteOnly, talk_psn(i), 64, 64);
  c.ack(talk_psn(1), 1, kSyndromeNak);
  c.ack(talk_psn(2), 3);  // the second has come in the meantime, and nobody sent it again
  EXPECT_TRUE(c.capture.judge(impaired()).findings.hold());
  const Analysis strict = c.capture.judge();
  EXPECT_EQ(strict.findings.count(Rule::kA4_2), 1u) << all_examples(strict);
}

// A program may close its queue pair while the last of its requests goes unanswered, because the
// answer was lost: nobody asks again.
// rules: A4.10
TEST(Impaired, TheLastRequestsMayHaveLostTheirAnswers) {
  Conversation c;
  c.client(Opcode::kWriteOnly, talk_psn(0), 64, 64);
  c.ack(talk_psn(0), 1);
  c.client(Opcode::kWriteOnly, talk_psn(1), 64, 64);
  EXPECT_TRUE(c.capture.judge(impaired()).findings.hold());
  const Analysis strict = c.capture.judge();
  EXPECT_EQ(strict.findings.count(Rule::kUnanswered), 1u) << all_examples(strict);
}

// A DREQ that is lost behind the capture is not repeated by a program that has ended.
// rules: A9.10
TEST(Impaired, TheLastDreqMayHaveBeenLost) {
  Conversation c = eventful();
  c.capture.erase(c.at("drep"));
  EXPECT_TRUE(c.capture.judge(impaired()).findings.hold());
  const Analysis strict = c.capture.judge();
  EXPECT_EQ(strict.findings.count(Rule::kA9_10), 1u) << all_examples(strict);
}

}  // namespace
}  // namespace understudy
