// What a process of a real node does: its ranks join a communicator, connect, and carry out the job's
// operations with queue pairs of real RDMA devices.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <memory>
#include <string>
#include <thread>

#include "ctrl/peers/nccl/bootstrap/communicator_hash.h"
#include "ctrl/peers/nccl/bootstrap/unique_id_file.h"
#include "ctrl/schedule/job_schedule.h"
#include "ctrl/schedule/job_work.h"
#include "tests/rigs/nccl_rank/job_world.h"
#include "tests/rigs/nccl_rank/rma_program.h"
#include "tests/rigs/nccl_rank/socket_network.h"
#include "tests/rigs/nccl_rank/verbs/data_phase.h"
#include "tests/rigs/nccl_rank/verbs/job_values.h"
#include "tests/rigs/nccl_rank/verbs/meeting.h"
#include "tests/rigs/nccl_rank/verbs/ring_values.h"
#include "tests/rigs/nccl_rank/verbs/verbs_connection.h"
#include "tests/rigs/nccl_rank/verbs/verbs_rma.h"
#include "tools/rigs/ring_node/base/profiler.h"

namespace understudy::nccl_rank {

struct Options {
  std::string config, id;
  /// PyTorch's groups: the communicator of the n-th [[job]] with child_of has an id of its own, in
  /// the file with this name and .n; empty: they are split off the first one.
  std::string group_ids;
  int rank = -1;  ///< one of the node's; -1: the job's only real node
  bool init_only = false;
  unsigned patience_s = 60;
  unsigned communicators = 1;  ///< one after another
  unsigned abort = 0;          ///< the first one, in the middle of this operation; 0: never
  unsigned stop = 0;           ///< the same: the process stands still there
  bool stop_first = false;     ///< the same, before anything but the unique id
  bool at_once = false;        ///< a communicator of each job, all there at once
  bool one_sided = false;      ///< after the operations
};

/// ncclCommAbort: what was going on is dropped.
struct Aborted {};

class Node {
 public:
  /// `number`: of the communicators of this process.
  Node(const Config& config, const JobConfig& job, const Options& options, unsigned number)
      : config_(config),
        job_(job),
        options_(options),
        number_(number),
        world_(world_of(config, job)),
        first_(job) {
    world_.split_data = job.join->split_data.value_or(job.nccl.minor < 20);
    for (const int r : own_ranks()) {
      Player& player = first_.players.emplace_back();
      if (!options.init_only) {
        player.adapter = std::make_unique<VerbsAdapter>(world_, r);
        std::printf("%s\n", player.adapter->text().c_str());
      }
      ranks_.push_back(std::make_unique<RealRank>(world_, network_, r, player.adapter.get()));
      player.rank = ranks_.back().get();
    }
    for (const JobConfig& child : config.jobs) {
      if (child.child && &config.jobs[child.child->job] == &job) children_.emplace_back(child);
    }
  }

  /// Number of elements that are wrong.
  uint64_t run() {
    join();
    uint64_t wrong = 0;
    try {
      options_.group_ids.empty() ? make_children() : join_groups();
      wrong = options_.init_only ? 0 : operations();
      if (options_.one_sided) one_sided();
    } catch (const Aborted&) {
      std::printf("aborted\n");
    }
    leave();
    return wrong;
  }

  /// The same of several whose communicators are there at once, with as many operations: all carry
  /// out each of these at the same time.
  static uint64_t run_at_once(std::deque<Node>& nodes, unsigned patience_s) {
    for (Node& node : nodes) node.join();
    uint64_t wrong = 0;
    for (size_t o = 0; o < job_operations(nodes.front().job_).size(); ++o) {
      std::vector<std::unique_ptr<DataPhase>> phases;
      std::vector<Running> running;
      for (Node& node : nodes) running.push_back(node.begin(node.first_, o, phases));
      const auto begin = steady_clock::now();
      run_phases(
          phases, std::chrono::seconds(patience_s),
          [&] {
            bool any = false;
            for (Node& node : nodes) any = node.poll() || any;
            return any;
          },
          [&] {
            for (Node& node : nodes) node.beside();
          });
      const double time = seconds_since(begin);
      for (size_t n = 0; n < nodes.size(); ++n)
        wrong += nodes[n].end(nodes[n].first_, running[n], time);
    }
    for (Node& node : nodes) node.leave();
    return wrong;
  }

