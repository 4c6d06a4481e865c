// Emulated ranks that are told by a feed what a reference node does.
#include <gtest/gtest.h>

#include <functional>

#include "ctrl/peers/feed.h"
#include "tests/ctrl/run/simulate_rig.h"
#include "tests/rigs/compile_and_simulate.h"

namespace understudy {
namespace {

constexpr uint64_t kCommunicator = 0xfeedbeef12345678;

std::string text_of(const std::string& operations, const std::string& more) {
  RingText ring;
  ring.sizes = "\"64KiB\", \"3120000B\"";
  ring.job = "operations = \"" + operations +
             "\"\niterations = 2\nchannels = 2\nstep_cost = \"1us\"\n" + more;
  std::string text = ring.text();
  const std::string scheduled = "entry = \"scheduled\"";
  return text.replace(text.find(scheduled), scheduled.size(), "entry = \"first_credit\"");
}

Collective value_of(const std::string& name) {
  for (const auto& [known, value] : kCollectiveNames) {
    if (known == name) return value;
  }
  ADD_FAILURE() << name;
  return {};
}

std::vector<FedOperation> right_feed() {
  std::vector<FedOperation> feed;
  for (const uint64_t bytes : {65536u, 65536u, 3120000u, 3120000u}) {
    FedOperation fed;
    fed.communicator = kCommunicator;
    fed.sequence = 10 + feed.size();
    fed.operation.count = bytes / 4;
    fed.operation.channels = 2;
    feed.push_back(fed);
  }
  return feed;
}

std::vector<uint8_t> bytes_of(const std::vector<FedOperation>& feed) {
  std::vector<uint8_t> bytes;
  for (const FedOperation& fed : feed) {
    const auto record = record_of(fed);
    bytes.insert(bytes.end(), record.begin(), record.end());
  }
  return bytes;
}

RunReport recorded(const std::vector<uint8_t>& feed, const std::string& more = "") {
  const ScratchFile file("feed");
  std::ofstream(file.path(), std::ios::binary)
      .write(reinterpret_cast<const char*>(feed.data()), static_cast<std::streamsize>(feed.size()));
  SimulateOptions options;
  options.feed_path = file.path();
  auto report = compile_and_simulate(config_of(text_of("fed", more)), options);
  EXPECT_TRUE(report) << (report ? "" : report.error().text);
  return report ? std::move(*report) : RunReport{};
}

void expect_told(const RunReport& report) {
  EXPECT_TRUE(report.verdict.faithful);
  const RunReport told = simulated(config_of(text_of("told", "")));
  ASSERT_EQ(report.jobs[0].collectives.size(), 4u);
  ASSERT_TRUE(report.jobs[0].inferred);
  EXPECT_TRUE(report.jobs[0].inferred->fed);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(report.jobs[0].inferred->operations[i].right, true) << i;
    EXPECT_EQ(report.jobs[0].inferred->operations[i].late_messages, 0u) << i;
    EXPECT_EQ(report.jobs[0].collectives[i].node_reported->ps(),
              told.jobs[0].collectives[i].node_reported->ps())
        << i;
  }
}

TEST(Fed, TimesAreThoseOfARunThatWasTold) { expect_told(simulated(config_of(text_of("fed", "")))); }

/// Whatever the operation is, and where several ranks of a node tell it. Before it is told credits
/// leave ahead on all connections, more than it needs, and share the links with its messages.
TEST(Fed, OperationsOfEveryKind) {
  struct Case {
    std::string collective, algorithm, protocol;
    unsigned gpus = 1;
  };
  for (const Case& c :
       {Case{"all_reduce", "tree", "simple"}, Case{"all_reduce", "tree", "ll128", 2},
        Case{"all_gather", "pat", "simple"}, Case{"reduce_scatter", "ring", "ll"},
        Case{"broadcast", "ring", "simple"}, Case{"reduce", "ring", "simple", 2},
        Case{"all_reduce", "auto", "auto", 2}}) {
    for (const std::string inner : {"times", "packets"}) {
      SCOPED_TRACE(c.collective + " " + c.algorithm + " " + c.protocol + " " + inner);
      std::vector<RunReport> reports;
      for (const std::string operations : {"told", "fed"}) {
        std::string text =
            text_of(operations, "protocol = \"" + c.protocol + "\"\ninner = \"" + inner +
                                    "\"\ngpus = " + std::to_string(c.gpus) + "\n");
        const auto replace = [&](const std::string& from, const std::string& to) {
          for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
            text.replace(at, from.size(), to);
          }
        };
        replace("collective = \"all_reduce\"", "collective = \"" + c.collective + "\"");
        replace("algorithm = \"ring\"", "algorithm = \"" + c.algorithm + "\"");
        replace("[[node]]\n", "[[node]]\ngpus = " + std::to_string(c.gpus) + "\n");
        reports.push_back(simulated(config_of(text)));
      }
      EXPECT_EQ(reports[1].jobs[0].inferred->lost, "");
      ASSERT_EQ(reports[0].jobs[0].collectives.size(), 4u);
      ASSERT_EQ(reports[1].jobs[0].collectives.size(), 4u);
      for (size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(reports[1].jobs[0].inferred->operations[i].right, true) << i;
        EXPECT_EQ(reports[1].jobs[0].inferred->operations[i].late_messages, 0u) << i;
        EXPECT_TRUE(reports[1].jobs[0].collectives[i].faithful) << i;
        const auto told =
            static_cast<double>(reports[0].jobs[0].collectives[i].node_reported->ps());
        const auto fed = static_cast<double>(reports[1].jobs[0].collectives[i].node_reported->ps());
        // Credits that leave ahead come between packets on the links that they share.
        EXPECT_NEAR(fed, told, (inner == "times" ? 0.01 : 0.02) * told) << i;
      }
    }
  }
}

