// One-sided operations of NCCL's RMA proxy (docs/nccl 3.16): a reference rank registers windows,
// gathers without kernels, puts, signals and gets; emulated ranks take part, over their own queue
// pairs. Captures are judged.
#include "tests/ctrl/nccl_virtual/rig.h"
#include "tests/rigs/nccl_rank/gin_program.h"
#include "tests/rigs/nccl_rank/rma_program.h"

namespace understudy::nccl_rank {
namespace {

struct Run {
  uint32_t ranks = 4, real = 0;
  bool exact = true;
  uint64_t seed = 1;  ///< of the order of TCP's events
};

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
  options.seed = run.seed;
  // How large windows are is told from 2.30.7 on; without it contents are not kept.
  const bool kept = run.exact && minor >= 30;
  options.one_sided = [kept](RealRank& rank, RmaProxy& proxy, RmaAdapter&) {
    return rma_program(rank, proxy, kept);
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
  EXPECT_EQ(counted.put_bytes, peers * (2 * kRmaSliceBytes + kRmaBlockBytes) + kRmaPutBytes);
  EXPECT_EQ(counted.answers, counted.puts);
  EXPECT_EQ(counted.answer_bytes, counted.put_bytes);
  EXPECT_EQ(counted.unanswered, 0u);
  EXPECT_NE(report.not_judged.find("of one-sided operations were answered at once"),
            std::string::npos)
      << report.not_judged;
  expect_right(job, false);
  const Analysis analysis = judged(capture.path(), &config);
  expect_holds(analysis);
  EXPECT_EQ(analysis.findings.verdict(Check::kCollective), Verdict::kHolds);
}

TEST(NcclOneSided, GathersPutsSignalsAndGets) {
  for (const uint32_t ranks : {2U, 4U, 7U}) {
    play_one_sided({ranks, ranks / 2, true}, 30);
    if (testing::Test::HasFailure()) return;
  }
  play_one_sided({3, 1, true}, 31);
}

/// In 2.29.7 the mesh comes with its ring, and nothing is told of windows.
TEST(NcclOneSided, PutsAndSignalsOf229) {
  for (const uint32_t ranks : {2U, 4U, 7U}) {
    play_one_sided({ranks, ranks / 2, true}, 29);
    if (testing::Test::HasFailure()) return;
  }
  play_one_sided({4, 3, false}, 29);
}

/// Without contents windows read as zeros.
TEST(NcclOneSided, Synthetic) { play_one_sided({4, 3, false}, 30); }

struct GinRun {
  uint32_t ranks = 4, real = 0;
  bool exact = true;
  bool window_first = false;  ///< a window is registered before GIN connects
  bool rma = true;            ///< the RMA proxy is on, too
  size_t contexts = 2;
  uint64_t seed = 1;  ///< as above
};

void play_gin(const GinRun& run, uint32_t minor) {
  SCOPED_TRACE("GIN of 2." + std::to_string(minor) + ", rank " + std::to_string(run.real) + " of " +
               std::to_string(run.ranks) + (run.exact ? ", exact" : "") +
               (run.window_first ? ", a window first" : "") + (run.rma ? "" : ", no RMA proxy"));
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
  options.gin_contexts = run.contexts;
  options.seed = run.seed;
  // How large windows are is told from 2.30.7 on; without it contents are not kept.
  const bool kept = run.exact && minor >= 30;
  options.gin = [run, kept](RealRank& rank, RmaProxy& proxy, GinProxy& gin) {
    proxy.set_disabled(!run.rma);
    return gin_program(rank, proxy, gin, kept, run.window_first);
  };
  VirtualJob job(config, options);
  ASSERT_EQ(job.run(), "");
  const JobReport report = job.report();
  EXPECT_EQ(report.violations, 0u);
  // On each context a barrier, an exchange, and a put.
  const uint64_t peers = run.ranks - 1;
  const OneSidedReport& counted = report.answered.one_sided;
  EXPECT_EQ(counted.windows, 2 * peers);
  EXPECT_EQ(counted.signals, run.contexts * (2 * peers + 1));
  EXPECT_EQ(counted.puts, run.contexts * (peers + 1));
  EXPECT_EQ(counted.put_bytes, run.contexts * (peers * kGinBlockBytes + kGinPutBytes));
  EXPECT_EQ(counted.answers, counted.puts);
  EXPECT_EQ(counted.answer_bytes, counted.put_bytes);
  EXPECT_EQ(counted.unanswered, 0u);
  expect_right(job, false);
  expect_holds(judged(capture.path(), &config));
}

TEST(NcclOneSided, GinPutsSignalsAndGets) {
  for (const uint32_t ranks : {2U, 4U, 7U}) {
    play_gin({.ranks = ranks, .real = ranks / 2}, 30);
    if (testing::Test::HasFailure()) return;
  }
  play_gin({.ranks = 3, .real = 1, .contexts = 3}, 31);
  play_gin({.ranks = 4, .real = 3, .exact = false, .contexts = 1}, 30);
}

/// A window is there before GIN: with the RMA proxy, and without.
TEST(NcclOneSided, GinAfterAWindow) {
  play_gin({.ranks = 4, .real = 1, .window_first = true}, 30);
  play_gin({.ranks = 4, .real = 1, .window_first = true, .rma = false}, 30);
}

TEST(NcclOneSided, GinWithoutTheRmaProxy) { play_gin({.ranks = 4, .real = 2, .rma = false}, 30); }

/// 2.28 makes a ring for each context, at whose listeners its mesh is made, too.
TEST(NcclOneSided, GinOf228) {
  for (const uint32_t ranks : {2U, 5U}) {
    play_gin({.ranks = ranks, .real = ranks / 2, .rma = false, .contexts = 4}, 28);
    if (testing::Test::HasFailure()) return;
  }
  play_gin({.ranks = 3, .real = 0, .exact = false, .window_first = true, .rma = false}, 28);
}

/// 2.29.7 makes a ring and a mesh of each context at the same listeners; memory is told of over the
/// first ring.
TEST(NcclOneSided, GinOf229) {
  for (const uint32_t ranks : {2U, 5U}) {
    play_gin({.ranks = ranks, .real = ranks / 2, .contexts = 4}, 29);
    if (testing::Test::HasFailure()) return;
  }
  play_gin({.ranks = 3, .real = 0, .exact = false, .rma = false, .contexts = 2}, 29);
}

TEST(NcclOneSided, GinOf229AfterAWindow) {
  play_gin({.ranks = 4, .real = 1, .window_first = true, .contexts = 3}, 29);
  play_gin({.ranks = 4, .real = 2, .window_first = true, .rma = false, .contexts = 4}, 29);
}

/// Whatever comes first over TCP, and whatever over the rings.
TEST(NcclOneSided, AnyOrderOf229) {
  for (uint64_t seed = 2; seed <= 7; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto real = static_cast<uint32_t>(seed % 3);
    play_one_sided({.ranks = 5, .real = real, .exact = false, .seed = seed}, 29);
    play_gin({.ranks = 3, .real = real, .window_first = seed % 2 == 0, .contexts = 4, .seed = seed},
             29);
    if (testing::Test::HasFailure()) return;
  }
}

/// A signal behind the last one, or with a key that nobody has, ends its queue pair.
TEST(NcclOneSided, SignalsOutOfBoundsAreRefused) {
  const auto play = [](uint32_t minor, uint64_t behind, uint32_t key) {
    SCOPED_TRACE("2." + std::to_string(minor) + ", " + std::to_string(behind) + " behind, key " +
                 std::to_string(key));
    Case c;
    const ScratchFile id("id");
    VirtualJob::Options options;
    bool through = false;
    options.one_sided = [&through, behind, key](RealRank&, RmaProxy& proxy, RmaAdapter&) {
      struct Signals {
        static Task<> one(RmaProxy* proxy, bool* through, uint64_t behind, uint32_t key) {
          RmaProxy::Window* const window = co_await proxy->register_window(4096);
          co_await proxy->put_signal(window, 64, 100, 1);
          co_await proxy->wait_signal(1);
          co_await proxy->refused_signal(2, behind, key);
          *through = true;
        }
      };
      return Signals::one(&proxy, &through, behind, key);
    };
    VirtualJob job(config_of_case(c, text_of(c, minor, "file = \"" + id.path() + "\"")), options);
    const std::string missing = job.run();
    EXPECT_TRUE(through) << missing;
  };
  for (const uint32_t minor : {29U, 30U}) {
    play(minor, 8, 0);
    play(minor, 0, 0x100);
  }
}

/// What is said of a job whose real rank registers a window, and when the run was given up.
std::vector<std::string> said_of(uint32_t minor, const Case& c, int stops_before,
                                 int contexts = 1) {
  const ScratchFile id("id");
  VirtualJob::Options options;
  options.one_sided = [stops_before, contexts](RealRank&, RmaProxy& proxy, RmaAdapter&) -> Task<> {
    struct Registers {
      static Task<> one(RmaProxy* proxy) { co_await proxy->register_window(4096); }
    };
    proxy.stop_before(stops_before);
    proxy.set_contexts(contexts);
    return Registers::one(&proxy);
  };
  VirtualJob job(config_of_case(c, text_of(c, minor, "file = \"" + id.path() + "\"")), options);
  EXPECT_NE(job.run(), "");
  return job.said();
}

/// In 2.29.7 nothing tells signals of a second context from a window.
TEST(NcclOneSided, SeveralContextsOf229AreRefusedByName) {
  const auto said = said_of(29, {}, -1, 2);
  EXPECT_EQ(times_said(said, "registers memory 3 times with its first window, not 2"), 1u);
}

TEST(NcclOneSided, SeveralRealRanksAreRefusedByName) {
  Case c;
  c.reals = {0, 2};
  const auto said = said_of(30, c, -1);
  EXPECT_EQ(times_said(said, "where one rank of the communicator is real, here 2 are"), 1u);
  const auto earlier = said_of(29, c, -1);
  EXPECT_EQ(times_said(earlier, "where 2 ranks of the communicator are real"), 1u);
}

/// A real rank that hangs is not waited for in silence.
TEST(NcclOneSided, ARankThatHangsInTheSetUpIsNamed) {
  for (const uint32_t minor : {29U, 30U}) {
    const auto said = said_of(minor, {}, 2);
    std::string all;
    for (const std::string& line : said) all += line + "\n";
    EXPECT_EQ(times_said(said, "one-sided connections with rank 0: 2 of 4 barriers"), 1u) << all;
  }
}

}  // namespace
}  // namespace understudy::nccl_rank
