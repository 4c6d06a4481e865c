// Reference ranks that speak for themselves, as kernels' programs do, in one communicator with ranks
// that are played here: on reference nodes and emulated, in virtual time.
#include <fstream>

#include "ctrl/peers/feed.h"
#include "tests/ctrl/nccl_virtual/rig.h"

namespace understudy::nccl_rank {
namespace {

struct Kind {
  const char* collective;
  const char* algorithm;
  const char* protocol;
  uint32_t from = 18;  ///< release
};
constexpr Kind kKinds[] = {
    {"all_reduce", "ring", "simple"},     {"all_reduce", "tree", "simple"},
    {"all_reduce", "ring", "ll128"},      {"all_gather", "ring", "ll"},
    {"reduce_scatter", "ring", "simple"}, {"all_gather", "pat", "simple", 23},
    {"send_recv", "ring", "simple", 22},  {"all_to_all", "ring", "simple", 22},
};

struct Place {
  std::vector<unsigned> reals, played;
};
/// Neighbours, apart, each kind first and last; the root is a program's rank, one of a reference
/// node or emulated.
const std::vector<Place> kPlaces = {
    {{0, 1}, {1}}, {{0, 3}, {0}}, {{0, 2, 4}, {2}}, {{1, 2, 3}, {1, 3}}, {{0, 1, 4}, {4}}};

Case case_of(const Kind& kind, const Place& place) {
  Case c;
  c.collective = kind.collective;
  c.algorithm = kind.algorithm;
  c.protocol = kind.protocol;
  c.ranks = 5;
  c.channels = 1;  // several share a NIC's link, which the plan does not know to the packet
  c.sizes = "\"72000B\", \"1048320B\"";  // of whole parts
  c.reals = place.reals;
  c.played = place.played;
  return c;
}

/// Who is played here has done all, and was sent what the schedule says.
void expect_played(const Case& c, const VirtualJob& job) {
  const size_t emulated = c.ranks > c.reals.size() ? 1 : 0;
  ASSERT_EQ(job.played().size(), c.played.size() + 1);
  for (size_t i = 1 - emulated; i < job.played().size(); ++i) {
    const CollectiveProgress& own = *job.played()[i];
    EXPECT_TRUE(own.over() && !own.failed);
    EXPECT_EQ(own.violations, 0u);
    for (const CollectiveResult& result : own.results) {
      EXPECT_EQ(result.size_mismatches, 0u);
      EXPECT_GT(result.bytes_received + result.bytes_sent, 0u);
    }
  }
}

Look all_right(const Case& c, uint32_t minor, bool timed) {
  return [c, minor, timed](const VirtualJob& job, const JobReport& report) {
    expect_played(c, job);
    if (timed) as_simulated(c, minor)(job, report);
  };
}

void play_right(Case c, uint32_t minor, VirtualJob::Options options = {}, bool timed = true) {
  SCOPED_TRACE("on reference nodes: " + std::to_string(c.played.size()) + " of " +
               std::to_string(c.reals.size()) + ", the first is " + std::to_string(c.played[0]));
  // On links where they meet, the order of messages of one NIC is not the same each time.
  c.fast = timed && (c.algorithm != "ring" || c.collective != "all_reduce");
  options.seed = minor;
  play(c, minor, options, "", all_right(c, minor, timed));
}

TEST(NcclMixed, EveryKind) {
  uint32_t minor = 18;
  for (const Kind& kind : kKinds) {
    for (const size_t place : {minor, minor + 2}) {
      play_right(case_of(kind, kPlaces[place % kPlaces.size()]), std::max(minor, kind.from));
      if (testing::Test::HasFailure()) return;
      minor = minor == 30 ? 18 : minor + 1;
    }
  }
}

TEST(NcclMixed, NobodyIsEmulated) {
  for (const Place& place : {Place{{0, 1}, {1}}, Place{{0, 1}, {0}}}) {
    Case c = case_of(kKinds[0], place);
    c.ranks = 2;
    play_right(c, 28);
    if (testing::Test::HasFailure()) return;
  }
}

/// What emulated ranks contribute is what ranks on reference nodes do.
TEST(NcclMixed, Exact) {
  uint32_t minor = 18;
  for (const Kind& kind : kKinds) {
    Case c = case_of(kind, kPlaces[minor % kPlaces.size()]);
    c.payload = "exact";
    c.channels = 2;
    play_right(c, std::max(minor, kind.from), {}, false);
    if (testing::Test::HasFailure()) return;
    minor = minor == 30 ? 18 : minor + 1;
  }
}

TEST(NcclMixed, AtFirstUse) {
  uint32_t minor = 23;
  for (const Kind& kind : kKinds) {
    VirtualJob::Options options;
    options.lazy = true;
    Case c = case_of(kind, kPlaces[minor % kPlaces.size()]);
    c.channels = 2;
    play_right(c, minor++, options, false);
    if (testing::Test::HasFailure()) return;
  }
}

/// The second operation is a ring's, whose connections come once the program has done with the first
/// one's tree; ranks on reference nodes have entered it by then.
TEST(NcclMixed, ConnectionsOfLaterOperationsComeLater) {
  unsigned later = 0;
  for (const Place& place : kPlaces) {
    Case c = case_of({"all_reduce", "auto", "auto"}, place);
    c.sizes = "\"64B\", \"1MiB\"";
    c.interval = "0us";
    VirtualJob::Options options;
    options.lazy = true;
    options.real_interval = Duration::ms(20);
    play(c, 28, options, "", [&](const VirtualJob& job, const JobReport&) {
      expect_played(c, job);
      const CollectiveJob& carried = job.setup().job;
      for (uint32_t l = 0; l < carried.links.size(); ++l) {
        const bool with_reference =
            std::ranges::find(place.played, carried.links[l].far) != place.played.end();
        const bool is_later = carried.messages(0, l) == 0 && carried.messages(1, l) > 0;
        later += with_reference && is_later ? 1 : 0;
      }
      for (size_t i = 1; i < job.played().size(); ++i) {
        const std::vector<CollectiveResult>& results = job.played()[i]->results;
        EXPECT_LT(results[1].entry - results[0].end, Duration::us(1));
      }
    });
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(later, 0u);
}

TEST(NcclMixed, SeveralQueuePairs) {
  for (const uint32_t minor : {18U, 22U, 28U, 30U}) {
    for (const char* split : {"false", "true"}) {
      const Case c = case_of(kKinds[minor % 2], kPlaces[minor % kPlaces.size()]);
      const ScratchFile id("id.of.several");
      play(c, minor, {}, "file = \"" + id.path() + "\", queue_pairs = 4, split_data = " + split,
           all_right(c, minor, false));
      if (testing::Test::HasFailure()) return;
    }
  }
}

/// Connections that the job does not use, of a child too: a reference node answers on its own.
TEST(NcclMixed, OtherConnections) {
  for (const uint32_t minor : {22U, 28U}) {
    for (const bool split : {false, true}) {
      VirtualJob::Options options;
      options.use_spares = true;
      options.split = split;
      play_right(case_of(kKinds[0], kPlaces[2]), minor, options, false);
      if (testing::Test::HasFailure()) return;
    }
  }
}

/// The plan is made again before anything is connected.
TEST(NcclMixed, TheSearchFoundOtherChannels) {
  Case c = case_of(kKinds[1], kPlaces[2]);
  c.channels = 4;
  const ScratchFile id("id.of.search");
  VirtualJob::Options options;
  options.search_channels = 4;
  play(c, 28, options, "file = \"" + id.path() + "\"",
       [&](const VirtualJob& job, const JobReport&) {
         expect_played(c, job);
         EXPECT_EQ(times_said(job.said(), "planned again"), 1u);
       });
}

/// What a plugin of one rank tells of two all-reduces of each size.
void write_feed(const std::string& path, uint32_t rank) {
  std::ofstream out(path, std::ios::binary);
  for (uint64_t number = 0; number < 4; ++number) {
    FedOperation fed;
    fed.rank = rank;
    fed.communicator = 1;
    fed.sequence = number;
    fed.operation.count = (number < 2 ? 72000 : 1048320) / 4;
    fed.operation.channels = 1;
    const auto record = record_of(fed);
    out.write(reinterpret_cast<const char*>(record.data()),
              static_cast<std::streamsize>(record.size()));
  }
}

/// By the program's plugin; a reference node has none.
TEST(NcclMixed, Fed) {
  for (const Place& place : kPlaces) {
    const ScratchFile feed("feed");
    const auto program = std::ranges::find_if(place.reals, [&](unsigned rank) {
      return std::ranges::find(place.played, rank) == place.played.end();
    });
    write_feed(feed.path(), *program);
    Case c = case_of(kKinds[0], place);
    c.more = "operations = \"fed\"\niterations = 2\n";
    VirtualJob::Options options;
    options.feed = feed.path();
    play_right(c, 28, options, false);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(NcclMixed, Inferred) {
  uint32_t minor = 25;
  for (const Place& place : kPlaces) {
    Case c = case_of(kKinds[0], place);
    c.more = "operations = \"inferred\"\niterations = 4\n";
    play_right(c, minor++, {}, false);
    if (testing::Test::HasFailure()) return;
  }
}

/// Acknowledgements to reference nodes come after the word by TCP that the program has left, too.
TEST(NcclMixed, ProgramsLeaveWhenTheyHaveReceivedAll) {
  for (const Place& place : kPlaces) {
    Case c = case_of(kKinds[0], place);
    c.latency = "2ms";
    c.more = "iterations = 2\n";
    VirtualJob::Options options;
    options.at_once = true;
    play_right(c, 28, options, false);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace understudy::nccl_rank
