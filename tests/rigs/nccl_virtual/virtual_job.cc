#include "tests/rigs/nccl_virtual/virtual_job.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

#include "collective_model/nccl/p2p_rounds.h"
#include "ctrl/compile/shard_config.h"
#include "ctrl/config/kernel_nodes.h"
#include "ctrl/config/merged_nics.h"
#include "ctrl/jobs/job_state.h"
#include "ctrl/peers/nccl/bootstrap/unique_id_file.h"
#include "ctrl/schedule/job_schedule.h"
#include "dataplane/base/try.h"

namespace understudy::nccl_rank {
namespace {

/// What an event of TCP takes, and control's turn where there is none.
constexpr Duration kStep = Duration::us(1), kTurn = Duration::us(20);
/// The reference ranks' programs end long before, or never.
constexpr Time kPatience = Time::zero() + Duration::s(20);

World world_of(const Config& config, const JobConfig& job, const VirtualJob::Options& options) {
  World world;
  const auto minor = static_cast<int>(job.nccl.minor);
  world.release = nccl_decode::layout_of({minor, 0})->release;
  for (const NodeId id : job.ranks) {
    const NodeConfig& node = config.nodes[id];
    world.ranks.push_back({node.real && !is_reference_beside_kernels(config, id), world.size()});
    world.addresses.push_back(roce_address(node.nics[job.nic]));
  }
  const auto devices = [&](size_t rank) {
    return static_cast<int>(merged_nics(job, config.nodes[job.ranks[rank]], job.nic));
  };
  for (size_t rank = 0; rank < job.ranks.size(); ++rank) {
    (world.ranks[rank].real ? world.real_devices : world.emulated_devices) = devices(rank);
    auto& gids = world.device_addresses.emplace_back();
    for (int d = 0; d < devices(rank); ++d) {
      gids.push_back(
          roce_address(config.nodes[job.ranks[rank]].nics[job.nic + static_cast<unsigned>(d)]));
    }
  }
  world.channels = static_cast<int>(job.channels);
  world.search_channels = options.search_channels != 0 ? static_cast<int>(options.search_channels)
                                                       : (world.channels + 1) / 2;
  world.lazy = options.lazy;
  world.queue_pairs = static_cast<int>(job.join->queue_pairs);
  world.traffic_class = job.sender.traffic_class;
  // With NCCL_COMM_ID all know it (docs/nccl 1.1).
  if (job.join->way == NcclJoinConfig::Way::kCommId) world.magic = 0x0280028002800280;
  return world;
}

Config config_of_real(const Config& config, const VirtualJob::Options& options) {
  Config real = config;
  for (NodeConfig& node : real.nodes) {
    node.real = node.real && !is_reference_beside_kernels(config, node.index);
  }
  if (options.real_mtu != 0) real.fabric.mtu = options.real_mtu;
  if (options.real_interval != Duration()) real.jobs[0].interval = options.real_interval;
  return real;
}

/// One shard has all, in the order of NICs.
PortList all_ports(const Config& config) {
  PortList all(config.ports.size());
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

PortList ports_of(const Config& config, NodeId node) {
  PortList all;
  for (size_t port = 0; port < config.ports.size(); ++port) {
    if (config.ports[port].node == node) all.push_back(port);
  }
  return all;
}

Result<std::unique_ptr<JobState>> begun(const Config& config, const JobConfig& job,
                                        bool scheduled) {
  return begin_job(config, job, TRY(build_collective(config, job, scheduled)));
}

Result<std::unique_ptr<JobState>> reference_state(const Config& config, uint32_t search_channels) {
  JobConfig job = config.jobs.front();
  job.search_channels = search_channels;
  return begun(config, job, job.entry == EntryMode::kScheduled);
}

}  // namespace

/// TCP, control's turns of the emulated side, and the reference ranks' processes.
class VirtualJob::Control final : public Participant {
 public:
  explicit Control(VirtualJob& job) : job_(job) {}
  const std::string& name() const override { return name_; }
  Time next_event() const override { return job_.over() ? Time::never() : next_; }
  void advance_to(Time t) override {
    now_ = t;
    const bool busy = job_.network_.step();
    job_.peers_->poll();
    job_.jobs_->poll(t);
    for (const std::string& line : job_.runner_->poll(t)) job_.said_.push_back(line);
    job_.emulator_.control.poll();
    for (const auto& played : job_.played_) played->side.control.poll();
    for (const auto& real : job_.reals_) {
      real->side.control.poll();
      real->rank->run();
    }
    next_ = t + (busy ? kStep : kTurn);
  }
  Time now() const { return now_; }

