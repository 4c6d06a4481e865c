#include "ctrl/session/kernel_run.h"

#include <algorithm>
#include <csignal>
#include <memory>
#include <numeric>

#include "ctrl/build/rail.h"
#include "ctrl/config/kernel_nodes.h"
#include "ctrl/guest/scratch_folder.h"
#include "ctrl/report/collect.h"
#include "ctrl/report/text.h"
#include "ctrl/session/commands_text.h"
#include "ctrl/session/deadlock.h"
#include "ctrl/session/emulated_side.h"
#include "ctrl/session/kernel_guests.h"
#include "ctrl/session/progress.h"
#include "ctrl/session/reference_job.h"
#include "ctrl/session/reference_nodes.h"
#include "ctrl/session/start_report.h"
#include "ctrl/session/switched_run.h"
#include "ctrl/virtual_host/virtual_host.h"
#include "dataplane/app/simulation.h"
#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

/// Between control's turns while nothing has come for it, and while messages wait for their
/// operation to become known: as in a run in real time.
constexpr Duration kTurn = Duration::ms(1), kSoon = Duration::us(50);
/// Between looks at signals and at what has failed.
constexpr Duration kLook = Duration::ms(1);
/// No program waits so long for anything, and no timer of a protocol does.
constexpr Duration kLongestSilence = Duration::s(3600);

/// Control and the emulated nodes' TCP as one more participant: they have a turn when something has
/// come for them, and now and then.
class Control final : public Participant {
 public:
  explicit Control(Shard& shard) : shard_(shard) {}
  void attach(EmulatedSide& side, VirtualHost& host) {
    side_ = &side;
    host_ = &host;
  }
  const std::string& name() const override { return name_; }
  Time now() const { return now_; }

  Time next_event() const override {
    if (!shard_.to_host().empty() || !shard_.notices().empty() || !shard_.replies().empty()) {
      return Time::zero();
    }
    return std::min(next_, host_->deadline());
  }
  void advance_to(Time t) override {
    now_ = t;
    for (auto frame = shard_.to_host().front(); frame.data() != nullptr;
         frame = shard_.to_host().front()) {
      host_->on_frame(t, frame);
      shard_.to_host().pop();
    }
    host_->on_time(t);
    side_->turn();
    next_ = t + (side_->find_out() ? kSoon : kTurn);
  }

 private:
  const std::string name_ = "control";
  Shard& shard_;
  EmulatedSide* side_ = nullptr;
  VirtualHost* host_ = nullptr;
  Time now_, next_;
};

/// What kernels' programs and the emulated nodes beside them have to do.
Config without_reference_jobs(const Config& config) {
  Config changed = config;
  std::erase_if(changed.jobs,
                [&](const JobConfig& job) { return has_reference_ranks(config, job); });
  return changed;
}

/// Reference nodes' jobs are carried out as without kernels: see with_inner_packets().
Config with_reference_packets(const Config& config) {
  Config changed = config, alone = config;
  std::erase_if(alone.jobs,
                [&](const JobConfig& job) { return !has_reference_ranks(config, job); });
  alone = with_inner_packets(alone);
  size_t next = 0;
  for (JobConfig& job : changed.jobs) {
    if (has_reference_ranks(config, job)) job.inner = alone.jobs[next++].inner;
  }
  return changed;
}

class KernelRun {
 public:
  KernelRun(const Config& config, const SimulateOptions& options)
      : config_(with_reference_packets(config)),
        told_(without_reference_jobs(config_)),
        options_(options),
        report_(start_report(config, true)) {}

  Result<void> open();
  Result<void> run();
  Result<RunReport> finish();

 private:
  Result<void> open_emulated();
  Result<void> open_reference_jobs();
  NicSides sides(NodeId node, uint32_t nic) const;
  bool over() const;
  /// Frames of kernels and operations of reference nodes.
  uint64_t signs_of_life() const;
  void add_jobs();
  void say(const std::string& line) const {
    if (options_.progress) options_.progress(line);
  }
  bool stopped() const { return options_.signal != nullptr && *options_.signal != 0; }

  const Config config_;
  const Config told_;  ///< the same without the jobs of reference nodes
  const SimulateOptions& options_;
  RunReport report_;
  std::optional<ScratchFolder> folder_;
  std::unique_ptr<SwitchedRun> switched_;
  std::optional<DeadlockSearch> search_;  ///< where there are switches
  PortList ports_;
  std::unique_ptr<Shard> shard_;
  std::unique_ptr<ShardControl> shard_control_;
  std::unique_ptr<Control> control_;
  std::unique_ptr<EmulatedSide> side_;
  std::unique_ptr<VirtualHost> host_;
  std::optional<ReferenceNodes> reference_;
  std::vector<std::unique_ptr<CollectiveSetup>> reference_setups_;
  std::vector<std::unique_ptr<ReferenceJob>> reference_jobs_;
  std::unique_ptr<Simulation> simulation_;
  Progress progress_{options_.progress};
  /// Ends before the sockets that they are joined to.
  KernelGuests guests_{config_, [this](const std::string& line) { say(line); }};
};

