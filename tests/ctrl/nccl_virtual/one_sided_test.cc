// One-sided operations of NCCL's RMA proxy (docs/nccl 3.16): a reference rank registers windows,
// gathers without kernels, puts, signals and gets; emulated ranks take part, over their own queue
// pairs. Captures are judged.
#include <numeric>

#include "dataplane/rc/memory.h"
#include "tests/ctrl/nccl_virtual/rig.h"

namespace understudy::nccl_rank {
namespace {

constexpr uint64_t kWindow = 64 << 10, kSlice = 5000, kOffset = 4096;

/// What a rank's window holds at first, if contents are kept.
uint8_t first_content(int rank, uint64_t place) {
  return PlacePattern::at((static_cast<uint64_t>(rank) << 40) + place);
}

/// A window's slice of the reference rank, which is not as any emulated rank's.
void fill_own(RmaProxy::Window& window, uint64_t from, uint64_t bytes) {
  std::iota(window.own.bytes + from, window.own.bytes + from + bytes, uint8_t{11});
}

struct Run {
  uint32_t ranks = 4, real = 0;
  bool exact = true;
};

/// The program of the reference rank: all that it finds is right, or it refuses.
Task<> program(RealRank& rank, RmaProxy& proxy, Run run) {
  const int n = static_cast<int>(run.ranks), own = rank.rank();
  RmaProxy::Window* const window = co_await proxy.register_window(kWindow);
  RmaProxy::Window* const second = co_await proxy.register_window(2 * kWindow);
  const uint64_t mine = kOffset + static_cast<uint64_t>(own) * kSlice;
  fill_own(*window, mine, kSlice);
  // Twice: the second one finds what the first one brought.
  for (int round = 0; round < 2; ++round) {
    co_await proxy.all_gather(window, kOffset, kSlice);
    for (int r = 0; r < n; ++r) {
      const uint64_t slice = kOffset + static_cast<uint64_t>(r) * kSlice;
      for (uint64_t i = 0; i < kSlice; ++i) {
        const uint8_t right = r == own    ? static_cast<uint8_t>(11 + i)
                              : run.exact ? first_content(r, slice + i)
                                          : uint8_t{0};
        require(window->own.bytes[slice + i] == right,
                "all-gather: byte " + std::to_string(i) + " of " + rank_text(r));
      }
    }
  }
  // An all-to-all brings each peer another block, and from each its own.
  co_await proxy.all_to_all(window, second, 8192, 1000);
  for (int r = 0; r < n; ++r) {
    const uint64_t block = 8192 + static_cast<uint64_t>(r) * 1000;
    if (r == own) continue;
    for (uint64_t i = 0; i < 1000; ++i) {
      require(second->own.bytes[block + i] == (run.exact ? first_content(r, block + i) : 0),
              "all-to-all: byte " + std::to_string(i) + " of " + rank_text(r));
    }
    Bytes there(1000, 1);
    co_await proxy.get(second, 8192 + static_cast<uint64_t>(own) * 1000, 1000, r, there.data());
    const uint8_t* const sent = window->own.bytes + block;
    require(there == (run.exact ? Bytes(sent, sent + 1000) : Bytes(1000)),
            "a get of what an all-to-all brought " + rank_text(r));
  }
  // A put with a signal is answered in the same place; what was put there can be read.
  const int peer = (own + 1) % n;
  fill_own(*second, 100, 3000);
  const Bytes put(second->own.bytes + 100, second->own.bytes + 3100);
  co_await proxy.put_signal(second, 100, 3000, peer);
  co_await proxy.wait_signal(peer);
  Bytes got(3000, 1);
  co_await proxy.get(second, 100, 3000, peer, got.data());
  require(got == (run.exact ? put : Bytes(3000)), "a get of what was put");
  const Bytes answered(second->own.bytes + 100, second->own.bytes + 3100);
  require(answered == (run.exact ? put : Bytes(3000)), "an answer to a put");
  Bytes mine_there(kSlice, 1);
  co_await proxy.get(window, mine, kSlice, peer, mine_there.data());
  const Bytes here(window->own.bytes + mine, window->own.bytes + mine + kSlice);
  require(mine_there == (run.exact ? here : Bytes(kSlice)), "a get of what was gathered");
}

void play_one_sided(const Run& run, uint32_t minor) {
  SCOPED_TRACE("2." + std::to_string(minor) + ", rank " + std::to_string(run.real) + " of " +
               std::to_string(run.ranks) + (run.exact ? ", exact" : ""));
  Case c;
  c.ranks = run.ranks;
  c.real = run.real;
  c.channels = 1;
  c.sizes = "\"10000B\"";
  c.payload = run.exact ? "exact" : "synthetic";
  const ScratchFile id("id");
  const ScratchFile capture("pcapng");
  const Config config = config_of_case(c, text_of(c, minor, "file = \"" + id.path() + "\""));
  VirtualJob::Options options;
  options.capture = capture.path();
  options.one_sided = [run](RealRank& rank, RmaProxy& proxy, RmaAdapter&) {
    return program(rank, proxy, run);
  };
  VirtualJob job(config, options);
  ASSERT_EQ(job.run(), "");
  const JobReport report = job.report();
  EXPECT_EQ(report.violations, 0u);
  // Three collectives, each with a signal before and one with the data, and a put.
  const uint64_t peers = run.ranks - 1;
  const OneSidedReport& counted = report.answered.one_sided;
  EXPECT_EQ(counted.windows, 2 * peers);
  EXPECT_EQ(counted.signals, 6 * peers + 1);
  EXPECT_EQ(counted.puts, 3 * peers + 1);
  EXPECT_EQ(counted.put_bytes, peers * (2 * kSlice + 1000) + 3000);
  EXPECT_EQ(counted.answers, counted.puts);
  EXPECT_EQ(counted.answer_bytes, counted.put_bytes);
  EXPECT_EQ(counted.unanswered, 0u);
  EXPECT_NE(report.not_judged.find("of one-sided operations were answered at once"),
            std::string::npos)
      << report.not_judged;
  expect_right(job, false);
  expect_holds(judged(capture.path(), nullptr));
}

TEST(NcclOneSided, GathersPutsSignalsAndGets) {
  for (const uint32_t ranks : {2U, 4U, 7U}) {
    play_one_sided({ranks, ranks / 2, true}, 30);
    if (testing::Test::HasFailure()) return;
  }
  play_one_sided({3, 1, true}, 31);
}

/// Without contents windows read as zeros.
TEST(NcclOneSided, Synthetic) { play_one_sided({4, 3, false}, 30); }

/// What is said of a job whose real rank registers a window, and when the run was given up.
std::vector<std::string> said_of(uint32_t minor, const Case& c, int stops_before) {
  const ScratchFile id("id");
  VirtualJob::Options options;
  options.one_sided = [stops_before](RealRank&, RmaProxy& proxy, RmaAdapter&) -> Task<> {
    struct Registers {
      static Task<> one(RmaProxy* proxy) { co_await proxy->register_window(kWindow); }
    };
    proxy.stop_before(stops_before);
    return Registers::one(&proxy);
  };
  VirtualJob job(config_of_case(c, text_of(c, minor, "file = \"" + id.path() + "\"")), options);
  EXPECT_NE(job.run(), "");
  return job.said();
}

TEST(NcclOneSided, OtherReleasesAreRefusedByName) {
  const auto said = said_of(29, {}, -1);
  EXPECT_EQ(times_said(said, "emulated ranks take part from NCCL 2.30.7 on, not with 2.29"), 1u);
}

TEST(NcclOneSided, SeveralRealRanksAreRefusedByName) {
  Case c;
  c.reals = {0, 2};
  const auto said = said_of(30, c, -1);
  EXPECT_EQ(times_said(said, "where one rank of the communicator is real, here 2 are"), 1u);
}

/// A real rank that hangs is not waited for in silence.
TEST(NcclOneSided, ARankThatHangsInTheSetUpIsNamed) {
  const auto said = said_of(30, {}, 2);
  std::string all;
  for (const std::string& line : said) all += line + "\n";
  EXPECT_EQ(times_said(said, "one-sided connections with rank 0: 2 of 4 barriers"), 1u) << all;
}

}  // namespace
}  // namespace understudy::nccl_rank