 private:
  const std::string name_ = "control";
  VirtualJob& job_;
  Time now_, next_;
};

VirtualJob::VirtualJob(const Config& config, const Options& options)
    : config_(config),
      real_config_(config_of_real(config, options)),
      job_(config.jobs.front()),
      options_(options),
      world_(world_of(config, job_, options)),
      state_(reference_state(real_config_, options.search_channels).value()),
      workload_(real_config_, real_config_.jobs.front(), *state_),
      emulator_(emulator_shard(config, all_ports(config), MacAddress{})),
      network_(options.seed, options.whole) {
  const std::vector<ShardControl*> controls(config.ports.size(), &emulator_.control);
  std::vector<std::unique_ptr<JobState>> states;
  for (const JobConfig& job : config.jobs) {
    states.push_back(begun(config, job, false).value());
  }
  played_workload_.emplace(config, config.jobs.front(), *states.front());
  runner_ = JobRunner::create(config, controls, std::move(states), add_played()).value();
  add_reals();
  join_wires();
  control_ = std::make_unique<Control>(*this);
  std::vector<IpAddress> emulated;
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (!world_.real(rank)) emulated.push_back(world_.address_of(rank));
  }
  MemoryPeers::Callbacks callbacks;
  callbacks.endpoint = [this](NodeId, ConnectionId id, const EndpointRequest& request) {
    if (const auto ready = jobs_->endpoint(id, request); ready) {
      peers_->endpoint_ready(id, *ready);
    } else {
      peers_->endpoint_refused(id, ready.error().text);
    }
  };
  callbacks.ended = [this](const EndedConnection& ended) { jobs_->on_ended(ended); };
  peers_ = std::make_unique<MemoryPeers>(
      network_, std::move(emulated), [this] { return control_->now(); }, std::move(callbacks));
  jobs_ = std::make_unique<NcclJobs>(config, *runner_, *peers_,
                                     [this](const std::string& line) { said_.push_back(line); });
  if (!options.capture.empty()) {
    CaptureOptions to;
    to.path = options.capture;
    to.application = "test";
    for (const PortConfig& port : config.ports) {
      to.interfaces.push_back(config.nodes[port.node].name);
    }
    capture_ = open_direct_capture(to).value();
    for (size_t i = 0; i < wires_.size(); ++i) wires_[i]->a().set_capture(&capture_->tap(i));
  }
  loop_.add(*emulator_turns_);
  for (const auto& played : played_) loop_.add(*played->turns);
  for (const auto& real : reals_) loop_.add(*real->turns);
  loop_.add(*control_);
}

/// Their controls by port, null for others.
std::vector<ShardControl*> VirtualJob::add_played() {
  std::vector<ShardControl*> controls(config_.ports.size(), nullptr);
  for (const NodeId node : job_.ranks) {
    if (!is_reference_beside_kernels(config_, node)) continue;
    Wired& made = *played_.emplace_back(std::make_unique<Wired>(config_, ports_of(config_, node)));
    for (const size_t port : made.ports) controls[port] = &made.side.control;
  }
  return controls;
}

void VirtualJob::add_reals() {
  for (uint32_t real = 0; real < setup().job.real.size(); ++real) {
    const uint32_t rank = setup().job.real[real];
    const PortList ports = ports_of(config_, job_.ranks[rank]);
    Real& made = *reals_.emplace_back(std::make_unique<Real>(config_, ports));
    made.node =
        std::make_unique<ReferenceNode>(real_config_, job_, *state_, real, made.side.control);
    made.rank =
        std::make_unique<RealRank>(world_, network_, static_cast<int>(rank), made.node.get());
  }
}

void VirtualJob::join_wires() {
  std::vector<VirtualPort*> emulated;
  for (size_t i = 0; i < config_.ports.size(); ++i) {
    const std::string& name = config_.nodes[config_.ports[i].node].name;
    wires_.push_back(std::make_unique<VirtualLink>(name, name + " (reference rank)", 9000));
    emulated.push_back(&wires_.back()->a());
  }
  emulator_turns_ = std::make_unique<ShardParticipant>(emulated, emulator_.shard);
  for (const auto& played : played_) join_wires(*played);
  for (const auto& real : reals_) join_wires(*real);
}

void VirtualJob::join_wires(Wired& real) {
  std::vector<VirtualPort*> own;
  for (const size_t port : real.ports) own.push_back(&wires_[port]->b());
  real.turns = std::make_unique<ShardParticipant>(own, real.side.shard);
}

VirtualJob::~VirtualJob() = default;

/// As the job's program learns of it; where the reference rank is the first it makes it.
SocketAddress VirtualJob::root(RealRank& rank) {
  const NcclJoinConfig& join = *job_.join;
  const bool by_file = join.way == NcclJoinConfig::Way::kFile;
  if (rank.rank() == 0) {
    ListeningSocket* listener = rank.open_root(by_file ? 0 : join.port);
    rank.serve(listener);
    if (by_file && !write_unique_id_file(join.file, {world_.magic, listener->address})) return {};
    return listener->address;
  }
  if (!by_file) return {join.address, join.port};
  std::ifstream in(join.file, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(in), {}};
  const auto id = parse_unique_id_file(content);
  if (!id) return {};
  world_.magic = id->magic;
  return id->root;
}

/// Those that NCCL connects when a rank first sends to others and receives from them: all channels
/// that a pair may have.
std::vector<Link> VirtualJob::pairs(const RealRank& rank) const {
  std::set<Link> all;
  const auto own = static_cast<uint32_t>(rank.rank());
  for (const CollectiveConnection& link : setup().job.links) {
    if (link.index == 0 || link.real != own) continue;
    for (const uint32_t channel :
         p2p_channels_between(setup().communicator, link.real_sends ? own : link.far,
                              link.real_sends ? link.far : own)) {
      all.insert({static_cast<int>(channel), static_cast<int>(link.far), 1, link.real_sends});
    }
  }
  return {all.begin(), all.end()};
}

Task<> VirtualJob::connect_for(RealRank& rank, nccl_rank::Communicator* comm, size_t operation) {
  const auto schedules = job_schedules(config_, job_);
  const Operation& next = schedules->at(setup().operations[operation].size).operation;
  if (is_p2p(next.collective)) {
    co_await rank.connect_pairs(comm, pairs(rank));
  } else if (next.algorithm == Algorithm::kRing) {
    co_await rank.connect_ring(comm);
  } else if (next.algorithm == Algorithm::kTree) {
    co_await rank.connect_tree(comm);
  } else {
    co_await rank.connect_pat(comm);
  }
}

Task<> VirtualJob::together(Real* real, const char* where) {
  real->rank->stand(where);
  const size_t stage = ++real->stage;
  co_await real->rank->until([this, stage] {
    return std::ranges::all_of(reals_, [&](const auto& other) { return other->stage >= stage; });
  });
}

/// What a real node's program does.
Task<> VirtualJob::program(Real* real, SocketAddress root) {
  RealRank& rank = *real->rank;
  ReferenceNode& node = *real->node;
  nccl_rank::Communicator* comm = co_await rank.init(root);
  if (options_.split) co_await rank.split(comm, 0, comm->rank());
  for (size_t operation = 0; operation < setup().operations.size(); ++operation) {
    if (!node.can_carry(operation)) {
      require(node.progress().results[operation].entry.is_never(),
              "operation " + std::to_string(operation) + " has begun before its connections");
      co_await connect_for(rank, comm, operation);
    }
    require(node.can_carry(operation),
            "operation " + std::to_string(operation) + " lacks connections");
    if (operation == 0) {
      co_await together(real, "the first operation");
      joined_ = control_->now();
      node.start();
    }
    rank.stand("operation " + std::to_string(operation));
    co_await rank.until([&node, operation] {
      const CollectiveProgress& p = node.progress();
      return p.failed || p.finished > operation;
    });
    require(!node.progress().failed, "a queue pair of the reference rank failed");
  }
  if (options_.use_spares) {
    co_await together(real, "spare connections");
    node.use_spares();
    co_await rank.until(
        [&node] { return std::ranges::all_of(node.spares(), &SpareConnection::exchanged); });
  }
  if (options_.at_once) {
    ++real->stage;
  } else {
    // What emulated ranks have yet to hear of the last packets.
    co_await together(real, "its end");
    const Time end = control_->now() + Duration::ms(1);
    co_await rank.until([this, end] { return control_->now() > end; });
  }
  rank.destroy_all();
  rank.close_all();
  ++real->stage;
}

bool VirtualJob::over() const {
  const size_t last = options_.use_spares ? 4 : 3;
  return std::ranges::all_of(reals_, [&](const auto& real) { return real->stage == last; }) &&
         runner_->finished() && runner_->reference_over() && peers_->connection_count() == 0;
}

std::string VirtualJob::standing() const {
  std::string text;
  for (const auto& real : reals_) {
    text += "reference rank " + std::to_string(real->rank->rank()) + " stands at " +
            real->rank->standing() + "\n";
  }
  for (const std::string& line : jobs_->status()) text += line + "\n";
  for (const std::string& line : said_) text += "said: " + line + "\n";
  return text;
}

std::string VirtualJob::run() {
  if (!options_.feed.empty()) {
    if (auto followed = runner_->follow(options_.feed); !followed) return followed.error().text;
  }
  if (auto opened = jobs_->open(); !opened) return opened.error().text;
  // The first one may make it.
  for (const auto& real : reals_) {
    const SocketAddress at = root(*real->rank);
    if (at.port == 0) return "there is no root";
    real->rank->spawn(program(real.get(), at));
  }
  if (auto ran = loop_.run(kPatience); !ran) return ran.error().text + "\n" + standing();
  if (capture_ != nullptr) {
    if (auto closed = capture_->close(); !closed) return closed.error().text;
  }
  for (const auto& real : reals_) {
    if (!real->rank->failure().empty()) return real->rank->failure() + "\n" + standing();
  }
  return over() ? "" : standing();
}

}  // namespace understudy::nccl_rank
