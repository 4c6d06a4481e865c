// What job_pair_hops() says of a pair of ranks is what job_hops() lists for their connections.
#include <gtest/gtest.h>

#include <string>

#include "ctrl/compile/ways/job_hops.h"
#include "ctrl/config/read/load.h"
#include "ctrl/schedule/job_schedule.h"
#include "tests/extent.h"

namespace understudy {
namespace {

/// Six nodes, each with `nics` NICs and `gpus` GPUs.
std::string text_of(uint32_t gpus, uint32_t nics, const std::string& network,
                    const std::string& job) {
  return "format = 1\n[[node]]\nname = \"w\"\ncount = 6\ngpus = " + std::to_string(gpus) +
         "\nnics = " + std::to_string(nics) +
         "\nlink = { rate = \"100Gbit/s\", latency = \"1us\" }\n" + network +
         "[[job]]\nname = \"j\"\nranks = [\"w*\"]\n" + job;
}

const std::string kLeafSpine =
    "[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 2\nspines = 2\n"
    "uplink = { rate = \"50Gbit/s\", latency = \"2us\" }\n";

std::string matrix_of(uint32_t ranks) {
  std::string text = "matrix = [";
  for (uint32_t a = 0; a < ranks; ++a) {
    text += a == 0 ? "[" : ", [";
    for (uint32_t b = 0; b < ranks; ++b) {
      text += (b == 0 ? "\"" : ", \"") + std::to_string((a * 7 + b * 13) % 11 * 40'000) + "B\"";
    }
    text += "]";
  }
  return text + "]\n";
}

uint64_t compare(const std::string& text) {
  ConfigResult config = load_config_text(text, "f");
  if (!config) {
    ADD_FAILURE() << describe(config.error());
    return 0;
  }
  // NICs of a node and nodes differ.
  for (NodeConfig& node : config->nodes) {
    for (size_t nic = 0; nic < node.nics.size(); ++nic) {
      const uint64_t rates[] = {100, 25, 400};
      node.nics[nic].link_rate =
          Rate::bits_per_second(rates[(node.index / 2 + nic) % 3] * 1'000'000'000);
      node.nics[nic].link_latency = Duration::ns(300 + 100 * (node.index % 5) + 7 * int64_t(nic));
    }
  }
  std::optional<Topology> topology;
  if (text.find("[topology]") != std::string::npos) {
    auto built = build_topology(*config);
    if (!built) {
      ADD_FAILURE() << describe(built.error());
      return 0;
    }
    topology = std::move(*built);
  }
  const Topology* network = topology ? &*topology : nullptr;
  const JobConfig& job = config->jobs[0];
  const Communicator communicator = job_communicator(*config, job);
  const auto schedules = job_schedules(*config, job);
  if (!schedules) {
    ADD_FAILURE() << schedules.error().text;
    return 0;
  }
  uint64_t compared = 0;
  for (const JobSchedule& schedule : *schedules) {
    const auto ranks = rank_schedules(communicator, schedule.operation, schedule.cut);
    const auto listed = job_hops(*config, job, communicator, schedule.operation, ranks, network);
    std::shared_ptr<const PairHops> pairs;
    if (AllToAll::is_one(schedule.operation)) {
      pairs = job_pair_hops(*config, job, AllToAll(communicator, schedule.operation), network);
    } else {
      pairs = job_pair_hops(
          *config, job, SymmetricRanks(communicator, schedule.operation, schedule.cut), network);
    }
    for (uint32_t r = 0; r < ranks.size(); ++r) {
      const std::vector<Connection>& connections = ranks[r]->connections();
      for (size_t c = 0; c < connections.size(); ++c) {
        const Connection& own = connections[c];
        if (own.direction != Direction::kSend || !own.network || own.messages == 0) continue;
        ++compared;
        const Hop hop = pairs->hop(own.from, own.to);
        EXPECT_EQ(hop.rate.bps(), listed[r][c].rate.bps()) << own.from << " to " << own.to;
        EXPECT_EQ(hop.latency.ps(), listed[r][c].latency.ps()) << own.from << " to " << own.to;
        if (testing::Test::HasFailure()) return compared;
      }
    }
  }
  return compared;
}

TEST(PairHops, AllToAllHasTheListedWays) {
  SomeCases some(7);
  for (const std::string& network : {std::string(), kLeafSpine}) {
    for (const auto& [gpus, nics] : {std::pair(1u, 1u), {2u, 2u}, {4u, 2u}, {4u, 1u}, {6u, 3u}}) {
      for (const char* nccl : {"2.22", "2.28", "2.29"}) {
        for (const int channels : {1, 3, 8}) {
          if (!some.take()) continue;
          const std::string with = "gpus = " + std::to_string(gpus) +
                                   "\nchannels = " + std::to_string(channels) + "\nnccl = \"" +
                                   nccl + "\"\n";
          SCOPED_TRACE(network + with + std::to_string(nics) + " NICs");
          const std::string sizes =
              "collective = \"all_to_all\"\nsizes = [\"1440KB\", \"72MiB\"]\n";
          EXPECT_GT(compare(text_of(gpus, nics, network, with + sizes)), 50u);
          const std::string v = "collective = \"all_to_all_v\"\n" + matrix_of(6 * gpus);
          EXPECT_GT(compare(text_of(gpus, nics, network, with + v)), 25u);
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST(PairHops, PatHasTheListedWays) {
  for (const std::string& network : {std::string(), kLeafSpine}) {
    for (const char* collective : {"all_gather", "reduce_scatter"}) {
      for (const int channels : {1, 3, 8}) {
        SCOPED_TRACE(network + collective + std::to_string(channels));
        const std::string job = std::string("collective = \"") + collective +
                                "\"\nalgorithm = \"pat\"\nchannels = " + std::to_string(channels) +
                                "\nsizes = [\"480B\", \"3MiB\"]\n";
        EXPECT_GT(compare(text_of(1, 1, network, job)), 20u);
        if (HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace understudy