 private:
  void join() {
    const SocketAddress root = find_root();
    if (options_.stop_first) stand_still("before the communicator");
    const auto begin = steady_clock::now();
    for (Player& p : first_.players) p.rank->spawn(init(p.rank, root, &p.comm));
    finish();
    for (Player& p : first_.players) {
      auto profiler = Profiler::load(communicator_hash(id_, job_.nccl), p.number(),
                                     static_cast<uint32_t>(world_.size()));
      require(profiler.has_value(), profiler ? "" : profiler.error().text);
      p.profiler = std::move(*profiler);
    }
    for (const Player& p : first_.players) {
      std::printf("rank %d of %d, NCCL %s: init in %.3f s, %zu connections\n", p.rank->rank(),
                  world_.size(), world_.release.text().c_str(), seconds_since(begin),
                  p.comm->links.size());
    }
    std::fflush(stdout);
  }

  void leave() {
    for (Player& p : first_.players) p.profiler.reset();
    for (const auto& rank : ranks_) {
      rank->destroy_all();
      rank->close_all();
    }
    while (network_.step(milliseconds(0))) {
    }
  }

  /// A rank in one of its communicators.
  struct Player {
    std::unique_ptr<VerbsAdapter> adapter;
    RealRank* rank = nullptr;
    Communicator* comm = nullptr;
    std::unique_ptr<Profiler> profiler;  ///< of the first communicator; null: none is asked for
    uint32_t number() const { return static_cast<uint32_t>(comm->rank()); }
  };
  /// A communicator, and the job that it carries out.
  struct Stage {
    explicit Stage(const JobConfig& its) : job(its) {}
    const JobConfig& job;
    std::deque<Player> players;  ///< of all ranks of the node
    LocalConnections local;      ///< between them
  };

  /// Of the communicator of a process group, whose ranks meet by an id of its own.
  World& make_group(const std::vector<uint32_t>& members) {
    World& group = groups_.emplace_back(world_);
    group.ranks.clear();
    group.nics.clear();
    for (const uint32_t member : members) {
      group.ranks.push_back(world_.ranks[member]);
      group.nics.push_back(world_.nic(static_cast<int>(member)));
    }
    return group;
  }

  /// As new_group() of PyTorch does for each [[job]] with child_of, in their order.
  void join_groups() {
    for (size_t number = 0; number < children_.size(); ++number) {
      Stage& stage = children_[number];
      const std::vector<uint32_t>& members = stage.job.child->members;
      World& group = make_group(members);
      for (const Player& player : first_.players) {
        const auto at = std::ranges::find(members, player.number());
        if (at == members.end()) continue;
        const auto place = static_cast<int>(at - members.begin());
        Player& own = stage.players.emplace_back();
        own.adapter = std::make_unique<VerbsAdapter>(group, place);
        ranks_.push_back(std::make_unique<RealRank>(group, network_, place, own.adapter.get()));
        own.rank = ranks_.back().get();
      }
      if (stage.players.empty()) continue;
      const SocketAddress root = meet(*stage.players.front().rank, group,
                                      {options_.group_ids + "." + std::to_string(number),
                                       config_.seed, 1 + number_ + number, options_.patience_s});
      for (Player& own : stage.players) own.rank->spawn(init(own.rank, root, &own.comm));
      finish();
    }
  }

  static Task<> split(RealRank* rank, Communicator* parent, int color, int key, IbAdapter* adapter,
                      Communicator** out) {
    *out = co_await rank->split(parent, color, key, adapter);
  }

