// Operations that become known during a run, as in `run`: the shard in one thread, control with the
// plans in another, rings between them. Time is virtual, and goes on in small steps, each of which
// waits until control has looked at what the one before has brought. For the thread sanitizer above
// all: how late things are depends on the threads here.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "ctrl/compile/collective.h"
#include "ctrl/compile/shard_config.h"
#include "ctrl/config/read/load.h"
#include "ctrl/jobs/operations/reference_feed.h"
#include "ctrl/jobs/ranks_host.h"
#include "dataplane/virtual_time/simulation.h"
#include "tests/rigs/one_real_node.h"
#include "tests/rigs/own_workload.h"

namespace understudy {
namespace {

std::string text_of(const std::string& collective, const std::string& operations) {
  return OneRealNode().text() + "[[job]]\nname = \"job\"\ncollective = \"" + collective +
         "\"\nranks = [\"gpu\", \"w*\"]\nsizes = [\"64KiB\", \"256KiB\"]\n" +
         "iterations = 3\nentry = \"first_credit\"\ninterval = \"100us\"\noperations = \"" +
         operations + "\"\n";
}

struct Side {
  explicit Side(const ShardConfig& config) : shard(config), control(shard) {}
  Shard shard;
  ShardControl control;
};

/// What was found of a job's operations, all of which were done.
InferenceReport found(const std::string& collective, const std::string& operations) {
  const auto config = load_config_text(text_of(collective, operations), "test.toml");
  EXPECT_TRUE(config);
  const JobConfig& job = config->jobs[0];
  const auto state = begin_job(*config, job, build_collective(*config, job, false).value()).value();
  const CollectiveSetup& setup = *state->setup;
  const OwnWorkload workload(*config, job, *state);
  Side emulator(emulator_shard(*config, {0}, MacAddress{}));
  Side reference(reference_shard(*config, {0}));
  auto emulated = EmulatedRanksBinding::create(*config, job, *state, emulator.control, true);
  EXPECT_TRUE(emulated) << emulated.error().text;
  EmulatedRanksBinding& host = **emulated;
  std::vector<std::unique_ptr<RanksHost>> ranks;
  auto made = RanksHost::create(*config, job, *state, 0, reference.control);
  EXPECT_TRUE(made) << made.error().text;
  ranks.push_back(std::move(*made));
  EXPECT_TRUE(ranks[0]->connect(host, ranks));
  if (FedOperations* feed = host.feed()) {
    FeedDecoder decoder;
    std::vector<FedOperation> told;
    const auto pieces = reference_feed(*config, job, setup);
    EXPECT_TRUE(pieces);
    for (const auto& piece : *pieces) EXPECT_TRUE(decoder.take(piece, told));
    for (const FedOperation& operation : told) feed->fed(Time::zero(), operation);
  }
  host.start();
  ranks[0]->start();
  const auto simulation =
      Simulation::create({{"gpu", &emulator.shard, &reference.shard, 0, 0}}, "");
  EXPECT_TRUE(simulation);

  std::atomic<bool> over = false;
  std::atomic<uint64_t> looked = 0;
  std::thread shard([&] {
    for (Time until; !over.load(std::memory_order_relaxed); until += Duration::us(50)) {
      EXPECT_TRUE((*simulation)->run(until));
      const uint64_t before = looked.load(std::memory_order_relaxed);
      while (looked.load(std::memory_order_relaxed) < before + 2 &&
             !over.load(std::memory_order_relaxed)) {
        std::this_thread::yield();
      }
    }
  });
  const uint32_t all = static_cast<uint32_t>(setup.operations.size());
  while (host.found()->lost.empty() && host.progress().finished.load() < all) {
    host.poll(Time::zero());
    emulator.control.poll();
    looked.fetch_add(1, std::memory_order_relaxed);
    std::this_thread::yield();
  }
  over = true;
  shard.join();
  host.end();
  EXPECT_EQ(host.progress().finished.load(), all);
  EXPECT_EQ(host.progress().violations.load(), 0u);
  EXPECT_FALSE(host.progress().failed.load());
  return *host.found();
}

TEST(ReactiveThreads, FedAndInferred) {
  for (const std::string operations : {"fed", "inferred"}) {
    for (const std::string collective : {"all_reduce", "all_to_all", "send_recv"}) {
      SCOPED_TRACE(operations + " " + collective);
      const InferenceReport report = found(collective, operations);
      EXPECT_EQ(report.lost, "");
      ASSERT_EQ(report.operations.size(), 6u);
      for (const InferredReport& o : report.operations) EXPECT_EQ(o.right, true) << o.operation;
    }
  }
}

}  // namespace
}  // namespace understudy
