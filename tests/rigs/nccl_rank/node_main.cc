// The real ranks of NCCL on this machine: bootstrap over sockets, net_ib's connections with queue
// pairs of real RDMA devices, and a job's operations in NCCL's data phase. What it plays stands in
// the configuration of `understudy run` beside which it runs: all ranks of a node.
//     nccl_rank_node CONFIG --id FILE [--rank N]
// Prints what it did, one line each. Status 1 when something was not as NCCL has it.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <deque>
#include <exception>

#include "ctrl/config/read/load.h"
#include "tests/rigs/nccl_rank/verbs/node.h"

namespace understudy::nccl_rank {
namespace {

/// As NCCL's root does (bootstrap.cc, setFilesLimit).
void allow_many_files() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

int run(const Options& options) {
  allow_many_files();
  const auto config = load_config(options.config);
  if (!config) {
    std::fputs(describe(config.error()).c_str(), stderr);
    return 2;
  }
  const JobConfig* job = nullptr;
  for (const JobConfig& one : config->jobs) {
    if (one.join && !one.child) job = &one;
  }
  try {
    require(job != nullptr, options.config + ": no job with a key join");
    uint64_t wrong = 0;
    for (unsigned c = 0; c < options.communicators; ++c) {
      if (!options.at_once) {
        wrong += Node(*config, *job, options, c).run();
        continue;
      }
      std::deque<Node> nodes;
      for (const JobConfig& one : config->jobs) {
        const auto number = static_cast<unsigned>(c * config->jobs.size() + nodes.size());
        if (one.join && !one.child) nodes.emplace_back(*config, one, options, number);
      }
      wrong += Node::run_at_once(nodes, options.patience_s);
    }
    return wrong == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nccl_rank_node: %s\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace understudy::nccl_rank

int main(int argc, char** argv) {
  understudy::nccl_rank::Options options;
  CLI::App app(
      "Plays the ranks of a real node in a job of NCCL's, in a configuration of `understudy run`.");
  app.add_option("config", options.config, "The run's configuration")->required();
  app.add_option("--id", options.id, "File of the unique id, where its path here is another");
  app.add_option(
      "--group-ids", options.group_ids,
      "PyTorch's groups: each job with child_of has a communicator of its own, whose unique "
      "id is in this file with .0, .1 and so on behind it; without it is split off");
  app.add_option("--rank", options.rank,
                 "A rank of the job: its node is played, if several are real");
  app.add_flag("--init-only", options.init_only,
               "Ends after ncclCommInitRank, with made up queue pairs: no RDMA device is needed");
  app.add_option("--patience", options.patience_s, "Seconds without anything new")
      ->capture_default_str();
  app.add_option("--communicators", options.communicators, "So many, one after another")
      ->capture_default_str();
  app.add_option("--abort", options.abort,
                 "Aborts the first communicator in the middle of this operation, from 1 on");
  app.add_option("--stop", options.stop, "Stands still there instead, until it is killed");
  app.add_flag("--one-sided", options.one_sided,
               "Registers windows after the operations, and puts, signals and gets (2.29 on)");
  app.add_flag("--at-once", options.at_once,
               "A communicator of each job, with as many operations: all are there at once");
  app.add_flag("--stop-first", options.stop_first,
               "Stands still once its unique id is known, until it is killed");
  CLI11_PARSE(app, argc, argv);
  return understudy::nccl_rank::run(options);
}