  /// One ncclCommSplit for each [[job]] with child_of, whatever its own parent is.
  void make_children() {
    for (Stage& first : children_) {
      const auto& groups = first.job.child->split;
      if (groups.empty()) continue;
      std::deque<Communicator*> none;
      for (const Player& player : first_.players) {
        int color = -1, key = 0;
        for (size_t g = 0; g < groups.size(); ++g) {
          const auto at = std::ranges::find(groups[g], player.number());
          if (at == groups[g].end()) continue;
          color = static_cast<int>(g);
          key = static_cast<int>(at - groups[g].begin());
        }
        Player* own = nullptr;
        for (Stage& stage : children_) {
          const bool of = color >= 0 && stage.players.size() < first_.players.size() &&
                          stage.job.line == first.job.line &&
                          stage.job.child->members == groups[static_cast<size_t>(color)];
          if (!of) continue;
          own = &stage.players.emplace_back();
          own->adapter = std::make_unique<VerbsAdapter>(world_, player.rank->rank(), key);
          own->rank = player.rank;
        }
        player.rank->spawn(split(player.rank, player.comm, color, key,
                                 own == nullptr ? nullptr : own->adapter.get(),
                                 own == nullptr ? &none.emplace_back() : &own->comm));
      }
      finish();
    }
  }

  /// Those of the node that is played.
  std::vector<int> own_ranks() const {
    std::vector<int> own;
    for (int r = 0; r < world_.size(); ++r) {
      if (!world_.real(r)) continue;
      if (options_.rank >= 0 && world_.node(r) != world_.node(options_.rank)) continue;
      require(own.empty() || world_.node(own.front()) == world_.node(r),
              "the job has several real nodes: which one is to be played? (--rank)");
      own.push_back(r);
    }
    require(!own.empty(), "there is no such real rank");
    return own;
  }

  static Task<> init(RealRank* rank, SocketAddress root, Communicator** out) {
    *out = co_await rank->init(root);
  }

  void check() {
    for (const auto& rank : ranks_) {
      if (!rank->failure().empty()) throw Refused(rank->failure());
    }
  }

  /// Lets their tasks run to the end, and the root beside them until all have been answered.
  void finish() {
    auto last = steady_clock::now();
    const auto idle = [](const auto& rank) { return rank->idle(); };
    while (!std::ranges::all_of(ranks_, idle)) {
      if (network_.step(milliseconds(200))) last = steady_clock::now();
      check();
      if (seconds_since(last) < options_.patience_s) continue;
      std::string standing;
      for (const auto& rank : ranks_) {
        standing += "; rank " + std::to_string(rank->rank()) + " stands at " + rank->standing();
      }
      throw Refused("nothing comes any more" + standing);
    }
    check();
  }

  bool has_root() const { return ranks_.front()->rank() == 0; }

  SocketAddress find_root() {
    const NcclJoinConfig& join = *job_.join;
    if (join.way != NcclJoinConfig::Way::kCommId) {
      require(join.way == NcclJoinConfig::Way::kFile || !options_.id.empty(),
              "job.join: PyTorch's store is not played: give the unique id by --id");
      const MeetingPlace place{options_.id.empty() ? join.file : options_.id, config_.seed, number_,
                               options_.patience_s};
      const SocketAddress root = meet(*ranks_.front(), world_, place);
      id_ = id_in(place);
      return root;
    }
    const auto id = unique_id_of_comm_id(SocketAddress{join.address, join.port}.text(), job_.nccl);
    require(id.has_value(), id ? "" : id.error().text);
    world_.magic = id->magic;
    id_ = *id;
    if (!has_root()) return id->root;
    ListeningSocket* listener = ranks_.front()->open_root(join.port);
    ranks_.front()->serve(listener);
    return listener->address;
  }

  /// Windows and what goes over them, by the node's first rank.
  void one_sided() {
    const Player& player = first_.players.front();
    VerbsRma adapter(world_, player.rank->rank());
    RmaProxy proxy(*player.rank, *player.comm, adapter);
    // Nothing tells how large windows are before 2.30.7.
    const bool kept = job_.payload == PayloadMode::kExact && job_.nccl.minor >= 30;
    player.rank->spawn(rma_program(*player.rank, proxy, kept));
    const auto begin = steady_clock::now();
    for (auto last = begin; !player.rank->idle();) {
      const bool any = adapter.poll();
      if (network_.step(milliseconds(0)) || any) last = steady_clock::now();
      player.rank->run();
      check();
      require(seconds_since(last) < options_.patience_s,
              "nothing comes any more; it stands at " + player.rank->standing());
    }
    std::printf("one-sided operations: %.3f s, all right\n", seconds_since(begin));
    std::fflush(stdout);
  }

