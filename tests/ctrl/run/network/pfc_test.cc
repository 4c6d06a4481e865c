// PFC frames to the reference node, which obeys them: the same run with and without, and the frames
// in its capture, as we and as tshark read them.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <sstream>

#include "dataplane/wire/pfc.h"
#include "tests/ctrl/run/simulate_rig.h"

namespace understudy {
namespace {

/// Everybody sends to w0, the real node's successor in the ring: the leaf that both hang on pauses
/// the real node. Few packets find room in front of its link.
RingText busy_ring() {
  return {.ranks = 8,
          .sizes = "\"8MiB\"",
          .job = "channels = 4\npayload = \"exact\"\n",
          .more =
              "[limits]\npackets = 192\n"
              "[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 4\nspines = 2\n"
              "uplink = { rate = \"10Gbit/s\", latency = \"2us\" }\n"
              "[queues]\nbuffer = \"400KB\"\n[[queues.class]]\npriorities = [0]\n"
              "pfc = { xoff = \"50KB\", xon = \"40KB\", headroom = \"auto\" }\n[[queues.class]]\n"
              "[[traffic]]\npattern = \"incast\"\nfrom = [\"w3\", \"w4\", \"w5\"]\n"
              "to = [\"w0\"]\nsize = \"1MB\"\n"};
}

Config config_with(const RingText& ring, const std::string& port_keys) {
  std::string text = ring.text();
  const std::string device = "device = \"virtual\"\n";
  text.insert(text.find(device) + device.size(), port_keys);
  return config_of(text);
}

uint64_t sum(const RunReport& report, const std::string& counter) {
  uint64_t total = 0;
  for (const TrafficLinkReport& link : report.traffic->links) {
    for (const auto& [name, count] : link.counters) total += name == counter ? count : 0;
  }
  return total;
}

uint64_t dropped(const RunReport& report) {
  uint64_t total = 0;
  for (const auto& [name, count] : report.ports.at(0).drops) total += count;
  return total;
}

const TrafficLinkReport& uplink(const RunReport& report) {
  for (const TrafficLinkReport& link : report.traffic->links) {
    if (link.name == "gpu -> leaf0") return link;
  }
  throw std::runtime_error("the real node's link carried nothing");
}

uint64_t of(const TrafficLinkReport& link, const std::string& counter) {
  for (const auto& [name, count] : link.counters) {
    if (name == counter) return count;
  }
  throw std::runtime_error(counter);
}

// rules: A8.2
TEST(SimulatePfc, TheReferenceNodeObeysAndNothingIsLost) {
  const ScratchFile capture("capture.pcapng");
  const Config config = config_with(busy_ring(), "pfc = true\n");
  const RunReport report = simulated(config, capture.path());
  const PfcReport& pfc = report.ports.at(0).pfc;
  const TrafficLinkReport& up = uplink(report);
  ASSERT_GT(of(up, "pauses"), 0u);
  EXPECT_EQ(dropped(report), 0u);
  EXPECT_EQ(sum(report, "lost_buffer_full") + sum(report, "lost_headroom_full"), 0u);
  // It stops within the packet that it is sending, so that none waits at our end.
  EXPECT_LE(of(up, "queue_peak_bytes"), 4200u);
  // Each pause and each end is a frame, at the model's time; longer ones are repeated.
  EXPECT_GE(pfc.sent, of(up, "pauses") + of(up, "resumes"));
  EXPECT_EQ(pfc.told, up.paused);
  EXPECT_EQ(pfc.late, Duration());
  EXPECT_EQ(pfc.received, 0u);
  EXPECT_TRUE(report.verdict.faithful);
  EXPECT_EQ(report.jobs.at(0).collectives.at(0).wrong_elements, 0u);
  // The capture has them all and holds.
  expect_holds(judged(capture.path(), &config));
  uint64_t seen = 0;
  for (const TestFrame& f : TestCapture::load(capture.path()).frames) {
    PfcFrame frame;
    if (!parse_pfc(f.bytes, frame)) continue;
    ++seen;
    EXPECT_EQ(f.direction, CaptureDirection::kOut);
    EXPECT_EQ(f.at, f.scheduled);
    EXPECT_EQ(frame.priorities, 0x01);
  }
  EXPECT_EQ(seen, pfc.sent);
}

TEST(SimulatePfc, WithoutItsPacketsWaitAtOurEndAndAreLost) {
  const RunReport report = simulated(config_with(busy_ring(), "pfc = false\n"));
  EXPECT_GT(of(uplink(report), "pauses"), 0u);
  EXPECT_GT(of(uplink(report), "queue_peak_bytes"), 50u * 4158);
  EXPECT_GT(dropped(report), 0u);
  EXPECT_FALSE(report.ports.at(0).pfc.on);
  EXPECT_EQ(report.ports.at(0).pfc.sent, 0u);
}

TEST(SimulatePfc, EqualRunsGiveEqualCaptures) {
  const ScratchFile first("first.pcapng"), second("second.pcapng");
  RingText ring = busy_ring();
  ring.sizes = "\"1MiB\"";
  const Config config = config_with(ring, "pfc = true\n");
  simulated(config, first.path());
  simulated(config, second.path());
  EXPECT_EQ(first.bytes(), second.bytes());
  EXPECT_FALSE(first.bytes().empty());
}

TEST(SimulatePfc, WhereNothingIsPausedTheKeyChangesNothing) {
  const ScratchFile with("with.pcapng"), without("without.pcapng");
  RingText ring = busy_ring();
  ring.sizes = "\"1MiB\"";
  ring.more = ring.more.substr(0, ring.more.find("[[traffic]]"));
  ring.more.replace(ring.more.find("50KB"), 4, "9MB");
  ring.more.replace(ring.more.find("40KB"), 4, "8MB");
  simulated(config_with(ring, "pfc = true\n"), with.path());
  simulated(config_with(ring, ""), without.path());
  EXPECT_EQ(with.bytes(), without.bytes());
}

// rules: A8.2
TEST(SimulatePfc, TsharkReadsTheSame) {
  if (std::system("tshark --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no tshark";
  const ScratchFile capture("capture.pcapng");
  const RunReport report = simulated(config_with(busy_ring(), "pfc = true\n"), capture.path());
  const std::string command =
      "tshark -n -r '" + capture.path() +
      "' -Y macc -T fields -E separator=' ' -e frame.len -e eth.dst -e macc.opcode "
      "-e macc.cbfc.enbv -e macc.cbfc.pause_time.c0 -e macc.cbfc.pause_time.c1 "
      "-e macc.cbfc.enbv.not_zero -e macc.dst_address_invalid -e _ws.malformed 2>/dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string all;
  char chunk[4096];
  for (size_t n; (n = fread(chunk, 1, sizeof chunk, pipe.get())) > 0;) all.append(chunk, n);
  std::istringstream lines(all);
  uint64_t seen = 0, pauses = 0, resumes = 0;
  for (std::string line; std::getline(lines, line); ++seen) {
    line.erase(line.find_last_not_of(' ') + 1);
    pauses += line == "60 01:80:c2:00:00:01 0x0101 0x0001 65535 0" ? 1 : 0;
    resumes += line == "60 01:80:c2:00:00:01 0x0101 0x0001 0 0" ? 1 : 0;
  }
  EXPECT_EQ(seen, report.ports.at(0).pfc.sent);
  EXPECT_EQ(pauses + resumes, seen) << all.substr(0, 400);
  EXPECT_EQ(resumes, of(uplink(report), "resumes"));
}

}  // namespace
}  // namespace understudy
