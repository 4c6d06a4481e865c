// The data phase of NCCL's net_ib in every release, as the packets between reference ranks and
// emulated ones: credits and immediates as docs/nccl 3.1 and 3.2 have them, written down here once
// more; number, order and sizes of messages as the model says.
#include <array>
#include <map>

#include "tests/ctrl/run/simulate_rig.h"

namespace understudy {
namespace {

/// One entry of the credit FIFO.
struct CreditLayout {
  uint32_t first, last;  ///< releases
  uint32_t bytes, size_bytes, receives, tag, number;
};
constexpr std::array<CreditLayout, 4> kCredits = {{{18, 19, 32, 4, 16, 20, 24},
                                                   {20, 23, 64, 4, 20, 24, 32},
                                                   {24, 29, 64, 8, 32, 36, 40},
                                                   {30, 31, 64, 8, 48, 52, 56}}};

const CreditLayout& credits_of(uint32_t minor) {
  for (const CreditLayout& layout : kCredits) {
    if (minor <= layout.last) return layout;
  }
  return kCredits.back();
}

template <typename T>
T number_at(const TestFrame& frame, uint32_t at) {
  T value = 0;
  std::memcpy(&value, frame.bytes.data() + at, sizeof value);
  return value;
}

uint32_t swapped(uint32_t v) { return v << 24 | (v & 0xff00) << 8 | (v >> 8 & 0xff00) | v >> 24; }

struct Seen {
  uint64_t credits = 0, messages = 0, bytes = 0;
};

/// Judges every RDMA WRITE of a capture.
Seen judge_writes(const std::string& path, uint32_t minor, uint64_t ranks) {
  const CreditLayout& layout = credits_of(minor);
  Seen seen;
  std::map<Qpn, uint64_t> credits, length;
  for (const TestFrame& frame : TestCapture::load(path).frames) {
    FrameView view;
    RoceView roce;
    if (parse_frame(frame.bytes, view, roce) != FrameKind::kRoce) continue;
    const auto opcode = static_cast<Opcode>(roce.opcode);
    if (opcode == Opcode::kWriteOnly) {
      ++seen.credits;
      EXPECT_EQ(roce.dma_length, layout.bytes);
      EXPECT_EQ(roce.payload_bytes, layout.bytes);
      const uint32_t at = roce.payload;
      EXPECT_NE(number_at<uint64_t>(frame, at), 0u);
      EXPECT_GT(number_at<uint32_t>(frame, at + 8), 0u);
      if (layout.size_bytes == 8) {
        EXPECT_EQ(number_at<uint32_t>(frame, at + 12), 0u);
      }
      EXPECT_NE(number_at<uint32_t>(frame, at + 8 + layout.size_bytes), 0u) << "the key";
      EXPECT_EQ(number_at<uint32_t>(frame, at + layout.receives), 1u);
      EXPECT_LT(number_at<uint32_t>(frame, at + layout.tag), ranks);
      EXPECT_EQ(number_at<uint64_t>(frame, at + layout.number), ++credits[roce.dest_qpn]);
    }
    const bool first = opcode == Opcode::kWriteFirst || opcode == Opcode::kWriteOnlyImm;
    const bool last = opcode == Opcode::kWriteLastImm || opcode == Opcode::kWriteOnlyImm;
    if (first) length[roce.dest_qpn] = roce.dma_length;
    if (!last) continue;
    ++seen.messages;
    const auto size = static_cast<uint32_t>(length[roce.dest_qpn]);
    seen.bytes += size;
    EXPECT_EQ(roce.imm, minor >= 29 ? size : swapped(size));
  }
  return seen;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

struct NcclCase {
  std::string collective;
  std::string algorithm = "ring", protocol = "simple";
  uint32_t from = 18;  ///< release
};

void expect_right(const NcclCase& c, uint32_t minor, unsigned ranks, const std::string& size,
                  unsigned channels) {
  SCOPED_TRACE("2." + std::to_string(minor) + " " + c.collective + " " + c.algorithm + " " +
               c.protocol + ", " + std::to_string(ranks) + " ranks");
  RingText ring;
  ring.ranks = ranks;
  ring.sizes = "\"" + size + "\"";
  ring.job = "protocol = \"" + c.protocol + "\"\nchannels = " + std::to_string(channels) +
             "\nnccl = \"2." + std::to_string(minor) + "\"\n";
  std::string text = replaced(ring.text(), "\"all_reduce\"", "\"" + c.collective + "\"");
  text = replaced(text, "\"ring\"\nranks", "\"" + c.algorithm + "\"\nranks");
  const Config config = config_of(text);
  const ScratchFile file("pcapng");
  EXPECT_TRUE(simulated(config, file.path()).verdict.faithful);
  const Seen seen = judge_writes(file.path(), minor, ranks);
  EXPECT_EQ(seen.credits, seen.messages);
  EXPECT_GT(seen.bytes, 0u);
  const Analysis analysis = judged(file.path(), &config);
  expect_holds(analysis);
  EXPECT_EQ(analysis.findings.verdict(Check::kCollective), Verdict::kHolds);
}

const NcclCase kCases[] = {
    {"all_reduce"},
    {"all_reduce", "ring", "ll"},
    {"all_reduce", "ring", "ll128"},
    {"all_reduce", "tree"},
    {"all_gather"},
    {"reduce_scatter"},
    {"broadcast"},
    {"reduce"},
    {"all_gather", "pat", "simple", 23},
    {"reduce_scatter", "pat", "simple", 23},
    {"send_recv", "ring", "simple", 22},
    {"all_to_all", "ring", "simple", 22},
};

TEST(SimulateNccl, EveryRelease) {
  for (uint32_t minor = 18; minor <= 31; ++minor) {
    for (const NcclCase& c : kCases) {
      if (minor >= c.from) expect_right(c, minor, 4, "200000B", 2);
    }
  }
}

TEST(SimulateNccl, ManyRanks) {
  for (unsigned ranks : {2U, 8U, 64U}) {
    for (uint32_t minor : {18U, 23U, 28U, 30U}) {
      expect_right({"all_reduce"}, minor, ranks, "1MB", 2);
      expect_right({"all_reduce", "tree"}, minor, ranks, "1MB", 2);
    }
  }
  expect_right({"all_reduce"}, 28, 1024, "4MB", 1);
  expect_right({"all_reduce", "tree"}, 29, 1024, "1MB", 2);
}

}  // namespace
}  // namespace understudy
