#include "ctrl/jobs/nccl/nccl_job.h"

#include <algorithm>

#include "ctrl/compile/shard_config.h"
#include "ctrl/config/merged_nics.h"
#include "ctrl/jobs/nccl/search_plan.h"
#include "ctrl/schedule/net_ib_environment.h"
#include "dataplane/base/pattern.h"

namespace understudy {
namespace {

/// What an acknowledgement may take beside its way: it is sent at once, and waits for packets on
/// links.
constexpr Duration kLastPackets = Duration::ms(10);

/// A real rank has gone in the middle of an operation, and others have not: as long as emulated
/// ranks wait for these.
constexpr Duration kOthersLeave = Duration::s(5);
/// Until then all of them may be about to go, one after the other.
constexpr Duration kAllLeave = Duration::s(1);

/// The last real rank has left its communicator: what torchrun's agents may take to see that their
/// workers have ended, and to end themselves.
constexpr Duration kAgentsLeave = Duration::s(20);

}  // namespace

NcclJob::NcclJob(const Config& config, size_t number, JobRunner& runner, PeerNetwork& network,
                 Say say, const RoceProbe& probe, std::shared_ptr<NcclPlace> place)
    : config_(config),
      number_(number),
      job_(config.jobs[number]),
      runner_(runner),
      links_(config, number, runner),
      say_(std::move(say)),
      children_(config, number, runner,
                [this](size_t job, const std::string& line) {
                  say_("job \"" + config_.jobs[job].name + "\": " + line);
                }),
      sockets_(network, addresses(), callbacks()),
      groups_(groups_setup(), network, callbacks()),
      identity_(identity_setup(std::move(place)), sockets_, network,
                [this](const std::string& line) { this->say(line); }) {
  const Communicator& communicator = setup().communicator;
  for (uint32_t rank = 0; rank < communicator.ranks(); rank += communicator.gpus) {
    if (!is_program(rank)) continue;
    self_tests_.emplace_back(config, job_, setup().job, node_of(rank).index, network,
                             runner.control(number), probe);
  }
  route_feed();
}

NcclJob::~NcclJob() {
  over_ = true;
  communicator_.reset();
  let_go(true);
}

const NodeConfig& NcclJob::node_of(uint32_t rank) const {
  return config_.nodes[job_.ranks[setup().communicator.node_of(rank)]];
}

std::vector<IpAddress> NcclJob::nics_of(uint32_t rank) const {
  const NodeConfig& node = node_of(rank);
  const uint32_t first = setup().communicator.nic_of(rank);
  std::vector<IpAddress> all;
  for (uint32_t n = 0; n < merged_nics(job_, node, first); ++n) {
    all.push_back(roce_address(node.nics[first + n]));
  }
  return all;
}

std::vector<IpAddress> NcclJob::node_nics(uint32_t rank) const {
  std::vector<IpAddress> all;
  for (const NicConfig& nic : node_of(rank).nics) all.push_back(roce_address(nic));
  return all;
}

std::vector<IpAddress> NcclJob::addresses() const {
  std::vector<IpAddress> all;
  for (uint32_t rank = 0; rank < setup().communicator.ranks(); ++rank) {
    all.push_back(roce_address(node_of(rank).nics[job_.nic]));
  }
  return all;
}

std::vector<RendezvousSettings::Rank> NcclJob::ranks() const {
  std::vector<RendezvousSettings::Rank> all;
  for (uint32_t rank = 0; rank < setup().communicator.ranks(); ++rank) {
    all.push_back({is_program(rank), setup().communicator.node_of(rank),
                   roce_address(node_of(rank).nics[job_.nic])});
  }
  return all;
}

TorchGroups::Setup NcclJob::groups_setup() const {
  TorchGroups::Setup groups;
  groups.nccl = job_.nccl;
  groups.seed = splitmix64(config_.seed + number_);
  groups.ranks = ranks();
  groups.addresses = addresses();
  for (const auto& partition : job_.groups) {
    groups.groups.insert(groups.groups.end(), partition.begin(), partition.end());
  }
  return groups;
}

/// PyTorch splits once for each of its groups.
std::vector<RankPartition> NcclJob::partitions() const {
  if (expects_children()) return children_.splits();
  if (!job_.join->has_store()) return job_.groups;
  std::vector<RankPartition> all;
  for (const auto& partition : job_.groups) {
    for (const auto& group : partition) all.push_back({group});
  }
  return all;
}

NcclId::Setup NcclJob::identity_setup(std::shared_ptr<NcclPlace> place) {
  NcclId::Setup identity;
  identity.job = &job_;
  identity.number = static_cast<uint32_t>(number_);
  identity.seed = config_.seed;
  identity.place = std::move(place);
  identity.ranks = ranks();
  identity.groups = &groups_;
  uint32_t rank = 0;
  while (is_program(rank)) ++rank;
  identity.from = addresses()[rank];
  return identity;
}

NcclSockets::Callbacks NcclJob::callbacks() {
  NcclSockets::Callbacks callbacks;
  callbacks.receiver = [this](const NcclConnector& c) { return net_ib(c, kNetIbMagic); };
  callbacks.sender = [this](const NcclConnector& c, uint64_t magic) { return net_ib(c, magic); };
  callbacks.disconnect = [this](const NcclConnector& c) { disconnect(c); };
  callbacks.say = [this](const std::string& line) { say(line); };
  callbacks.relay = [this](const NcclConnector& c, std::span<const uint8_t> bytes) {
    links_.one_sided().relay(c, bytes);
  };
  callbacks.expose = [this](const NcclHost::OneSidedMemory& memory) {
    const NcclConnector c{memory.communicator, memory.emulated, 0, 0, kOneSided};
    return links_.expose(groups_.job_rank(c, c.emulated), memory);
  };
  callbacks.exposed = [this](const NcclHost::OneSidedMemory& memory,
                             const NcclHost::MemoryKey& real) {
    links_.one_sided().exposed(memory, real);
  };
  return callbacks;
}

void NcclJob::say(const std::string& line) const { say_("job \"" + job_.name + "\": " + line); }

void NcclJob::say_once(Once what, std::string_view line) {
  if (said_.insert(what).second) say(std::string(line));
}

Result<void> NcclJob::open() {
  auto opened = identity_.open();
  if (!job_.join->joins_once() && identity_.emulated_root()) {
    sockets_.keep(identity_.root_listener());
  }
  // Where the root is ours, a real rank may know of it from now on.
  if (opened) begin(Time::zero());
  return opened;
}

void NcclJob::begin(Time now) {
  if (communicator_ != nullptr || !identity_.id() || !identity_.may_call()) return;
  const NcclUniqueId& id = *identity_.id();
  NcclCommunicatorSettings settings;
  settings.version = job_.nccl;
  settings.id = id;
  settings.emulated_root = identity_.emulated_root();
  settings.root_listener = identity_.root_listener();
  settings.seed = config_.seed;
  settings.groups = partitions();
  settings.groups_expected = expects_children();
  for (uint32_t rank = 0; rank < setup().communicator.ranks(); ++rank) {
    settings.ranks.push_back({is_program(rank), setup().communicator.node_of(rank)});
  }
  say("communicator of " + std::to_string(settings.ranks.size()) + " ranks, root " +
      std::string(settings.emulated_root ? "here" : "on " + node_of(0).name) + " at " +
      id.root.text());
  sockets_.wait_for(id.root);
  communicator_ = std::make_unique<NcclCommunicator>(std::move(settings), sockets_);
  sockets_.attach(*communicator_);
  communicator_->start(now);
  sockets_.take_early();
}

void NcclJob::settle() {
  if (settled_) return;
  const uint32_t found = communicator_->search_channels();
  if (found == 0) return;
  settled_ = true;
  identity_.called();
  const auto settled = settle_plan(config_, runner_, number_, found);
  if (!settled) return end(settled.error().text);
  if (!settled->empty()) say(*settled);
}

/// What real ranks say over the rings of their one-sided connections.
void NcclJob::take_relayed() {
  const auto take = [this](const NcclConnector& connector, std::span<const uint8_t> bytes) {
    if (groups_.has(connector)) return groups_.on_relayed(connector, bytes);
    sockets_.on_relayed(connector, bytes);
  };
  if (links_.any_one_sided() != nullptr) links_.one_sided().take(take);
}

bool NcclJob::is_connected(NodeId real) const {
  return std::ranges::any_of(open_, [&](const NcclConnector& connector) {
    return node_of(groups_.job_rank(connector, connector.real)).index == real;
  });
}

void NcclJob::test(Time now) {
  const bool carried = emulated().progress().finished > 0;
  for (SelfTest& test : self_tests_) {
    for (const std::string& line : test.poll(now, is_connected(test.real()), carried)) say(line);
  }
}

bool NcclJob::is_done(size_t job) const {
  return std::ranges::all_of(runner_.progress(job), &CollectiveProgress::over);
}

void NcclJob::let_go(bool all) {
  std::erase_if(leaving_, [&](const Leaving& leaving) {
    NcclLinks& links = links_of(leaving.connector);
    if (!all && leaving.until > now_ && !is_done(links.number())) return false;
    links.give_back(leaving.connector);
    return true;
  });
}

void NcclJob::poll(Time now) {
  now_ = now;
  if (over_) return;
  if (ends_at_) return end_meeting(now);
  if (!runner_.no_further(number_).empty()) return end(runner_.no_further(number_));
  test(now);
  if (!runner_.is_ready(number_) || !children_.ready()) return;
  if (!leaving_.empty()) let_go(false);
  identity_.poll(now);
  if (!identity_.failure().empty()) return end(identity_.failure());
  if (identity_.restarted()) {
    if (communicator_ != nullptr) return end_communicator("torchrun begins its workers anew");
    identity_.look_for_next();
  }
  begin(now);
  if (communicator_ == nullptr) return look_for_identity();
  take_relayed();
  if (communicator_ == nullptr) return;
  sockets_.poll();
  groups_.poll();
  settle();
  if (over_) return;
  runner_.joined(number_, now_);
  complain();
  children_.poll(now_);
  look_for_further();
  if (communicator_ == nullptr) return;
  if (!communicator_->failure().empty()) return end_communicator(communicator_->failure());
  if (communicator_->finished() && groups_.idle() && leaving_.empty()) return end_communicator("");
  if (look_for_gone()) end_communicator("");
}

std::string NcclJob::who(uint32_t rank) const { return rank_text(config_, job_, setup(), rank); }

std::string NcclJob::gone() const {
  const std::vector<uint32_t> left = communicator_->left();
  if (left.empty()) return {};
  if (!job_.listed && job_.operations == OperationsMode::kFed) {
    return left_inside_text(emulated().progress(), *emulated().found(), who(left.front()));
  }
  if (job_.operations != OperationsMode::kTold) return {};
  return left_early_text(setup(), emulated().progress(), who(left.front()));
}

/// Among several real ranks: one has left before an operation that all take part in, and the others
/// wait for it.
bool NcclJob::look_for_gone() {
  const size_t done = emulated().progress().finished;
  const std::string text = done + 1 < setup().operations.size() ? gone() : "";
  if (text.empty()) {
    gone_since_ = Time::never();
    return false;
  }
  if (gone_since_.is_never()) gone_since_ = now_;
  if (now_ - gone_since_ >= kAllLeave) say_once(Once::kGone, text);
  return now_ - gone_since_ >= kOthersLeave;
}

/// What joins while the present communicator lives.
void NcclJob::look_for_further() {
  const bool comes = further();
  if (identity_.has_next() && !runner_.joined(number_) && joins_more()) {
    return end_communicator("its real ranks make another one instead (" + job_.join->file + ")");
  }
  if (!comes) return;
  say_once(Once::kFurther,
           "a further communicator is being made while the present one lives: " +
               (joins_more()
                    ? std::string("emulated ranks are in one at a time, and join it once "
                                  "the real ranks have left the present one (several at once: "
                                  "another [[job]] with the same join)")
                    : "nobody joins it, join = { communicators = " + std::to_string(ended_ + 2) +
                          " } would, once the real ranks have "
                          "left the present one"));
}

void NcclJob::end(const std::string& failure) {
  over_ = true;
  failure_ = failure;
  identity_.called();
  let_go(true);
  emulated().end();
  say(failure);
}

void NcclJob::end_communicator(const std::string& failure) {
  std::string how = failure.empty() ? gone() : failure;
  if (how.empty()) how = "the real ranks have left the communicator";
  const bool more = joins_more();
  runner_.answered(number_, answered());
  identity_.called();
  let_go(true);
  emulated().end();
  children_.end(now_, how, more);
  runner_.ended_communicator(number_, now_, how, more);
  ++ended_;
  if (!more) {
    identity_.leave();
    ends_at_ = now_ + (identity_.lingers() ? kAgentsLeave : Duration());
    over_ = !identity_.lingers();
    failure_ = failure;
    const bool only = job_.join->joins_once() && failure.empty();
    return say(how + (only ? "; nobody joins a further one (join.communicators = 1)" : ""));
  }
  say("communicator " + std::to_string(ended_) + ": " + how +
      "; emulated ranks wait for the next one");
  forget();
}

/// torchrun's agents stay until all of them have left their rendezvous, and we may serve its store.
void NcclJob::end_meeting(Time now) {
  identity_.poll(now);
  over_ = !identity_.lingers() || !identity_.failure().empty() || now >= *ends_at_;
}

void NcclJob::forget() {
  sockets_.forget();
  groups_.forget();
  communicator_.reset();
  answered_ = answered();
  links_.forget();
  children_.forget();
  by_hash_.clear();
  seen_ = {};
  open_.clear();
  leaving_.clear();
  settled_ = false;
  said_.clear();
  mistakes_ = {};
  gone_since_ = Time::never();
  identity_.look_for_next();
}

std::unique_ptr<Peer> NcclJob::net_ib(const NcclConnector& connector, uint64_t magic) {
  NetIbSettings settings;
  settings.version = job_.nccl;
  settings.magic = magic;
  // From 2.30 on NCCL makes those for one-sided operations with one, whatever is set for others.
  const bool one_sided = connector.index >= kOneSidedRing && job_.nccl.minor >= 30;
  settings.queue_pairs = one_sided ? 1 : job_.join->queue_pairs;
  settings.split_data = job_.join->split_data;
  const uint32_t emulated = groups_.job_rank(connector, connector.emulated);
  const uint32_t real = groups_.job_rank(connector, connector.real);
  settings.local = nics_of(emulated);
  settings.first_device = setup().communicator.nic_of(emulated) - setup().communicator.first_nic;
  settings.real_addresses = nics_of(real);
  settings.real_node = node_nics(real);
  settings.mtu = config_.fabric.mtu;
  settings.sender = job_.sender;
  const auto failover = net_ib_environment(config_).failover_of(job_.nccl);
  settings.failover = failover.has_value();
  settings.recovery = failover && failover->recovery;
  return std::make_unique<NetIbPeer>(connector, settings, seen_, *this);
}

Result<EndpointReady> NcclJob::endpoint(const EndpointRequest& request) {
  const NcclConnector& connector = request.nccl->connector;
  settle();
  find_child(connector.communicator);
  if (!request.reserve) look_at_mtu(request.mtu);
  return links_of(connector).serve({groups_.job_rank(connector, connector.emulated),
                                    groups_.job_rank(connector, connector.real)},
                                   request);
}

/// `mtu`: the smaller one of both ends, as NCCL takes it.
void NcclJob::look_at_mtu(uint32_t mtu) {
  const uint32_t ours = config_.fabric.mtu;
  if (mtu >= ours) return;
  say_once(Once::kMtu,
           "the real node's path MTU is " + std::to_string(mtu) +
               " bytes, [fabric] mtu = " + std::to_string(ours) + ": all connections take " +
               std::to_string(mtu) + ", the model does not. Set mtu = " + std::to_string(mtu) +
               ", or raise the MTU of its interface (4200 bytes give a path MTU of 4096)");
}

void NcclJob::on_connector_ready(Time, const NcclConnector& connector) {
  ++ready_;
  open_.insert(connector);
  if (NcclLinks& links = links_of(connector); links.join(connector)) {
    runner_.start_joined(links.number());
  } else if (connector.communicator == 0 && connector.index == 0 &&
             connector.channel >= job_.channels) {
    say_once(Once::kChannels,
             "NCCL uses channel " + std::to_string(connector.channel) +
                 ", but the job has channels = " + std::to_string(job_.channels) +
                 ": what goes over further ones is answered at once, and the operations are not "
                 "those of the job. Set channels, or NCCL_MAX_NCHANNELS on the real node");
  }
  on_connector(connector, "");
}

void NcclJob::on_connector_failed(Time, const NcclConnector& connector, const std::string& why) {
  links_of(connector).give_back(connector);
  on_connector(connector, why);
}

void NcclJob::on_connector(const NcclConnector& connector, const std::string& failure) {
  if (groups_.has(connector)) return groups_.on_connector(connector, failure);
  sockets_.on_connector(connector, failure);
}

void NcclJob::on_connector_closed(Time, const NcclConnector& connector) { disconnect(connector); }

void NcclJob::disconnect(const NcclConnector& connector) {
  if (open_.erase(connector) == 0) return;
  NcclLinks& links = links_of(connector);
  const auto latency = links.latency(connector);
  if (over_ || !latency || is_done(links.number())) return links.give_back(connector);
  leaving_.push_back({now_ + *latency * 2 + kLastPackets, connector});
}

std::vector<std::string> NcclJob::status() const {
  std::vector<std::string> lines;
  if (!failure_.empty()) {
    lines.push_back("failed: " + failure_);
  } else if (over_) {
    lines.push_back("the real ranks have left");
  }
  if (!over_ && ends_at_) lines.push_back("the real ranks have left, torchrun's agents have not");
  if (!over_) {
    for (const SelfTest& test : self_tests_) lines.push_back(test.status());
    for (const std::string& line : identity_.waiting()) lines.push_back(line);
  }
  if (!job_.join->joins_once()) {
    lines.push_back(std::to_string(ended_) + " communicators are over" +
                    (over_                      ? ""
                     : communicator_ == nullptr ? ", the next one has not come yet"
                                                : ", one is there or comes"));
  }
  if (communicator_ == nullptr) return lines;
  if (further()) lines.push_back("a further communicator waits until the present one is over");
  const NcclLinks::Unplanned beside = links_.unplanned();
  lines.push_back(std::to_string(ready_) + " connections of net_ib made, " +
                  std::to_string(ready_ - open_.size()) + " of them closed, " +
                  std::to_string(beside.sent) + " messages to the real ranks and " +
                  std::to_string(beside.received) + " from them outside the job's operations");
  if (const auto* const one_sided = links_.any_one_sided()) lines.push_back(one_sided->text());
  for (const std::string& line : communicator_->waiting()) lines.push_back(line);
  for (const std::string& line : groups_.waiting()) lines.push_back(line);
  for (const std::string& line : children_.status()) lines.push_back(line);
  return lines;
}

}  // namespace understudy
