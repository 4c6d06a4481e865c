// ring_node: plays one real rank of a ring all-reduce against emulated neighbours, with NCCL's data
// phase on plain verbs. Exit status: 0 all operations completed and nothing was wrong, 2 bad
// command line, 1 anything else.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "tools/ring_node/options.h"
#include "tools/ring_node/session.h"
#include "tools/ring_node/table.h"

namespace understudy {
namespace {

struct Arguments {
  RingNodeOptions node;
  std::string next;
  std::string previous;
  double timeout_s = 30;
  bool csv = false;
};

void describe(CLI::App& app, Arguments& a) {
  app.description(
      "Plays one real rank of a ring all-reduce against emulated neighbours.\n"
      "Example: ring_node --peer-next 10.9.0.2 --peer-prev 10.9.0.4\n"
      "With NCCL_PROFILER_PLUGIN set it calls that plugin as NCCL does.");
  app.add_option("--peer-next", a.next, "address of the node of the next rank")->required();
  app.add_option("--peer-prev", a.previous, "address of the node of the previous rank")->required();
  app.add_option("--port", a.node.port, "TCP port of the neighbours")->capture_default_str();
  app.add_option("--job", a.node.job, "name of the job (default: the only one of this node)");
  app.add_option("--device", a.node.device, "RDMA device (default: the one with our address)");
  app.add_option("--gid-index", a.node.gid_index,
                 "GID to use (default: the one equal to our address towards the next rank)");
  app.add_option("--perturb", a.node.perturb,
                 "change this input element (modulo the count) in the last iteration of each size "
                 "and check that exactly this element of the result changes");
  app.add_option("--input-seed", a.node.input_seed,
                 "seed of our values (default: random); never sent to the neighbours. Results of a "
                 "job with several real ranks are verified only if all were given the same");
  app.add_option("--timeout", a.timeout_s, "seconds without progress before it gives up")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 86400.0));
  app.add_flag("--csv", a.csv, "print CSV");
}

int give_up(const std::string& why, int status) {
  std::fprintf(stderr, "ring_node: %s\n", why.c_str());
  return status;
}

int run(const Arguments& a) {
  auto session = Session::start(a.node);
  if (!session) return give_up(session.error().text, 1);
  Session& node = **session;
  const RingJobMessage& job = node.job();
  if (!a.csv) {
    std::printf("# job %s: ring all-reduce, rank %u of %u, %u channel%s, payload %s\n# %s\n",
                job.name.c_str(), job.client_rank, job.ranks, job.channels,
                job.channels == 1 ? "" : "s", job.exact ? "exact" : "synthetic",
                node.device().text().c_str());
  }
  std::fputs((a.csv ? csv_head() : table_head()).c_str(), stdout);
  uint64_t wrong = 0;
  uint32_t perturbations_missed = 0;
  double bus_sum = 0;
  for (uint32_t i = 0; i < job.operations.size(); ++i) {
    const auto outcome = node.run_size(i);
    if (!outcome) {
      node.give_up(outcome.error().text);
      return give_up(outcome.error().text, 1);
    }
    wrong += outcome->wrong.value_or(0);
    if (!outcome->first_wrong.empty()) {
      std::fprintf(stderr, "ring_node: %llu bytes: %s\n",
                   static_cast<unsigned long long>(outcome->bytes), outcome->first_wrong.c_str());
    }
    perturbations_missed += outcome->perturbation_seen ? 0 : 1;
    bus_sum += bandwidth(*outcome, job.ranks).bus;
    std::fputs((a.csv ? csv_row(*outcome, job.ranks) : table_row(*outcome, job.ranks)).c_str(),
               stdout);
    std::fflush(stdout);
  }
  if (auto finished = node.finish(); !finished) return give_up(finished.error().text, 1);
  if (!a.csv) {
    std::printf("# Out of bounds values : %llu %s\n", static_cast<unsigned long long>(wrong),
                !node.verifies() ? "(not verified)"
                : wrong == 0     ? "OK"
                                 : "FAILED");
    std::printf("# Avg bus bandwidth    : %.5f\n#\n",
                bus_sum / static_cast<double>(job.operations.size()));
    if (a.node.perturb) {
      const size_t sizes = job.operations.size();
      std::printf(
          "# Changed input element : changed exactly that result element in %zu of %zu "
          "sizes\n",
          sizes - perturbations_missed, sizes);
    }
    // Only now, when nobody can use it any more: to repeat the run with the same values.
    std::printf("# Input seed           : %llu\n",
                static_cast<unsigned long long>(node.input_seed()));
  }
  if (wrong != 0) return give_up(std::to_string(wrong) + " wrong elements", 1);
  if (perturbations_missed != 0) {
    return give_up("a changed input element did not change exactly that result element", 1);
  }
  return 0;
}

}  // namespace
}  // namespace understudy

int main(int argc, char** argv) {
  using namespace understudy;
  Arguments arguments;
  CLI::App app;
  describe(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const auto next = IpAddress::parse(arguments.next);
  const auto previous = IpAddress::parse(arguments.previous);
  if (!next) return give_up("--peer-next: \"" + arguments.next + "\" is no IP address", 2);
  if (!previous) return give_up("--peer-prev: \"" + arguments.previous + "\" is no IP address", 2);
  arguments.node.next = *next;
  arguments.node.previous = *previous;
  arguments.node.progress_limit =
      std::chrono::milliseconds(static_cast<int64_t>(arguments.timeout_s * 1000));
  return run(arguments);
}
