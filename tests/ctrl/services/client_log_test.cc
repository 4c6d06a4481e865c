// Any number of clients leaves a bounded report and a bounded log; the failures are counted all.
#include "ctrl/services/client_log.h"

#include <gtest/gtest.h>

#include <vector>

namespace understudy {
namespace {

class ClientLogTest : public testing::Test {
 protected:
  ServiceReport client(std::string error) const {
    return {"w", 7174, "rping", "10.0.0.1", Time::zero(), Time::zero() + Duration::ms(1), error};
  }
  RunReport report;
  std::vector<std::string> lines;
  ClientLog log{[this](const std::string& line) { lines.push_back(line); }};
};

TEST_F(ClientLogTest, TheFirstClientsAreWrittenDownAndTheOthersCounted) {
  for (size_t i = 0; i < ClientLog::kMostClients; ++i) log.ended(report, client(""));
  judge(report);
  EXPECT_TRUE(report.verdict.faithful);
  EXPECT_EQ(report.services_left_out.clients, 0u);
  for (int i = 0; i < 3; ++i) log.ended(report, client(""));
  judge(report);
  EXPECT_TRUE(report.verdict.faithful);
  for (int i = 0; i < 2; ++i) log.ended(report, client("refused"));
  EXPECT_EQ(report.services.size(), ClientLog::kMostClients);
  EXPECT_EQ(report.services_left_out.clients, 5u);
  EXPECT_EQ(report.services_left_out.failed, 2u);
  judge(report);
  EXPECT_FALSE(report.verdict.faithful);
  ASSERT_EQ(report.verdict.reasons.size(), 1u);
  EXPECT_EQ(report.verdict.reasons[0],
            "services: 2 more clients failed that the report leaves out");
}

TEST_F(ClientLogTest, ManyLinesBecomeOneASecond) {
  Time now;
  for (uint64_t i = 0; i < ClientLog::kMostLines; ++i) log.line("refused");
  log.poll(now);
  EXPECT_EQ(lines.size(), ClientLog::kMostLines);
  lines.clear();
  for (int ms = 0; ms < 2500; ++ms) {
    now = now + Duration::ms(1);
    log.line("refused");
    log.poll(now);
  }
  EXPECT_EQ(lines, (std::vector<std::string>{"clients of services: 1 more line left out",
                                             "clients of services: 1000 more lines left out",
                                             "clients of services: 1000 more lines left out"}));
  lines.clear();
  log.finish();
  log.finish();
  EXPECT_EQ(lines, std::vector<std::string>{"clients of services: 499 more lines left out"});
}

}  // namespace
}  // namespace understudy
