#include "tests/nccl_virtual/virtual_job.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

#include "collective_model/p2p_rounds.h"
#include "ctrl/build/job_schedule.h"
#include "ctrl/build/rail.h"
#include "ctrl/config/merged_nics.h"
#include "ctrl/peers/nccl/unique_id_file.h"

namespace understudy::nccl_rank {
namespace {

/// What an event of TCP takes, and control's turn where there is none.
constexpr Duration kStep = Duration::us(1), kTurn = Duration::us(20);
/// The reference rank's program ends long before, or never.
constexpr Time kPatience = Time::zero() + Duration::s(20);

World world_of(const Config& config, const JobConfig& job, const VirtualJob::Options& options) {
  World world;
  const auto minor = static_cast<int>(job.nccl.minor);
  world.release = nccl_decode::layout_of({minor, 0})->release;
  for (const NodeId id : job.ranks) {
    const NodeConfig& node = config.nodes[id];
    world.ranks.push_back({node.real, world.size()});
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
  // With NCCL_COMM_ID all know it (nccl-wire 1.1).
  if (job.join->way == NcclJoinConfig::Way::kCommId) world.magic = 0x0280028002800280;
  return world;
}

Config config_of_real(const Config& config, const VirtualJob::Options& options) {
  Config real = config;
  if (options.real_mtu != 0) real.fabric.mtu = options.real_mtu;
  return real;
}

/// One shard has all, in the order of NICs.
PortList all_ports(const Config& config) {
  PortList all(config.ports.size());
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

Result<std::unique_ptr<CollectiveSetup>> reference_setup(const Config& config,
                                                         uint32_t search_channels) {
  JobConfig job = config.jobs.front();
  job.search_channels = search_channels;
  return build_collective(config, job, job.entry == EntryMode::kScheduled);
}

}  // namespace

/// TCP, control's turns of the emulated side, and the reference rank's process.
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
    job_.reference_.control.poll();
    job_.rank_->run();
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
      setup_(reference_setup(config, options.search_channels).value()),
      emulator_(emulator_shard(config, all_ports(config), MacAddress{})),
      reference_(reference_shard(config, all_ports(config))),
      network_(options.seed, options.whole) {
  const std::vector<ShardControl*> controls(config.ports.size(), &emulator_.control);
  runner_ =
      JobRunner::create(config, controls, JobRunner::plan(config, nullptr, true).value()).value();
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
  node_ = std::make_unique<ReferenceNode>(real_config_, job_, *setup_, reference_.control);
  rank_ = std::make_unique<RealRank>(world_, network_, static_cast<int>(setup_->job.real.front()),
                                     node_.get());
  if (!options.capture.empty()) {
    CaptureOptions to;
    to.path = options.capture;
    to.application = "test";
    to.interfaces.assign(wires_.size(), "gpu");
    capture_ = open_direct_capture(to).value();
    for (size_t i = 0; i < wires_.size(); ++i) wires_[i]->a().set_capture(&capture_->tap(i));
  }
  loop_.add(*emulator_turns_);
  loop_.add(*reference_turns_);
  loop_.add(*control_);
}

void VirtualJob::join_wires() {
  std::vector<VirtualPort*> emulated, real;
  for (size_t i = 0; i < config_.ports.size(); ++i) {
    wires_.push_back(std::make_unique<VirtualLink>("gpu", "gpu (reference rank)", 9000));
    emulated.push_back(&wires_.back()->a());
    real.push_back(&wires_.back()->b());
  }
  emulator_turns_ = std::make_unique<ShardParticipant>(emulated, emulator_.shard);
  reference_turns_ = std::make_unique<ShardParticipant>(real, reference_.shard);
}

VirtualJob::~VirtualJob() = default;

/// As the job's program learns of it; where the reference rank is the first it makes it.
SocketAddress VirtualJob::root() {
  const NcclJoinConfig& join = *job_.join;
  const bool by_file = join.way == NcclJoinConfig::Way::kFile;
  if (rank_->rank() == 0) {
    ListeningSocket* listener = rank_->open_root(by_file ? 0 : join.port);
    rank_->serve(listener);
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
std::vector<Link> VirtualJob::pairs() const {
  std::set<Link> all;
  const auto own = static_cast<uint32_t>(rank_->rank());
  for (const CollectiveLink& link : setup_->job.links) {
    if (link.index == 0) continue;
    for (const uint32_t channel :
         p2p_channels_between(setup_->communicator, link.real_sends ? own : link.far,
                              link.real_sends ? link.far : own)) {
      all.insert({static_cast<int>(channel), static_cast<int>(link.far), 1, link.real_sends});
    }
  }
  return {all.begin(), all.end()};
}

Task<> VirtualJob::connect_for(nccl_rank::Communicator* comm, size_t operation) {
  const auto schedules = job_schedules(config_, job_);
  const Operation& next = schedules->at(setup_->operations[operation].size).operation;
  if (is_p2p(next.collective)) {
    co_await rank_->connect_pairs(comm, pairs());
  } else if (next.algorithm == Algorithm::kRing) {
    co_await rank_->connect_ring(comm);
  } else if (next.algorithm == Algorithm::kTree) {
    co_await rank_->connect_tree(comm);
  } else {
    co_await rank_->connect_pat(comm);
  }
}

/// What the real node's program does.
Task<> VirtualJob::program(SocketAddress root) {
  nccl_rank::Communicator* comm = co_await rank_->init(root);
  if (options_.split) co_await rank_->split(comm, 0, comm->rank());
  for (size_t operation = 0; operation < setup_->operations.size(); ++operation) {
    if (!node_->can_carry(operation)) {
      require(node_->progress().results[operation].entry.is_never(),
              "operation " + std::to_string(operation) + " has begun before its connections");
      co_await connect_for(comm, operation);
    }
    require(node_->can_carry(operation),
            "operation " + std::to_string(operation) + " lacks connections");
    if (operation == 0) {
      joined_ = control_->now();
      node_->start();
    }
    rank_->stand("operation " + std::to_string(operation));
    co_await rank_->until([this, operation] {
      const CollectiveProgress& p = node_->progress();
      return p.failed || p.finished > operation;
    });
    require(!node_->progress().failed, "a queue pair of the reference rank failed");
  }
  if (options_.use_spares) {
    rank_->stand("spare connections");
    node_->use_spares();
    co_await rank_->until(
        [this] { return std::ranges::all_of(node_->spares(), &SpareConnection::exchanged); });
  }
  // What emulated ranks have yet to hear of the last packets.
  rank_->stand("its end");
  const Time end = control_->now() + Duration::ms(1);
  co_await rank_->until([this, end] { return control_->now() > end; });
  rank_->destroy_all();
  rank_->close_all();
  ended_ = true;
}

bool VirtualJob::over() const {
  return ended_ && runner_->finished() && peers_->connection_count() == 0;
}

std::string VirtualJob::standing() const {
  std::string text = "the reference rank stands at " + rank_->standing() + "\n";
  for (const std::string& line : jobs_->status()) text += line + "\n";
  for (const std::string& line : said_) text += "said: " + line + "\n";
  return text;
}

std::string VirtualJob::run() {
  if (auto opened = jobs_->open(); !opened) return opened.error().text;
  const SocketAddress at = root();
  if (at.port == 0) return "there is no root";
  rank_->spawn(program(at));
  if (auto ran = loop_.run(kPatience); !ran) return ran.error().text + "\n" + standing();
  if (capture_ != nullptr) {
    if (auto closed = capture_->close(); !closed) return closed.error().text;
  }
  if (!rank_->failure().empty()) return rank_->failure() + "\n" + standing();
  return over() ? "" : standing();
}

}  // namespace understudy::nccl_rank