  std::vector<uint32_t> reals(const Stage& stage) const {
    std::vector<uint32_t> all;
    const auto ranks = static_cast<uint32_t>(job_rank_count(config_, stage.job));
    for (uint32_t r = 0; r < ranks; ++r) {
      const uint32_t in_first = stage.job.child ? stage.job.child->members[r] : r;
      if (world_.real(static_cast<int>(in_first))) all.push_back(r);
    }
    return all;
  }

  std::unique_ptr<Values> values_of(const Stage& stage, const Player& player,
                                    const understudy::Communicator& model,
                                    const Operation& operation, const RankSchedule& schedule) {
    const uint32_t rank = player.number();
    if (is_plain_ring(config_, stage.job) && stage.job.reduction == ReduceOp::kSum) {
      return std::make_unique<RingValues>(
          RingValues::Settings{rank, model.ranks(), operation.count, config_.seed + 1, config_.seed,
                               reals(stage)},
          schedule);
    }
    std::vector<uint64_t> seeds(model.ranks(), config_.seed);
    for (const uint32_t real : reals(stage)) seeds[real] = config_.seed + 1;
    return std::make_unique<JobValues>(JobValues::Settings{.rank = rank,
                                                           .communicator = model,
                                                           .operation = operation,
                                                           .reduction = stage.job.reduction,
                                                           .seeds = std::move(seeds)},
                                       schedule);
  }

  /// The first one's, each followed by those of the children.
  uint64_t operations() {
    uint64_t wrong = 0;
    bool any = true;
    for (size_t o = 0; std::exchange(any, false); ++o) {
      if (o < job_operations(job_).size()) {
        wrong += carry_out(first_, o);
        any = true;
      }
      for (Stage& child : children_) {
        if (child.players.empty() || o >= job_operations(child.job).size()) continue;
        wrong += carry_out(child, o);
        any = true;
      }
    }
    return wrong;
  }

  uint64_t carry_out(Stage& stage, size_t number) {
    std::vector<std::unique_ptr<DataPhase>> phases;
    const Running running = begin(stage, number, phases);
    const auto begin = steady_clock::now();
    run_phases(
        phases, std::chrono::seconds(options_.patience_s), [this] { return poll(); },
        [this] { beside(); });
    return end(stage, running, seconds_since(begin));
  }

  /// An operation of all ranks here, while its phases last.
  struct Running {
    JobOperation one;
    Operation operation;
    std::vector<std::shared_ptr<const RankSchedule>> parts;
    std::vector<std::unique_ptr<Values>> values;
  };

  bool poll() {
    bool any = false;
    for (const Player& player : first_.players) any = player.adapter->poll() || any;
    for (const Stage& child : children_) {
      for (const Player& player : child.players) any = player.adapter->poll() || any;
    }
    return any;
  }

  void beside() {
    network_.step(milliseconds(0));
    check();
  }

  static DataConnection& find(Stage& stage, Player& player, const Connection& connection) {
    const Link link = link_of(connection);
    if (!connection.network) return stage.local.end(player.number(), link);
    return player.adapter->connection(link);
  }

  Running begin(Stage& stage, size_t number, std::vector<std::unique_ptr<DataPhase>>& phases) {
    ++operation_;
    const JobConfig& job = stage.job;
    const auto model = job_communicator(config_, job);
    const auto schedules = job_schedules(config_, job);
    require(schedules.has_value(), schedules ? "" : schedules.error().text);
    const JobOperation one = job_operations(job)[number];
    const Operation& operation = (*schedules)[one.size].operation;
    connect(stage, model, operation);
    tell(stage, model, (*schedules)[one.size]);
    Running running{one, operation, {}, {}};
    auto& parts = running.parts;
    auto& values = running.values;
    for (Player& player : stage.players) {
      parts.push_back(rank_part(model, job, *schedules, one.size, player.number()));
      values.push_back(job.payload == PayloadMode::kExact
                           ? values_of(stage, player, model, operation, *parts.back())
                           : nullptr);
      phases.push_back(std::make_unique<DataPhase>(
          *parts.back(),
          [&](const Connection& c) -> DataConnection& { return find(stage, player, c); },
          values.back().get()));
      if (number_ > 0 || (operation_ != options_.abort && operation_ != options_.stop)) continue;
      phases.back()->stop_after(kPrimitivesBefore, [this] { break_off(); });
    }
    return running;
  }

