// ring_node: plays one real rank of a ring all-reduce beside emulated neighbours, or beside others
// of its kind, with NCCL's data phase on plain verbs; or all ranks of a node in any other job. Exit status: 0 all operations completed and
// nothing was wrong, 2 bad command line, 1 anything else.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "collective_model/predict/time_model.h"
#include "ctrl/report/nccl_columns.h"
#include "tools/rigs/ring_node/base/options.h"
#include "tools/rigs/ring_node/ring/session.h"
#include "tools/rigs/ring_node/table.h"
#include "tools/rigs/ring_node/whole_node/node_session.h"

namespace understudy {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 40;

struct Arguments {
  RingNodeOptions node;
  std::string next, previous;
  std::string peer;             ///< instead of them: a whole node
  RingJobMessage ring;          ///< with --rank
  std::vector<uint64_t> sizes;  ///< of it
  uint32_t iterations = 5, warmup = 1, traffic_class = 0;
  uint64_t delay_ns = 0, period_ns = 0;
  double timeout_s = 30;
  bool csv = false;
};

void describe_ring(CLI::App& app, Arguments& a) {
  auto* rank =
      app.add_option("--rank", a.ring.client_rank, "ours, from 0: all other ranks are real");
  auto* ranks =
      app.add_option("--ranks", a.ring.ranks, "of the ring")->check(CLI::Range(2u, 1u << 20));
  auto* sizes = app.add_option("--sizes", a.sizes, "of the all-reduces, in this order: 64KiB,1MiB")
                    ->delimiter(',')
                    ->transform(CLI::AsSizeValue(true));
  rank->needs(ranks, sizes);
  ranks->needs(rank);
  sizes->needs(rank);
  app.add_option("--iterations", a.iterations, "timed, of each size")
      ->needs(rank)
      ->capture_default_str()
      ->check(CLI::Range(1u, 1000000u));
  app.add_option("--warmup", a.warmup, "iterations before them")
      ->needs(rank)
      ->capture_default_str()
      ->check(CLI::Range(0u, 1000000u));
  app.add_option("--channels", a.ring.channels, "of the ring")
      ->needs(rank)
      ->capture_default_str()
      ->check(CLI::Range(1u, 64u));
  app.add_option("--traffic-class", a.traffic_class, "of all packets: DSCP * 4 + ECN")
      ->needs(rank)
      ->capture_default_str()
      ->check(CLI::Range(0u, 255u));
}

void describe(CLI::App& app, Arguments& a) {
  app.description(
      "Plays one real rank of a ring all-reduce beside emulated neighbours, which tell it the "
      "job:\n"
      "  ring_node --peer-next 10.9.0.2 --peer-prev 10.9.0.4\n"
      "Some of the ring's ranks may be others of its kind, neighbours or not. Where all are,\n"
      "each of them is told the job and its rank:\n"
      "  ring_node --peer-next 10.9.0.2 --peer-prev 10.9.0.4 --rank 0 --ranks 4 --sizes "
      "64KiB,1MiB\n"
      "It calls its next rank then and is called by the previous one.\n"
      "In any other job, also of a ring over merged NICs or as NCCL up to 2.22 or from 2.29 on "
      "cuts\n"
      "it, it plays all ranks of its node and calls any one emulated node, which tells it\n"
      "everything:\n"
      "  ring_node --peer 10.9.0.2\n"
      "With NCCL_PROFILER_PLUGIN set it calls that plugin as NCCL does.");
  auto* next = app.add_option("--peer-next", a.next, "address of the node of the next rank");
  auto* previous =
      app.add_option("--peer-prev", a.previous, "address of the node of the previous rank");
  next->needs(previous);
  previous->needs(next);
  auto* peer =
      app.add_option("--peer", a.peer,
                     "address of any emulated node: plays all ranks of this node in any other job")
          ->excludes(next)
          ->excludes(previous);
  app.add_option("--port", a.node.port, "TCP port of the neighbours")->capture_default_str();
  app.add_option("--job", a.node.job, "name of the job (default: the only one of this node)");
  app.add_option("--device", a.node.device, "RDMA device (default: the one with our address)");
  app.add_option("--gid-index", a.node.gid_index,
                 "GID to use (default: the one equal to our address towards the next rank)")
      ->excludes(peer);
  app.add_option("--perturb", a.node.perturb,
                 "change this input element (modulo the count) in the last iteration of each size "
                 "and check that exactly this element of the result changes")
      ->excludes(peer);
  app.add_option("--input-seed", a.node.input_seed,
                 "seed of our values (default: random); never sent to the neighbours. Results of a "
                 "job with several real ranks are verified only if all were given the same");
  const CLI::AsNumberWithUnit time(
      std::map<std::string, uint64_t>{{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}},
      CLI::AsNumberWithUnit::UNIT_REQUIRED);
  auto* delay =
      app.add_option("--delay", a.delay_ns, "enters each operation so much later: 100us, 2ms")
          ->transform(time);
  auto* period =
      app.add_option(
             "--period", a.period_ns,
             "enters operations at multiples of this of the clock: ranks whose clocks agree, as "
             "those of kernels in virtual time, enter together (default: one after the other)")
          ->transform(time);
  app.add_flag(
         "--compute", a.node.compute,
         "does what the job says of its node: sleeps for as long as it computes, is as late as "
         "its skew, and enters at its period")
      ->needs(peer)
      ->excludes(delay)
      ->excludes(period);
  app.add_option("--timeout", a.timeout_s, "seconds without progress before it gives up")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 86400.0));
  app.add_flag("--csv", a.csv, "print CSV");
  describe_ring(*app.add_option_group("ring of real ranks", "the same for all of them but --rank"),
                a);
}

