#include "tests/rigs/nccl_virtual/virtual_job.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

#include "collective_model/nccl/p2p_rounds.h"
#include "ctrl/compile/shard_config.h"
#include "ctrl/compile/ways/inner_way.h"
#include "ctrl/config/kernel_nodes.h"
#include "ctrl/jobs/job_state.h"
#include "ctrl/peers/nccl/bootstrap/unique_id_file.h"
#include "ctrl/schedule/job_schedule.h"
#include "dataplane/base/assert.h"
#include "dataplane/base/try.h"
#include "tests/rigs/nccl_rank/job_world.h"

namespace understudy::nccl_rank {
namespace {

/// What an event of TCP takes, and control's turn where there is none.
constexpr Duration kStep = Duration::us(1), kTurn = Duration::us(20);
/// The reference ranks' programs end long before, or never.
constexpr Time kPatience = Time::zero() + Duration::s(20);

World played_world(const Config& config, const JobConfig& job, const VirtualJob::Options& options) {
  World world = world_of(config, job);
  if (options.search_channels != 0) {
    world.search_channels = static_cast<int>(options.search_channels);
  }
  world.lazy = options.lazy;
  world.traffic_class = job.sender.traffic_class;
  // With NCCL_COMM_ID all know it (docs/nccl 1.1).
  if (job.join->way == NcclJoinConfig::Way::kCommId) world.magic = 0x0280028002800280;
  return world;
}

Config config_of_emulator(const Config& config, const VirtualJob::Options& options) {
  Config own = config;
  if (!options.described) own.jobs.resize(1);
  return own;
}

Config config_of_real(const Config& config, const VirtualJob::Options& options) {
  Config real = config;
  for (NodeConfig& node : real.nodes) {
    node.real = node.real && !is_reference_beside_kernels(config, node.index);
  }
  if (options.real_mtu != 0) real.fabric.mtu = options.real_mtu;
  if (options.real_interval != Duration()) real.jobs[0].interval = options.real_interval;
  if (options.mistake) options.mistake(real.jobs[0]);
  if (options.other_config) options.other_config(real);
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

Result<std::unique_ptr<JobState>> begun(const Config& config, const JobConfig& job, bool scheduled,
                                        const understudy::Topology* network = nullptr) {
  return begin_job(config, job,
                   TRY(build_collective(config, job, scheduled, network, network != nullptr)));
}

/// What a run has between the nodes: one switch, where emulated ranks' messages meet there.
std::unique_ptr<understudy::Topology> network_of(const Config& config) {
  if (!goes_by_packets(config, config.jobs.front())) return nullptr;
  return std::make_unique<understudy::Topology>(build_topology(config).value());
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
  Time next_event() const override { return job_.round_over() ? Time::never() : next_; }
  void advance_to(Time t) override {
    now_ = t;
    const bool busy = job_.network_.step();
    job_.peers_->poll();
    job_.jobs_->poll(t);
    for (const std::string& line : job_.runner_->poll(t, {.real_time = false}))
      job_.said_.push_back(line);
    job_.emulator_->control.poll();
    for (const auto& played : job_.played_) played->side.control.poll();
    for (const auto& real : job_.reals_) real->side.control.poll();
    for (const Program& program : job_.programs_) program.rank->run();
    next_ = t + (busy ? kStep : kTurn);
  }
  Time now() const { return now_; }

 private:
  const std::string name_ = "control";
  VirtualJob& job_;
  Time now_, next_;
};

VirtualJob::VirtualJob(const Config& config, const Options& options)
    : config_(config_of_emulator(config, options)),
      real_config_(config_of_real(config, options)),
      job_(real_config_.jobs.front()),
      options_(options),
      world_(played_world(config, job_, options)),
      state_(reference_state(real_config_, options.search_channels).value()),
      topology_(network_of(config_)),
      network_(options.seed, options.whole) {
  workload_.emplace(real_config_, real_config_.jobs.front(), *state_);
  std::vector<std::unique_ptr<JobState>> states;
  for (const JobConfig& job : config_.jobs) {
    states.push_back(begun(config_, job, false, topology_.get()).value());
  }
  ShardConfig shard = emulator_shard(config_, all_ports(config_), MacAddress{}, topology_.get());
  if (topology_ != nullptr) {
    between_ = SharedNetwork::create(config_, *topology_, false, {}).value();
    for (size_t j = 0; j < states.size(); ++j) {
      const auto carried = between_->carry(config_.jobs[j], states[j]->ranks.carrier.get());
      ASSERT_INVARIANT(carried.has_value());
    }
    between_->enter(shard);
  }
  emulator_.emplace(shard);
  const std::vector<ShardControl*> controls(config_.ports.size(), &emulator_->control);
  for (size_t j = 0; j < states.size(); ++j) {
    played_workloads_.emplace_back(config_, config_.jobs[j], *states[j]);
  }
  runner_ = JobRunner::create(config_, controls, std::move(states), add_played()).value();
  add_reals();
  add_children();
  join_wires();
  control_ = std::make_unique<Control>(*this);
  std::vector<IpAddress> emulated;
  for (size_t n = 0; n < job_.ranks.size(); ++n) {
    if (!real_config_.nodes[job_.ranks[n]].real) emulated.push_back(world_.addresses[n]);
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
  jobs_ = std::make_unique<NcclJobs>(config_, *runner_, *peers_,
                                     [this](const std::string& line) { said_.push_back(line); });
  if (!options.capture.empty()) {
    CaptureOptions to;
    to.path = options.capture;
    to.application = "test";
    for (const PortConfig& port : config_.ports) {
      to.interfaces.push_back(config_.nodes[port.node].name);
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
  for (const NodeId id : job_.ranks) {
    if (!real_config_.nodes[id].real) continue;
    const auto real = static_cast<uint32_t>(reals_.size());
    Real& made = *reals_.emplace_back(std::make_unique<Real>(config_, ports_of(config_, id)));
    play(made, real);
  }
}

void VirtualJob::play(Real& real, uint32_t number) {
  const bool eager = !options_.lazy || job_.nccl < NcclVersion{22};
  real.node =
      std::make_unique<ReferenceNode>(real_config_, job_, *state_, number, real.side.control);
  for (uint32_t gpu = 0; gpu < setup().communicator.gpus; ++gpu) {
    const auto rank = static_cast<int>(real.node->first_rank() + gpu);
    Program& program = programs_.emplace_back(
        Program{*real.node,
                std::make_unique<RealRank>(world_, network_, rank, &real.node->adapter(gpu)),
                {}});
    if (eager) program.connected = {Algorithm::kRing, Algorithm::kTree, Algorithm::kPat};
  }
}

/// The next communicator, by other processes.
void VirtualJob::begin_round() {
  programs_.clear();
  Former& former = former_.emplace_back();
  former.state = std::move(state_);
  for (const auto& real : reals_) former.nodes.push_back(std::move(real->node));
  state_ = reference_state(real_config_, options_.search_channels).value();
  workload_.emplace(real_config_, real_config_.jobs.front(), *state_);
  if (job_.join->way == NcclJoinConfig::Way::kFile) ++world_.magic;
  for (uint32_t real = 0; real < reals_.size(); ++real) play(*reals_[real], real);
}

void VirtualJob::join_wires() {
  std::vector<VirtualPort*> emulated;
  for (size_t i = 0; i < config_.ports.size(); ++i) {
    const std::string& name = config_.nodes[config_.ports[i].node].name;
    wires_.push_back(std::make_unique<VirtualLink>(name, name + " (reference rank)", 9000));
    emulated.push_back(&wires_.back()->a());
  }
  emulator_turns_ = std::make_unique<ShardParticipant>(emulated, emulator_->shard);
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

/// At the first use, in which all ranks take part.
Task<> VirtualJob::connect_for(Program* program, nccl_rank::Communicator* comm, size_t operation) {
  RealRank& rank = *program->rank;
  const auto schedules = job_schedules(config_, job_);
  const Operation& next = schedules->at(setup().operations[operation].size).operation;
  if (is_p2p(next.collective)) {
    co_await rank.connect_pairs(comm, pairs(rank));
  } else if (!program->connected.insert(next.algorithm).second) {
    co_return;
  } else if (next.algorithm == Algorithm::kRing) {
    co_await rank.connect_ring(comm);
  } else if (next.algorithm == Algorithm::kTree) {
    co_await rank.connect_tree(comm);
  } else {
    co_await rank.connect_pat(comm);
  }
}

Task<> VirtualJob::together(Program* program, const char* where) {
  program->rank->stand(where);
  const size_t stage = ++program->stage;
  co_await program->rank->until([this, stage] {
    return std::ranges::all_of(programs_, [&](const Program& p) { return p.stage >= stage; });
  });
}

/// What a real rank's program does.
Task<> VirtualJob::run_program(Program* program, SocketAddress root) {
  RealRank& rank = *program->rank;
  ReferenceNode& node = program->node;
  nccl_rank::Communicator* comm = co_await rank.init(root);
  if (options_.split) co_await rank.split(comm, 0, comm->rank());
  std::vector<ChildEnd> children;
  co_await make_children(program, comm, &children);
  for (size_t operation = 0; operation < setup().operations.size(); ++operation) {
    const std::string name = "operation " + std::to_string(operation);
    if (!node.can_carry(operation)) {
      require(node.progress().results[operation].entry.is_never(),
              name + " has begun before its connections");
    }
    co_await connect_for(program, comm, operation);
    rank.stand("connections of the node's other ranks for " + name);
    co_await rank.until([&node, operation] { return node.can_carry(operation); });
    if (operation == 0) {
      co_await together(program, "the first operation");
      joined_ = control_->now();
      tell();
      if (rank.rank() == static_cast<int>(node.first_rank())) node.start();
      if (options_.children_beside) {
        for (const ChildEnd& end : children) co_await carry_out(program, end);
      }
    }
    rank.stand(name);
    if (operation + 1 == options_.rounds[round_]) {
      co_await together(program, "the operation in which all leave");
      co_await rank.until([this, &node, operation] {
        const Time entry = node.progress().results[operation].entry;
        return !entry.is_never() && control_->now() > entry + Duration::us(60);
      });
      rank.close_all();
      node.vanish();
      ++program->stage;
      co_return;
    }
    if (operation + 1 == options_.lost_device_in) {
      co_await rank.until([this, &node, operation] {
        const Time entry = node.progress().results[operation].entry;
        return !entry.is_never() && control_->now() > entry + Duration::us(60);
      });
      if (rank.rank() == static_cast<int>(node.first_rank())) node.lose_device(1);
    }
    co_await rank.until([&node, operation] {
      const CollectiveProgress& p = node.progress();
      return p.failed || p.finished > operation;
    });
    require(!node.progress().failed, "a queue pair of the reference rank failed");
  }
  if (!options_.children_beside) {
    for (const ChildEnd& end : children) co_await carry_out(program, end);
  }
  if (options_.one_sided) co_await use_one_sided(program, comm);
  if (options_.gin) co_await use_gin(program, comm);
  if (options_.use_spares) {
    co_await together(program, "spare connections");
    node.use_spares();
    co_await rank.until(
        [&node] { return std::ranges::all_of(node.spares(), &SpareConnection::exchanged); });
  }
  if (options_.at_once) {
    ++program->stage;
  } else {
    // What emulated ranks have yet to hear of the last packets.
    co_await together(program, "its end");
    const Time end = control_->now() + Duration::ms(1);
    co_await rank.until([this, end] { return control_->now() > end; });
  }
  rank.destroy_all();
  rank.close_all();
  ++program->stage;
}

RmaNode& VirtualJob::rma_node(const Program& program) {
  const auto its = std::ranges::find_if(
      reals_, [&](const auto& real) { return real->node.get() == &program.node; });
  return rma_nodes_.emplace_back(real_config_, job_, static_cast<uint32_t>(program.rank->rank()),
                                 (*its)->side.control);
}

Task<> VirtualJob::use_one_sided(Program* program, nccl_rank::Communicator* comm) {
  RmaNode& adapter = rma_node(*program);
  RmaProxy& proxy = proxies_.emplace_back(*program->rank, *comm, adapter);
  co_await options_.one_sided(*program->rank, proxy, adapter);
}

Task<> VirtualJob::use_gin(Program* program, nccl_rank::Communicator* comm) {
  RmaProxy& proxy = proxies_.emplace_back(*program->rank, *comm, rma_node(*program));
  std::vector<RmaAdapter*> contexts;
  while (contexts.size() < options_.gin_contexts) contexts.push_back(&rma_node(*program));
  std::vector<RmaAdapter*> rings;
  const size_t count = job_.nccl.minor < 30 ? options_.gin_contexts : 1;
  while (rings.size() < count) rings.push_back(&rma_node(*program));
  GinProxy& gin = gins_.emplace_back(*program->rank, *comm, proxy, rings, contexts);
  proxy.beside(gin);
  co_await options_.gin(*program->rank, proxy, gin);
}

void VirtualJob::tell() {
  if (!options_.plugin || told_ > round_) return;
  told_ = round_ + 1;
  if (plugin_ != nullptr) plugin_->on_closed(control_->now());
  std::ifstream in(job_.join->file, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(in), {}};
  plugin_ = runner_->feed_peer(0);
  const auto told = options_.plugin(parse_unique_id_file(content).value());
  if (options_.plugin_tells > 0) {
    plugin_->on_bytes(control_->now(), std::span(told).first(options_.plugin_tells));
    plugin_->on_closed(control_->now());
    plugin_ = runner_->feed_peer(0);
  }
  plugin_->on_bytes(control_->now(), std::span(told).subspan(options_.plugin_tells));
  if (options_.plugin_breaks_off) plugin_->on_bytes(control_->now(), std::span(told).first(10));
}

bool VirtualJob::round_over() const {
  if (round_ + 1 == options_.rounds.size()) return over();
  return std::ranges::all_of(programs_, [](const Program& p) { return p.stage == 3; }) &&
         peers_->connection_count() == 0 && runner_->report(0).communicators.size() == round_ + 1;
}

bool VirtualJob::over() const {
  const size_t last = options_.use_spares ? 4 : 3;
  return std::ranges::all_of(programs_, [&](const Program& p) { return p.stage == last; }) &&
         runner_->finished() && runner_->reference_over() && peers_->connection_count() == 0;
}

std::string VirtualJob::standing() const {
  std::string text;
  for (const auto& [node, rank, connected, stage] : programs_) {
    text +=
        "reference rank " + std::to_string(rank->rank()) + " stands at " + rank->standing() + "\n";
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
  for (; round_ < options_.rounds.size(); ++round_) {
    if (round_ > 0) begin_round();
    // The first one may make it.
    for (Program& program : programs_) {
      const SocketAddress at = root(*program.rank);
      if (at.port == 0) return "there is no root";
      program.rank->spawn(run_program(&program, at));
    }
    if (auto ran = loop_.run(kPatience); !ran) return ran.error().text + "\n" + standing();
    if (!round_over()) return standing();
  }
  --round_;
  if (capture_ != nullptr) {
    if (auto closed = capture_->close(); !closed) return closed.error().text;
  }
  for (const Program& program : programs_) {
    if (!program.rank->failure().empty()) return program.rank->failure() + "\n" + standing();
  }
  return over() ? "" : standing();
}

}  // namespace understudy::nccl_rank