  /// By the plugin, if there is one, before the operation begins.
  void tell(Stage& stage, const understudy::Communicator& model, const JobSchedule& schedule) {
    for (Player& player : stage.players) {
      if (player.profiler == nullptr) continue;
      const auto channels = static_cast<uint32_t>(schedule.cut.parts.size());
      player.profiler->start(model, {&schedule.operation, 1}, {&channels, 1});
    }
  }

  /// Returns the number of elements that are wrong.
  uint64_t end(const Stage& stage, const Running& running, double time) {
    const auto& [one, operation, parts, values] = running;
    const auto& players = stage.players;
    uint64_t wrong = 0;
    for (size_t p = 0; p < players.size(); ++p) {
      const uint64_t now = values[p] ? values[p]->wrong() : 0;
      wrong += now;
      const std::string who =
          (stage.job.child ? stage.job.name + ": " : "") +
          (players.size() > 1 ? "rank " + std::to_string(players[p].number()) + ": " : "");
      std::printf("%s%s %s %s %llu B%s: %.0f us, %s\n", who.c_str(),
                  std::string(name_of(kCollectiveNames, operation.collective)).c_str(),
                  std::string(name_of(kAlgorithmNames, operation.algorithm)).c_str(),
                  std::string(name_of(kProtocolNames, operation.protocol)).c_str(),
                  static_cast<unsigned long long>(operation.bytes()),
                  one.warmup ? " (warm-up)" : "", time * 1e6,
                  values[p] ? (std::to_string(now) + " wrong").c_str() : "not verified");
    }
    std::fflush(stdout);
    return wrong;
  }

  /// In the middle of an operation.
  void break_off() const {
    if (operation_ == options_.abort) throw Aborted();
    stand_still("in operation " + std::to_string(operation_));
  }

  [[noreturn]] static void stand_still(const std::string& where) {
    std::printf("stands %s\n", where.c_str());
    std::fflush(stdout);
    for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
  }

  /// What the operation needs and is not connected yet: sends and receives, for which NCCL
  /// connects all channels that a pair of ranks may use (enqueue.cc, p2pTaskAppend).
  void connect(Stage& stage, const understudy::Communicator& model, Operation operation) {
    if (!is_p2p(operation.collective)) return;
    operation.count = kAllChannels;
    for (uint64_t& bytes : operation.pair_bytes) bytes = bytes == 0 ? 0 : kAllChannels;
    for (Player& player : stage.players) {
      const auto schedule = rank_schedule(model, operation, {}, player.number());
      std::vector<Link> links;
      for (const Connection& connection : schedule->connections()) {
        const Link link = link_of(connection);
        if (connection.network && !player.comm->links.contains(link)) links.push_back(link);
      }
      if (links.empty()) continue;
      player.rank->spawn(player.rank->connect_pairs(player.comm, std::move(links)));
    }
    finish();
  }

  /// Elements between two ranks, more than enough for all of their channels.
  static constexpr uint64_t kAllChannels = uint64_t{1} << 28;
  /// Of each rank, before an operation is broken off.
  static constexpr uint64_t kPrimitivesBefore = 5;

  const Config& config_;
  const JobConfig& job_;
  const Options& options_;
  const unsigned number_;
  unsigned operation_ = 0;  ///< from 1 on
  World world_;
  NcclUniqueId id_;
  SocketNetwork network_;
  std::deque<World> groups_;                     ///< of PyTorch's groups
  std::deque<std::unique_ptr<RealRank>> ranks_;  ///< of the node, then those of its groups
  Stage first_;
  std::deque<Stage> children_;  ///< of the jobs with child_of
};

}  // namespace understudy::nccl_rank