int give_up(const std::string& why, int status) {
  std::fprintf(stderr, "ring_node: %s\n", why.c_str());
  return status;
}

/// What the user says about a ring of real ranks.
Result<RingJobMessage> ring_of(const Arguments& a) {
  RingJobMessage ring = a.ring;
  if (ring.client_rank >= ring.ranks) {
    return fail("--rank: " + std::to_string(ring.client_rank) + " of " +
                std::to_string(ring.ranks) + " ranks, which count from 0");
  }
  ring.name = a.node.job.empty() ? "ring" : a.node.job;
  ring.data_traffic_class = ring.control_traffic_class = static_cast<uint8_t>(a.traffic_class);
  for (const uint64_t bytes : a.sizes) {
    if (bytes == 0 || bytes % sizeof(float) != 0 || bytes > kMostBytes) {
      return fail("--sizes: " + std::to_string(bytes) +
                  " bytes, must be 4 B to 1 TiB in whole fp32");
    }
    ring.operations.push_back({bytes, a.warmup, a.iterations});
  }
  return ring;
}

void print_row(const Arguments& a, const SizeOutcome& outcome, const RowShape& shape) {
  std::fputs((a.csv ? csv_row(outcome, shape) : table_row(outcome, shape)).c_str(), stdout);
  std::fflush(stdout);
}

RowShape rows_of(const NodeJobMessage& job) {
  const Operation& first = job.kinds.front().operations.front();
  return {.type = type_word(understudy::name_of(kDataTypeNames, first.type)),
          .reduction = reduces(first.collective)
                           ? std::string(name_of(kReduceOpNames, job.reduction))
                           : "none",
          .root = root_text(has_root(first.collective), first.root),
          .element_bytes = element_bytes(first.type),
          .bus_factor = bus_factor(first.collective, job.communicator.ranks())};
}

/// By which algorithm and protocol, where all operations have the same.
std::string way_of(const NodeJobMessage& job) {
  const Operation& first = job.kinds.front().operations.front();
  if (is_p2p(first.collective)) return "point to point";
  for (const NodeJobMessage::Kind& kind : job.kinds) {
    for (const Operation& o : kind.operations) {
      if (o.algorithm != first.algorithm || o.protocol != first.protocol) {
        return "algorithm and protocol by size";
      }
    }
  }
  return std::string(name_of(kAlgorithmNames, first.algorithm)) + ", " +
         std::string(name_of(kProtocolNames, first.protocol));
}

void print_head(const Arguments& a, const NodeSession& node) {
  if (!a.csv) {
    const NodeJobMessage& job = node.job();
    const Operation& first = job.kinds.front().operations.front();
    const Communicator& c = job.communicator;
    std::printf("# job %s: %s, %s, ranks %u to %u of %u, %zu links, payload %s\n", job.name.c_str(),
                std::string(name_of(kCollectiveNames, first.collective)).c_str(),
                way_of(job).c_str(), job.node * c.gpus, (job.node + 1) * c.gpus - 1, c.ranks(),
                job.links.size(), job.exact ? "exact" : "synthetic");
    for (const std::string& device : node.devices()) std::printf("# %s\n", device.c_str());
  }
  std::fputs((a.csv ? csv_head() : table_head()).c_str(), stdout);
}

