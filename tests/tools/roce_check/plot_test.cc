// What roce-check draws: which points, and of which queue pairs. gnuplot itself: the test of the
// command line.
#include <gtest/gtest.h>

#include "tests/tools/roce_check/conversation.h"
#include "tools/roce_check/output/plot.h"
#include "tools/roce_check/output/plot_series.h"

namespace understudy {
namespace {

const PlotSeries* titled(const std::vector<PlotSeries>& all, const std::string& title) {
  for (const PlotSeries& s : all) {
    if (s.title == title) return &s;
  }
  ADD_FAILURE() << "no series " << title;
  return &all.front();
}

std::vector<double> values(const PlotSeries& series) {
  std::vector<double> out;
  for (const PlotPoint& p : series.points) out.push_back(p.y);
  return out;
}

// From the first PSN on, also where it wraps (here at the seventh).
TEST(Plot, PsnsGoOnBeyondTheWrap) {
  const Analysis analysis = eventful().capture.judge();
  ASSERT_EQ(analysis.connections.size(), 1u);
  const ConnectionResult& c = analysis.connections[0];
  const auto all = psn_series(analysis.table, c.connection, true, analysis.table.first);
  EXPECT_EQ(values(*titled(all, "sent")),
            (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 13, 14, 15, 16}));
  EXPECT_EQ(values(*titled(all, "sent again")), (std::vector<double>{3, 5, 8, 10, 12, 13, 16}));
  EXPECT_EQ(values(*titled(all, "ACK")), (std::vector<double>{2, 3, 5, 6, 6, 13, 15, 16}));
  EXPECT_EQ(values(*titled(all, "NAK")), (std::vector<double>{3, 12}));
  EXPECT_EQ(values(*titled(all, "response")), (std::vector<double>{7, 8, 9, 8, 9, 10, 10, 14}));
  EXPECT_NEAR(titled(all, "NAK")->points[0].x, 5.05e-3, 1e-9);
}

// What the curve encloses is what was sent.
TEST(Plot, RateHoldsAllBytes) {
  const Analysis analysis = eventful().capture.judge();
  const uint32_t index = analysis.connections[0].forward.flow;
  const Flow& flow = analysis.table.flows[index];
  const Duration span = analysis.table.last - analysis.table.first;
  const PlotSeries rate =
      rate_series(analysis.table, flow, analysis.table.first, span, "", "lines");
  double megabits = 0;
  for (const PlotPoint& p : rate.points) megabits += p.y;
  megabits *= span.seconds() / static_cast<double>(rate.points.size());
  EXPECT_NEAR(megabits, static_cast<double>(analysis.connections[0].forward.rate.wire_bytes) * 8e-6,
              1e-9);
}

TEST(Plot, TheBusiestQueuePairs) {
  const Analysis analysis = TestCapture::load(recording("rxe_ucmatose")).judge();
  const std::string all = plot_script(analysis, "it's", {.file = "x.svg"});
  EXPECT_NE(all.find("set multiplot layout 4,2 title 'it''s'\n"), std::string::npos) << all;
  const std::string one = plot_script(analysis, "it", {.file = "x.svg", .queues = 1});
  EXPECT_NE(one.find("set multiplot layout 1,2 title 'it: the busiest 1 of 4'\n"),
            std::string::npos)
      << one;
}

// Millions of packets make a plot of thousands of points.
TEST(Plot, ManyPacketsAreThinned) {
  Conversation c;
  for (uint32_t i = 0; i < 10'000; ++i) c.client(Opcode::kSendOnly, talk_psn(i), 4);
  c.ack(talk_psn(9'999), 10'000);
  const Analysis analysis = c.capture.judge();
  const ConnectionResult& r = analysis.connections[0];
  const auto all = psn_series(analysis.table, r.connection, true, analysis.table.first);
  EXPECT_EQ(titled(all, "sent")->points.size(), 4000u);
  EXPECT_EQ(titled(all, "ACK")->points.size(), 1u);
}

}  // namespace
}  // namespace understudy
