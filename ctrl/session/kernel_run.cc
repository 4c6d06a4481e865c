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
#include "ctrl/session/reference_side.h"
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

/// With inner messages packet by packet as for reference nodes, but for NCCL's jobs: their plans
/// may be made again, which they are not in a network.
Config with_packets(const Config& config) {
  Config changed = with_inner_packets(config);
  for (size_t j = 0; j < config.jobs.size(); ++j) {
    if (config.jobs[j].join) changed.jobs[j].inner = config.jobs[j].inner;
  }
  return changed;
}

class KernelRun {
 public:
  KernelRun(const Config& config, const SimulateOptions& options)
      : config_(with_packets(config)),
        told_(without_reference_jobs(config_)),
        options_(options),
        report_(start_report(config, true)) {}

  Result<void> open();
  Result<void> run();
  Result<RunReport> finish();

 private:
  Result<void> open_emulated();
  bool over() const { return guests_.over() && reference_.over(); }
  /// Frames of kernels and operations of reference nodes.
  uint64_t signs_of_life() const { return guests_.frames() + reference_.progress(); }
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
  ReferenceSide reference_{config_};
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
  if (auto opened = reference_.open(*shard_control_, options_.timeline); !opened) return opened;
  if (auto made = guests_.make(folder_->name()); !made) return made;
  std::vector<SimulationPair> pairs;
  const std::vector<uint32_t> numbers = port_numbers(config_, ports_);
  for (const size_t port : ports_) {
    const ReferenceNodes::Port& far = reference_.nodes().behind(port);
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
  if (auto planned = reference_.plan(switched_.get()); !planned) return planned;
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
      return fail(guests_.over()
                      ? "a reference node's job has got no further for an hour of virtual time"
                      : "no kernel has sent or received anything for an hour of virtual time: "
                        "programs wait for what does not come" +
                            guests_.waiting());
    }
  }
  // What is on its way to the reference nodes belongs into the capture.
  if (!reference_.empty() && !stopped()) {
    if (auto ran = simulation_->run(simulation_->now() + kLook); !ran) return ran;
  }
  if (stopped()) report_.ended_by = *options_.signal == SIGINT ? "SIGINT" : "SIGTERM";
  if (const auto all = static_cast<double>(guests_.frames()); all != 0) {
    say(work() + format_text(", %.2f ms each", 1e3 * progress_.seconds() / all));
  }
  return {};
}

Result<RunReport> KernelRun::finish() {
  const Time end = simulation_->now();
  report_.duration = end - Time::zero();
  side_->finish(options_.timeline);
  reference_.finish(report_, options_.timeline);
  ShardSnapshot snapshot;
  for (const size_t port : ports_) {
    shard_->fit(snapshot);
    shard_->snapshot(snapshot, end, port_numbers(config_, ports_)[port]);
    report_.ports.push_back(port_report(config_.nodes[config_.ports[port].node].name,
                                        config_.ports[port], config_, shard_->node_table(),
                                        snapshot, PortCounters{}));
    if (port != 0) leave_out_shared(report_.ports.back());
    reference_.nodes().add_senders(report_.ports.back(), config_, port, end);
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

Result<RunReport> run_kernels(const Config& config, const SimulateOptions& options) {
  KernelRun run(config, options);
  if (auto opened = run.open(); !opened) return fail(opened.error().text);
  if (auto ran = run.run(); !ran) return fail(ran.error().text);
  return run.finish();
}

}  // namespace understudy