Result<void> KernelRun::open() {
  if (const std::string why = why_no_kernels(config_); !why.empty()) return fail(why);
  auto folder = ScratchFolder::create();
  if (!folder) return fail(folder.error().text);
  folder_.emplace(std::move(*folder));
  if (auto opened = open_emulated(); !opened) return opened;
  if (auto opened = open_reference_jobs(); !opened) return opened;
  if (auto made = guests_.make(folder_->name()); !made) return made;
  std::vector<SimulationPair> pairs;
  const std::vector<uint32_t> numbers = port_numbers(config_, ports_);
  for (const size_t port : ports_) {
    const ReferenceNodes::Port& far = reference_->behind(port);
    pairs.push_back({config_.nodes[config_.ports[port].node].name, shard_.get(),
                     far.side == nullptr ? nullptr : &far.side->shard, numbers[port], far.number});
  }
  auto simulation = Simulation::create(pairs, options_.capture_path, guests_.plans(),
                                       {options_.patience_ms, options_.signal});
  if (!simulation) return fail(simulation.error().text);
  simulation_ = std::move(*simulation);
  simulation_->join(*control_);
  if (switched_ != nullptr) {
    // Its timers, and those of its queue pairs, may go on for ever.
    search_.emplace(*shard_->network());
    simulation_->watch([this] {
      return find_no_deadlock(config_.path, switched_->topology().graph, *shard_->network(),
                              *search_);
    });
  }
  for (const EventConfig& event : all_events(config_, options_.commands)) {
    shard_control_->set_link(event.node, event.rate, event.latency, event.at);
    simulation_->note_change({event.at, event.node, event.rate, event.latency});
    report_.commands.push_back({event.at, command_text(config_, event)});
  }
  return guests_.boot(*simulation_, [this] { return stopped(); });
}

Result<void> KernelRun::open_emulated() {
  if (const std::string why = why_not_carried(config_); !why.empty()) return fail(why);
  if (is_switched(config_)) {
    auto made = SwitchedRun::create(config_);
    if (!made) return fail(made.error().text);
    switched_ = std::move(*made);
  }
  auto setups = JobRunner::plan(told_, switched_.get(), true);
  if (!setups) return fail(setups.error().text);
  for (const JobConfig& job : config_.jobs) {
    if (!has_reference_ranks(config_, job)) continue;
    auto setup = ReferenceJob::plan(config_, job, switched_.get());
    if (!setup) return fail(setup.error().text);
    reference_setups_.push_back(std::move(*setup));
  }
  ports_.resize(config_.ports.size());
  std::iota(ports_.begin(), ports_.end(), size_t{0});
  ShardConfig shard = emulator_shard(config_, ports_, kHostNamespaceMac);
  if (switched_ != nullptr) switched_->enter(shard);
  shard_ = std::make_unique<Shard>(shard);
  shard_control_ = std::make_unique<ShardControl>(*shard_);
  control_ = std::make_unique<Control>(*shard_);
  EmulatedSide::Shards all{{ports_}, {shard_control_.get()}, nullptr};
  if (switched_ != nullptr) all.topology = &switched_->topology();
  auto side = EmulatedSide::create(
      told_, std::move(all), std::move(*setups), report_, [this] { return control_->now(); },
      [this](const std::string& line) { say(line); });
  if (!side) return fail(side.error().text);
  side_ = std::move(*side);
  if (options_.timeline) side_->jobs().record();
  HostNamespaceSpec spec = emulated_addresses(config_);
  spec.mtu = config_.fabric.mtu + kGuestHeaders;
  host_ = std::make_unique<VirtualHost>(
      spec, config_.seed, side_->callbacks(), [this](std::span<const uint8_t> frame) {
        uint8_t* out = shard_->from_host().reserve(static_cast<uint32_t>(frame.size()));
        if (out == nullptr) return;  // TCP repeats
        std::ranges::copy(frame, out);
        shard_->from_host().commit(static_cast<uint32_t>(frame.size()));
      });
  control_->attach(*side_, *host_);
  return side_->open(*host_);
}