/// `not_verified`: empty if the values were.
void print_wrong(uint64_t wrong, const std::string& not_verified) {
  const char* verdict = wrong == 0 ? "OK" : "FAILED";
  std::printf("# Out of bounds values : %llu %s\n", static_cast<unsigned long long>(wrong),
              not_verified.empty() ? verdict : not_verified.c_str());
}

/// At the end, when nobody can use it any more: to repeat the run with the same values.
void print_seed(uint64_t seed) {
  std::printf("# Input seed           : %llu\n", static_cast<unsigned long long>(seed));
}

int run_node(const Arguments& a) {
  auto session = NodeSession::start(a.node);
  if (!session) return give_up(session.error().text, 1);
  NodeSession& node = **session;
  print_head(a, node);
  const RowShape shape = rows_of(node.job());
  uint64_t wrong = 0;
  const auto ran = node.run([&](const SizeOutcome& outcome) {
    wrong += outcome.wrong.value_or(0);
    print_row(a, outcome, shape);
  });
  if (!ran) {
    node.give_up(ran.error().text);
    return give_up(ran.error().text, 1);
  }
  if (!a.csv) {
    std::printf("# All operations are done, and the length of every message was right\n");
    if (const NodeValues* values = node.values(); values != nullptr) {
      const std::string& why_not = values->why_not_verified();
      print_wrong(wrong, why_not.empty() ? "" : "(not verified: " + why_not + ")");
      print_seed(node.input_seed());
    }
  }
  if (wrong != 0) return give_up(std::to_string(wrong) + " wrong elements", 1);
  return 0;
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
  const RowShape shape = all_reduce_rows(job.ranks);
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
    bus_sum += bandwidth(*outcome, shape).bus;
    print_row(a, *outcome, shape);
  }
  if (auto finished = node.finish(); !finished) return give_up(finished.error().text, 1);
  if (!a.csv) {
    print_wrong(wrong, node.verifies() ? "" : "(not verified)");
    std::printf("# Avg bus bandwidth    : %.5f\n#\n",
                bus_sum / static_cast<double>(job.operations.size()));
    if (a.node.perturb) {
      const size_t sizes = job.operations.size();
      std::printf(
          "# Changed input element : changed exactly that result element in %zu of %zu "
          "sizes\n",
          sizes - perturbations_missed, sizes);
    }
    print_seed(node.input_seed());
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
  arguments.node.period = std::chrono::nanoseconds(arguments.period_ns);
  arguments.node.delay = std::chrono::nanoseconds(arguments.delay_ns);
  arguments.node.progress_limit =
      std::chrono::milliseconds(static_cast<int64_t>(arguments.timeout_s * 1000));
  if (arguments.peer.empty() && arguments.next.empty()) {
    return give_up("whom to call? --peer-next and --peer-prev, or --peer (--help says more)", 2);
  }
  if (!arguments.peer.empty() && !arguments.sizes.empty()) {
    return give_up("--rank goes with --peer-next and --peer-prev: with --peer the job is told", 2);
  }
  if (!arguments.peer.empty()) {
    const auto peer = IpAddress::parse(arguments.peer);
    if (!peer) return give_up("--peer: \"" + arguments.peer + "\" is no IP address", 2);
    arguments.node.next = *peer;
    return run_node(arguments);
  }
  const auto next = IpAddress::parse(arguments.next);
  const auto previous = IpAddress::parse(arguments.previous);
  if (!next) return give_up("--peer-next: \"" + arguments.next + "\" is no IP address", 2);
  if (!previous) return give_up("--peer-prev: \"" + arguments.previous + "\" is no IP address", 2);
  if (!arguments.sizes.empty()) {
    auto ring = ring_of(arguments);
    if (!ring) return give_up(ring.error().text, 2);
    arguments.node.ring = std::move(*ring);
  }
  arguments.node.next = *next;
  arguments.node.previous = *previous;
  return run(arguments);
}
