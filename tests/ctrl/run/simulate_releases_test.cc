// What stands on the wire between emulated ranks and a reference node in every release of NCCL that
// is known: credits, immediates, LL's and LL128's flags.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include "dataplane/wire/parse.h"
#include "dataplane/wire/pcapng_reader.h"
#include "tests/ctrl/run/simulate_rig.h"

namespace understudy {
namespace {

struct Seen {
  uint64_t credits = 0, odd_credits = 0, immediates = 0, wrong_immediates = 0;
  std::set<std::pair<CaptureDirection, Qpn>> queue_pairs;  ///< that messages went to
  std::map<Qpn, std::vector<uint8_t>> message;             ///< to the real node, by queue pair
  std::vector<std::vector<uint8_t>> messages;              ///< whole ones
};

Seen look(const std::string& capture, uint32_t minor) {
  Seen seen;
  const std::vector<uint8_t> file(capture.begin(), capture.end());
  PcapngReader reader(file);
  std::map<Qpn, uint32_t> length;
  for (;;) {
    const auto record = reader.next();
    EXPECT_TRUE(record) << record.error().text;
    if (!record || std::holds_alternative<std::monostate>(*record)) break;
    const auto* packet = std::get_if<PcapngPacketRecord>(&*record);
    if (packet == nullptr) continue;
    FrameView view;
    RoceView roce;
    if (parse_frame(packet->bytes, view, roce) != FrameKind::kRoce) continue;
    const OpcodeInfo& info = roce.info();
    const auto opcode = static_cast<Opcode>(roce.opcode);
    if (opcode == Opcode::kWriteOnly && roce.dma_length <= 64) {
      ++seen.credits;
      seen.odd_credits += roce.dma_length != (minor < 20 ? 32u : 64u) ? 1 : 0;
      continue;
    }
    if (info.kind != OpKind::kWrite) continue;
    if (info.start) length[roce.dest_qpn] = 0;
    length[roce.dest_qpn] += roce.payload_bytes;
    std::vector<uint8_t>& message = seen.message[roce.dest_qpn];
    if (info.start) message.clear();
    const auto* payload = packet->bytes.data() + roce.payload;
    message.insert(message.end(), payload, payload + roce.payload_bytes);
    if (!info.imm) continue;
    ++seen.immediates;
    seen.queue_pairs.insert({packet->direction, roce.dest_qpn});
    const uint32_t size = minor < 29 ? __builtin_bswap32(roce.imm) : roce.imm;
    seen.wrong_immediates += size != length[roce.dest_qpn] ? 1 : 0;
    if (packet->direction == CaptureDirection::kOut) seen.messages.push_back(message);
  }
  return seen;
}

TEST(SimulateReleases, SpeakAsTheyDo) {
  for (const uint32_t minor : {18u, 19u, 20u, 24u, 28u, 29u, 30u}) {
    for (const std::string protocol : {"simple", "ll", "ll128"}) {
      SCOPED_TRACE(protocol + " 2." + std::to_string(minor));
      RingText ring;
      ring.sizes = "\"64KiB\", \"100KiB\"";
      ring.job = "iterations = 2\nchannels = 1\nprotocol = \"" + protocol + "\"\nnccl = \"2." +
                 std::to_string(minor) + "\"\n";
      const Config config = config_of(ring.text());
      const ScratchFile file("capture.pcapng");
      const RunReport report = simulated(config, file.path());
      ASSERT_EQ(report.jobs.size(), 1u);
      EXPECT_EQ(report.jobs[0].violations, 0u);
      for (const CollectiveReport& operation : report.jobs[0].collectives) {
        EXPECT_EQ(operation.size_mismatches, 0u);
      }
      const Analysis analysis = judged(file.path(), &config);
      EXPECT_EQ(analysis.findings.verdict(Check::kCollective), Verdict::kHolds);
      const Seen seen = look(file.bytes(), minor);
      EXPECT_GT(seen.credits, 0u);
      EXPECT_EQ(seen.credits, seen.immediates);
      EXPECT_EQ(seen.odd_credits, 0u);
      EXPECT_EQ(seen.wrong_immediates, 0u);
      uint64_t step = 0;
      for (const std::vector<uint8_t>& message : seen.messages) {
        ++step;  // one connection, one protocol, a step a message
        if (protocol == "ll") {
          for (size_t at = 0; at < message.size(); at += 16) {
            uint32_t line[4];
            std::memcpy(line, message.data() + at, sizeof line);
            ASSERT_EQ(line[1], step);
            ASSERT_EQ(line[3], step);
          }
        } else if (protocol == "ll128") {
          for (size_t at = 120; at < message.size(); at += 128) {
            uint64_t flag;
            std::memcpy(&flag, message.data() + at, sizeof flag);
            ASSERT_EQ(flag, step);
          }
        }
      }
      EXPECT_GT(step, 0u);
    }
  }
}

/// The reference node's own credits lie where NCCL's do, so that nothing is taken for lost.
TEST(SimulateReleases, MixedProtocolsKeepTheirSteps) {
  RingText ring;
  ring.sizes = "\"4KiB\", \"64KiB\", \"1MiB\", \"300KiB\", \"8MiB\"";
  ring.job = "iterations = 3\n";
  const std::string named = "algorithm = \"ring\"\n";
  std::string text = ring.text();
  text.replace(text.find(named), named.size(), "algorithm = \"auto\"\nprotocol = \"auto\"\n");
  const RunReport report = simulated(config_of(text));
  ASSERT_EQ(report.jobs.size(), 1u);
  EXPECT_EQ(report.jobs[0].protocol, "auto") << "sizes differ in it";
  EXPECT_EQ(report.jobs[0].violations, 0u);
}

TEST(SimulateReleases, SeveralQueuePairsOfAConnection) {
  for (const char* split : {"0", "1"}) {
    RingText ring;
    ring.job = "iterations = 4\nprotocol = \"ll128\"\n";
    ring.more = std::string(
                    "[nccl]\nenvironment = { NCCL_IB_QPS_PER_CONNECTION = \"4\", "
                    "NCCL_IB_SPLIT_DATA_ON_QPS = \"") +
                split + "\" }\n";
    const Config config = config_of(ring.text());
    const ScratchFile file("capture.pcapng");
    const RunReport report = simulated(config, file.path());
    ASSERT_EQ(report.jobs.size(), 1u);
    EXPECT_EQ(report.jobs[0].violations, 0u);
    const Analysis analysis = judged(file.path(), &config);
    EXPECT_EQ(analysis.findings.verdict(Check::kOrder), Verdict::kHolds);
    // Both directions of the two channels that NCCL has here.
    EXPECT_EQ(look(file.bytes(), 28).queue_pairs.size(), 2u * 2 * 4);
  }
}

}  // namespace
}  // namespace understudy