/// Sends and receives, of which the real ranks' own are told only, and collectives of a group.
TEST(Fed, SendsReceivesAndGroups) {
  // Between emulated ranks as many bytes as the real one sends at the same distance.
  const std::string matrix =
      "matrix = [[\"0B\", \"400KB\", \"52B\", \"70000B\"], [\"8B\", \"0B\", \"400KB\", \"52B\"], "
      "[\"1MiB\", \"70000B\", \"0B\", \"400KB\"], [\"128KiB\", \"52B\", \"70000B\", \"0B\"]]\n";
  struct Case {
    std::string collective, more;
    unsigned gpus = 1;
    std::string algorithm = "ring";
  };
  for (const Case& c :
       {Case{"send_recv", ""}, Case{"all_to_all", ""}, Case{"gather", ""}, Case{"scatter", ""},
        Case{"gather", "root = 2\n"}, Case{"scatter", "root = 1\n"}, Case{"send_recv", "", 2},
        Case{"all_to_all", "", 2}, Case{"gather", "root = 1\n", 2}, Case{"all_to_all_v", matrix},
        Case{"all_reduce", "group = true\n"},
        Case{"all_gather", "group = true\nprotocol = \"ll\"\n"},
        Case{"all_reduce", "group = true\nprotocol = \"ll128\"\n", 2, "tree"}}) {
    SCOPED_TRACE(c.collective + " " + c.more + std::to_string(c.gpus));
    std::vector<RunReport> reports;
    for (const std::string operations : {"told", "fed"}) {
      std::string text = text_of(
          operations, c.more + "inner = \"times\"\ngpus = " + std::to_string(c.gpus) + "\n");
      const auto replace = [&](const std::string& from, const std::string& to) {
        for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
          text.replace(at, from.size(), to);
        }
      };
      const bool pairs = is_p2p(value_of(c.collective));
      replace("collective = \"all_reduce\"", "collective = \"" + c.collective + "\"");
      replace("algorithm = \"ring\"\n", pairs ? "" : "algorithm = \"" + c.algorithm + "\"\n");
      if (!c.more.empty() && c.more == matrix) {
        replace("sizes = [\"64KiB\", \"3120000B\"]\n", "");
      }
      replace("[[node]]\n", "[[node]]\ngpus = " + std::to_string(c.gpus) + "\n");
      reports.push_back(simulated(config_of(text)));
    }
    const InferenceReport& fed = *reports[1].jobs[0].inferred;
    EXPECT_EQ(fed.lost, "");
    const auto& told = reports[0].jobs[0].collectives;
    ASSERT_EQ(reports[1].jobs[0].collectives.size(), told.size());
    ASSERT_EQ(fed.operations.size(), told.size());
    for (size_t i = 0; i < told.size(); ++i) {
      const CollectiveReport& collective = reports[1].jobs[0].collectives[i];
      EXPECT_EQ(fed.operations[i].right, true) << i << ": " << fed.operations[i].operation;
      EXPECT_EQ(fed.operations[i].late_messages, 0u) << i;
      EXPECT_TRUE(collective.faithful) << i;
      const Duration expected = *told[i].node_reported;
      // Before the first one eight credits leave ahead on each connection, 146 bytes on the wire:
      // two channels, six connections that send, and as many to the second rank of the node.
      const Duration ahead = i == 0 ? Duration::ns(117) * 96 * c.gpus : Duration();
      EXPECT_LE(*collective.node_reported, expected + expected / 100 + ahead) << i;
      EXPECT_GE(*collective.node_reported, expected - expected / 100) << i;
    }
  }
}

