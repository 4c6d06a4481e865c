// A real rank of NCCL on this machine: bootstrap over sockets, net_ib's connections with queue
// pairs of a real RDMA device, and a job's operations in NCCL's data phase. What it plays stands in
// the configuration of `understudy run` beside which it runs.
//     nccl_rank_node CONFIG --id FILE [--rank N]
// Prints what it did, one line each. Status 1 when something was not as NCCL has it.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>

#include "ctrl/config/job_operation.h"
#include "ctrl/config/kernel_nodes.h"
#include "ctrl/config/read/load.h"
#include "ctrl/peers/nccl/bootstrap/unique_id_file.h"
#include "ctrl/schedule/job_schedule.h"
#include "ctrl/schedule/job_work.h"
#include "tests/rigs/nccl_rank/data_phase.h"
#include "tests/rigs/nccl_rank/job_values.h"
#include "tests/rigs/nccl_rank/ring_values.h"
#include "tests/rigs/nccl_rank/socket_network.h"

namespace understudy::nccl_rank {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

struct Options {
  std::string config, id;
  int rank = -1;  ///< of the job; -1: its only real one
  bool init_only = false;
  unsigned patience_s = 60;
};

double seconds_since(steady_clock::time_point begin) {
  return std::chrono::duration<double>(steady_clock::now() - begin).count();
}

World world_of(const Config& config, const JobConfig& job) {
  World world;
  const auto* layout = nccl_decode::layout_of({static_cast<int>(job.nccl.minor), 0});
  require(layout != nullptr, "job.nccl: a release that is not known");
  world.release = layout->release;
  for (const NodeId id : job.ranks) {
    const NodeConfig& node = config.nodes[id];
    const NicConfig& nic = node.nics.at(job.nic);
    const bool program = node.real && !is_reference_beside_kernels(config, id);
    world.ranks.push_back({program, static_cast<int>(world.addresses.size())});
    world.addresses.push_back(nic.v4 ? *nic.v4 : *nic.v6);
  }
  world.channels = static_cast<int>(job.channels);
  world.search_channels = (world.channels + 1) / 2;
  world.queue_pairs = static_cast<int>(job.join->queue_pairs);
  world.split_data = job.join->split_data.value_or(job.nccl.minor < 20);
  return world;
}

class Node {
 public:
  Node(const Config& config, const JobConfig& job, const Options& options)
      : config_(config), job_(job), options_(options), world_(world_of(config, job)) {
    for (int r = 0; r < world_.size(); ++r) {
      if (!world_.real(r) || (options.rank >= 0 && r != options.rank)) continue;
      require(own_ < 0, "the job has several real ranks: which one is to be played? (--rank)");
      own_ = r;
    }
    require(own_ >= 0 && gpus_per_node(config, job) == 1,
            "a real rank with a node of its own is played");
    if (!options.init_only) {
      adapter_ = std::make_unique<VerbsAdapter>(world_.address_of(own_), world_, own_);
      std::printf("%s\n", adapter_->text().c_str());
    }
    rank_ = std::make_unique<RealRank>(world_, network_, own_, adapter_.get());
  }

  /// Number of elements that are wrong.
  uint64_t run() {
    const SocketAddress root = find_root();
    const auto begin = steady_clock::now();
    Communicator* comm = nullptr;
    finish(init(rank_.get(), root, &comm));
    std::printf("rank %d of %d, NCCL %s: init in %.3f s, %zu connections\n", own_, world_.size(),
                world_.release.text().c_str(), seconds_since(begin), comm->links.size());
    std::fflush(stdout);
    const uint64_t wrong = options_.init_only ? 0 : operations(comm);
    rank_->destroy_all();
    rank_->close_all();
    while (network_.step(milliseconds(0))) {
    }
    return wrong;
  }

 private:
  static Task<> init(RealRank* rank, SocketAddress root, Communicator** out) {
    *out = co_await rank->init(root);
  }

  void check() {
    if (!rank_->failure().empty()) throw Refused(rank_->failure());
  }

  /// Lets a task run to its end, and the root beside it until all have been answered.
  void finish(Task<> task) {
    rank_->spawn(std::move(task));
    auto last = steady_clock::now();
    while (!rank_->idle()) {
      if (network_.step(milliseconds(200))) last = steady_clock::now();
      check();
      require(seconds_since(last) < options_.patience_s,
              "nothing comes any more; it stands at " + rank_->standing());
    }
    check();
  }

  NcclUniqueId learn_id(const SocketAddress& own_root) {
    const NcclJoinConfig& join = *job_.join;
    const bool real_root = own_ == 0;
    if (join.way == NcclJoinConfig::Way::kCommId) {
      const auto id =
          unique_id_of_comm_id(SocketAddress{join.address, join.port}.text(), job_.nccl);
      require(id.has_value(), id ? "" : id.error().text);
      return *id;
    }
    require(join.way == NcclJoinConfig::Way::kFile, "job.join: PyTorch's store is not played");
    const std::string path = options_.id.empty() ? join.file : options_.id;
    if (real_root) {
      const NcclUniqueId id = make_unique_id(config_.seed, 1, own_root);
      const auto written = write_unique_id_file(path, id);
      require(written.has_value(), written ? "" : written.error().text);
      return id;
    }
    const auto begin = steady_clock::now();
    for (UniqueIdFile file(path);;) {
      const auto& found =
          file.poll(Time::zero() + Duration::us(static_cast<int64_t>(seconds_since(begin) * 1e6)));
      if (found) {
        require(found->has_value(), *found ? "" : found->error().text);
        return **found;
      }
      require(seconds_since(begin) < options_.patience_s, "no unique id in " + path);
      std::this_thread::sleep_for(milliseconds(5));
    }
  }