NicSides KernelRun::sides(NodeId node, uint32_t nic) const {
  size_t i = 0;
  while (config_.ports[i].node != node || config_.ports[i].nic != nic) ++i;
  return {shard_control_.get(), &reference_->behind(i).side->control};
}

Result<void> KernelRun::open_reference_jobs() {
  reference_.emplace(config_, true);
  size_t next = 0;
  for (size_t i = 0; i < config_.jobs.size(); ++i) {
    if (!has_reference_ranks(config_, config_.jobs[i])) continue;
    auto made = ReferenceJob::create(
        config_, i, std::move(reference_setups_[next++]),
        [this](NodeId node, uint32_t nic) { return sides(node, nic); }, "");
    if (!made) return fail(made.error().text);
    if (options_.timeline) (*made)->record();
    (*made)->start();
    reference_jobs_.push_back(std::move(*made));
  }
  return {};
}

bool KernelRun::over() const {
  return guests_.over() &&
         std::ranges::all_of(reference_jobs_, [](const auto& job) { return job->over(); });
}

uint64_t KernelRun::signs_of_life() const {
  uint64_t all = guests_.frames();
  for (const auto& job : reference_jobs_) all += job->progress();
  return all;
}

Result<void> KernelRun::run() {
  const auto work = [&] {
    return format_text("%llu frames in %.1f s", static_cast<unsigned long long>(guests_.frames()),
                       progress_.seconds());
  };
  Time last;  // that anything was seen of them
  for (uint64_t seen = 0; !over();) {
    const Time until = std::max(simulation_->now(), simulation_->next()) + kLook;
    if (auto ran = simulation_->run(until); !ran) return ran;
    if (stopped()) break;
    if (auto looked = guests_.look(); !looked) return looked;
    const Time now = simulation_->now();
    if (progress_.due() && guests_.frames() != 0)
      progress_.line("at " + time_text(now) + ": " + work(), 0);
    if (signs_of_life() != seen) {
      seen = signs_of_life();
      last = now;
    } else if (now - last > kLongestSilence) {
      return fail(
          "no kernel has sent or received anything for an hour of virtual time: programs wait for "
          "what does not come");
    }
  }
  if (stopped()) report_.ended_by = *options_.signal == SIGINT ? "SIGINT" : "SIGTERM";
  if (const auto all = static_cast<double>(guests_.frames()); all != 0) {
    say(work() + format_text(", %.2f ms each", 1e3 * progress_.seconds() / all));
  }
  return {};
}

/// Reports of reference nodes' jobs to those of kernels', as the configuration lists them.
void KernelRun::add_jobs() {
  std::vector<JobReport> others = std::move(report_.jobs);
  report_.jobs.clear();
  size_t other = 0, reference = 0;
  for (const JobConfig& job : config_.jobs) {
    if (!has_reference_ranks(config_, job)) {
      report_.jobs.push_back(std::move(others[other++]));
      continue;
    }
    ReferenceJob& own = *reference_jobs_[reference++];
    report_.jobs.push_back(own.report());
    if (options_.timeline) own.add_timeline(report_.timeline);
  }
}

Result<RunReport> KernelRun::finish() {
  const Time end = simulation_->now();
  report_.duration = end - Time::zero();
  side_->finish(options_.timeline);
  add_jobs();
  ShardSnapshot snapshot;
  for (const size_t port : ports_) {
    shard_->fit(snapshot);
    shard_->snapshot(snapshot, end, port_numbers(config_, ports_)[port]);
    report_.ports.push_back(port_report(config_.nodes[config_.ports[port].node].name,
                                        config_.ports[port], config_, shard_->node_table(),
                                        snapshot, PortCounters{}));
    if (port != 0) leave_out_shared(report_.ports.back());
    reference_->add_senders(report_.ports.back(), config_, port, end);
  }
  report_.ports.front().cm = side_->cm_counters(0);
  if (switched_ != nullptr) report_.traffic = switched_->report(snapshot, end);
  if (!options_.capture_path.empty()) report_.capture_drops = 0;
  if (auto closed = simulation_->close(); !closed) return fail(closed.error().text);
  auto kernels = guests_.finish(report_.ended_by.has_value());
  if (!kernels) return fail(kernels.error().text);
  report_.kernels = std::move(*kernels);
  judge(report_);
  return std::move(report_);
}

}  // namespace

Result<RunReport> run_kernels(const Config& given, const SimulateOptions& options) {
  const Config config = with_inner_packets(given);
  KernelRun run(config, options);
  if (auto opened = run.open(); !opened) return fail(opened.error().text);
  if (auto ran = run.run(); !ran) return fail(ran.error().text);
  return run.finish();
}

}  // namespace understudy