TEST(Fed, AFeedMayBeAheadOfAllOperations) { expect_told(recorded(bytes_of(right_feed()))); }

/// Messages that were due before their operation was told are late by just that.
TEST(Fed, ALateFeedMakesItsOperationsLate) {
  const RunReport told = simulated(config_of(text_of("told", "")));
  const RunReport late = simulated(config_of(text_of("fed", "feed = { delay = \"50us\" }\n")));
  EXPECT_FALSE(late.verdict.faithful);
  EXPECT_EQ(late.jobs[0].inferred->lost, "");
  ASSERT_EQ(late.jobs[0].collectives.size(), 4u);
  // The first credit is known after both links' latency; nothing could have left before.
  const Duration unknown = Duration::us(48);
  for (size_t i = 0; i < 4; ++i) {
    const CollectiveReport& c = late.jobs[0].collectives[i];
    EXPECT_EQ(late.jobs[0].inferred->operations[i].right, true) << i;
    EXPECT_GT(late.jobs[0].inferred->operations[i].late_messages, 0u) << i;
    EXPECT_EQ(late.jobs[0].inferred->operations[i].late, unknown) << i;
    EXPECT_EQ(c.lateness, unknown) << i;
    EXPECT_EQ(c.size_mismatches, 0u);
    // What was held back leaves at once, and shares the link then.
    EXPECT_LE(*c.node_reported,
              *told.jobs[0].collectives[i].node_reported + unknown + Duration::us(1))
        << i;
    EXPECT_GT(*c.node_reported, *told.jobs[0].collectives[i].node_reported) << i;
  }
}

/// Those among emulated ranks, too, and what depends on them is as late.
TEST(Fed, ALateFeedMakesMessagesBetweenEmulatedRanksLate) {
  const std::string inner = "inner = \"packets\"\n";
  const RunReport told = simulated(config_of(text_of("told", inner)));
  const RunReport late =
      simulated(config_of(text_of("fed", inner + "feed = { delay = \"50us\" }\n")));
  EXPECT_FALSE(late.verdict.faithful);
  EXPECT_EQ(late.jobs[0].inferred->lost, "");
  ASSERT_EQ(late.jobs[0].collectives.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const CollectiveReport& c = late.jobs[0].collectives[i];
    // Each of both neighbours, and the hop between the two others, has its first message held back.
    EXPECT_GT(late.jobs[0].inferred->operations[i].late_messages, 2u) << i;
    EXPECT_NEAR(late.jobs[0].inferred->operations[i].late.seconds(), 48e-6, 1e-6) << i;
    EXPECT_GE(c.lateness, late.jobs[0].inferred->operations[i].late) << i;
    EXPECT_GT(*c.node_reported, *told.jobs[0].collectives[i].node_reported) << i;
  }
}