  SocketAddress find_root() {
    if (own_ == 0) {
      const bool told = job_.join->way == NcclJoinConfig::Way::kCommId;
      // It serves those whose magic is the id's, from the first one on.
      root_listener_ = rank_->open_root(told ? job_.join->port : uint16_t{0});
      const NcclUniqueId id = learn_id(root_listener_->address);
      world_.magic = id.magic;
      rank_->serve(root_listener_);
      return root_listener_->address;
    }
    const NcclUniqueId id = learn_id({});
    world_.magic = id.magic;
    return id.root;
  }

  std::vector<uint32_t> reals() const {
    std::vector<uint32_t> all;
    for (int r = 0; r < world_.size(); ++r) {
      if (world_.real(r)) all.push_back(static_cast<uint32_t>(r));
    }
    return all;
  }

  std::unique_ptr<Values> values_of(const understudy::Communicator& model,
                                    const Operation& operation, const RankSchedule& schedule) {
    const auto rank = static_cast<uint32_t>(own_);
    if (is_plain_ring(config_, job_) && job_.reduction == ReduceOp::kSum) {
      return std::make_unique<RingValues>(
          RingValues::Settings{rank, model.ranks(), operation.count, config_.seed + 1, config_.seed,
                               reals()},
          schedule);
    }
    std::vector<uint64_t> seeds(model.ranks(), config_.seed);
    for (const uint32_t real : reals()) seeds[real] = config_.seed + 1;
    return std::make_unique<JobValues>(JobValues::Settings{.rank = rank,
                                                           .communicator = model,
                                                           .operation = operation,
                                                           .reduction = job_.reduction,
                                                           .seeds = std::move(seeds)},
                                       schedule);
  }

  uint64_t operations(Communicator* comm) {
    const auto model = job_communicator(config_, job_);
    const auto schedules = job_schedules(config_, job_);
    require(schedules.has_value(), schedules ? "" : schedules.error().text);
    const auto rank = static_cast<uint32_t>(own_);
    uint64_t wrong = 0;
    for (const JobOperation& one : job_operations(job_)) {
      const Operation& operation = (*schedules)[one.size].operation;
      const auto schedule = rank_part(model, job_, *schedules, one.size, rank);
      connect(comm, model, operation);
      const std::unique_ptr<Values> values =
          job_.payload == PayloadMode::kExact ? values_of(model, operation, *schedule) : nullptr;
      DataPhase phase(*schedule, *adapter_, values.get());
      const auto begin = steady_clock::now();
      phase.run(std::chrono::seconds(options_.patience_s), [this] {
        network_.step(milliseconds(0));
        check();
      });
      const double time = seconds_since(begin);
      std::string result = "not verified";
      if (values) {
        const uint64_t now = values->wrong();
        wrong += now;
        result = std::to_string(now) + " wrong";
      }
      std::printf("%s %s %s %llu B%s: %.0f us, %s\n",
                  std::string(name_of(kCollectiveNames, operation.collective)).c_str(),
                  std::string(name_of(kAlgorithmNames, operation.algorithm)).c_str(),
                  std::string(name_of(kProtocolNames, operation.protocol)).c_str(),
                  static_cast<unsigned long long>(operation.bytes()),
                  one.warmup ? " (warm-up)" : "", time * 1e6, result.c_str());
      std::fflush(stdout);
    }
    return wrong;
  }

  /// What the operation needs and is not connected yet: sends and receives, for which NCCL
  /// connects all channels that a pair of ranks may use (enqueue.cc, p2pTaskAppend).
  void connect(Communicator* comm, const understudy::Communicator& model, Operation operation) {
    if (!is_p2p(operation.collective)) return;
    operation.count = kAllChannels;
    for (uint64_t& bytes : operation.pair_bytes) bytes = bytes == 0 ? 0 : kAllChannels;
    const auto schedule = rank_schedule(model, operation, {}, static_cast<uint32_t>(own_));
    std::vector<Link> links;
    for (const Connection& connection : schedule->connections()) {
      const Link link = link_of(connection);
      if (!comm->links.contains(link)) links.push_back(link);
    }
    if (!links.empty()) finish(rank_->connect_pairs(comm, links));
  }

  /// Elements between two ranks, more than enough for all of their channels.
  static constexpr uint64_t kAllChannels = uint64_t{1} << 28;

  const Config& config_;
  const JobConfig& job_;
  const Options& options_;
  World world_;
  int own_ = -1;
  SocketNetwork network_;
  std::unique_ptr<VerbsAdapter> adapter_;
  ListeningSocket* root_listener_ = nullptr;
  std::unique_ptr<RealRank> rank_;
};

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
    if (one.join) job = &one;
  }
  try {
    require(job != nullptr, options.config + ": no job with a key join");
    const uint64_t wrong = Node(*config, *job, options).run();
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
  CLI::App app("Plays the real rank of a job of NCCL's in a configuration of `understudy run`.");
  app.add_option("config", options.config, "The run's configuration")->required();
  app.add_option("--id", options.id, "File of the unique id, where its path here is another");
  app.add_option("--rank", options.rank, "Which rank of the job is played, if several are real");
  app.add_flag("--init-only", options.init_only,
               "Ends after ncclCommInitRank, with made up queue pairs: no RDMA device is needed");
  app.add_option("--patience", options.patience_s, "Seconds without anything new")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return understudy::nccl_rank::run(options);
}