/// Every way of losing track is said, every credit is answered, and the run is not faithful.
TEST(Fed, WhatAFeedCannotBeFollowedInIsNamed) {
  struct Case {
    std::string lost;
    std::function<std::vector<uint8_t>()> feed;
  };
  const auto changed = [](const std::function<void(std::vector<FedOperation>&)>& change) {
    return [change] {
      std::vector<FedOperation> feed = right_feed();
      change(feed);
      return bytes_of(feed);
    };
  };
  const Case cases[] = {
      {"the feed ended after 3 operations", changed([](auto& f) { f.pop_back(); })},
      {"the feed ended after 0 operations", changed([](auto& f) { f.clear(); })},
      {"the feed has a gap: rank 0 tells all_reduce 13 after 11",
       changed([](auto& f) { f.erase(f.begin() + 2); })},
      {"the feed speaks of communicator 0000000000000007, the job's is feedbeef12345678",
       changed([](auto& f) { f[3].communicator = 7; })},
      {"the feed speaks of rank 1, which is not real", changed([](auto& f) { f[0].rank = 1; })},
      {"the feed tells sends of 1 pairs of ranks, 65536 B, which the job cannot do: the job has no "
       "connection from rank 0 to rank 3 on channel 0",
       changed([](auto& f) {
         f[2].operation = {.collective = Collective::kSendRecv, .count = 16384};
         f[2].sends = true;
         f[2].peer = 3;
       })},
      {"the feed tells sends and receives that do not fit together: rank 0 sends to rank 4 of 4",
       changed([](auto& f) {
         f[0].operation = {.collective = Collective::kSendRecv, .count = 16384};
         f[0].sends = true;
         f[0].peer = 4;
       })},
      {"the feed tells that rank 0 receives from rank 3 twice in a group, which is not known to "
       "follow",
       changed([](auto& f) {
         for (size_t i = 0; i < 2; ++i) {
           f[i].operation = {.collective = Collective::kSendRecv, .count = 16384};
           f[i].peer = 3;
           f[i].group = 1;
           f[i].last = i == 1;
         }
       })},
      {"the feed tells that rank 0 has collectives, and sends or receives, in one group, which is "
       "not known to follow",
       changed([](auto& f) {
         f[0].group = f[1].group = 1;
         f[0].last = false;
         f[1].operation.collective = Collective::kSendRecv;
       })},
      {"the feed tells more than 256 collectives of rank 0 in one group", changed([](auto& f) {
         const FedOperation first = f[0];
         f.assign(257, first);
         for (size_t i = 0; i < f.size(); ++i) {
           f[i].sequence += i;
           f[i].group = 1;
           f[i].last = i + 1 == f.size();
         }
       })},
      {"the feed tells more than 264 operations of rank 0 in one group", changed([](auto& f) {
         const FedOperation first = f[0];
         f.assign(265, first);
         for (size_t i = 0; i < f.size(); ++i) {
           f[i].sequence += i;
           f[i].group = 1;
           f[i].last = false;
         }
       })},
      {"the feed has a gap: rank 0 tells group 2 before the end of group 1", changed([](auto& f) {
         f[0].group = 1;
         f[0].last = false;
         f[1].group = 2;
       })},
      {"the feed tells all_reduce tree simple of 65536 B, which the job cannot do: the job has no "
       "connection from rank 2 to rank 0 on channel 0",
       changed([](auto& f) { f[1].operation.algorithm = Algorithm::kTree; })},
      {"operation 0 was told to be all_reduce ring simple of 131072 B, but on channel 0 rank 0 "
       "sent "
       "rank 1 a message of 8192 bytes where 16384 are due",
       changed([](auto& f) { f[0].operation.count *= 2; })},
      {"operation 0 was told to be all_reduce ring ll of 65536 B, but on channel 0 rank 0 gave "
       "rank "
       "3 a credit of 1048576 bytes where 65536 are due",
       changed([](auto& f) { f[0].operation.protocol = Protocol::kLL; })},
      {"feed: record 1: version: 6: 1 to 5",
       [] {
         std::vector<uint8_t> bytes = bytes_of(right_feed());
         bytes[FeedRecord::kBytes + 9] = 6;
         return bytes;
       }},
      {"the feed lacks 2 operations",
       [] {
         std::vector<uint8_t> bytes = bytes_of(right_feed());
         for (size_t i = 1; i < 4; ++i) bytes[i * FeedRecord::kBytes + 44] = 2;
         return bytes;
       }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.lost);
    const RunReport report = recorded(c.feed());
    ASSERT_TRUE(report.jobs[0].inferred);
    EXPECT_EQ(report.jobs[0].inferred->lost, c.lost);
    EXPECT_FALSE(report.verdict.faithful);
    EXPECT_FALSE(report.jobs[0].failed);
    EXPECT_EQ(report.jobs[0].violations, 0u);
  }
}

/// A feed that says nothing is waited for, but not for ever.
TEST(Fed, SilenceHasAnEnd) {
  const RunReport report =
      simulated(config_of(text_of("fed", "feed = { delay = \"20ms\", patience = \"10ms\" }\n")));
  EXPECT_EQ(report.jobs[0].inferred->lost, "the feed has told nothing of operation 0 for 10.00 ms");
  EXPECT_FALSE(report.verdict.faithful);
}

}  // namespace
}  // namespace understudy
