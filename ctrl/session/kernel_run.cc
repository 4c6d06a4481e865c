#include "ctrl/session/kernel_run.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <numeric>

#include "ctrl/build/rail.h"
#include "ctrl/config/kernel_nodes.h"
#include "ctrl/guest/guest_process.h"
#include "ctrl/guest/scratch_folder.h"
#include "ctrl/report/collect.h"
#include "ctrl/report/text.h"
#include "ctrl/session/commands_text.h"
#include "ctrl/session/deadlock.h"
#include "ctrl/session/emulated_side.h"
#include "ctrl/session/progress.h"
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
/// Between looks at signals and at what has failed; at what was printed, in the host's time.
constexpr Duration kLook = Duration::ms(1);
constexpr std::chrono::milliseconds kPrint(200);
/// No program waits so long for anything, and no timer of a protocol does.
constexpr Duration kLongestSilence = Duration::s(3600);
/// What RoCE's headers and UDP's take of an IP packet, and more: rdma_rxe takes the largest path
/// MTU that fits.
constexpr uint32_t kHeaders = 104;

/// What tools/guest_poll builds, beside this program; empty where it was left out.
std::string poll_library() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto library =
      self.parent_path().parent_path() / "tools/guest_poll/libunderstudy-guest-poll.so";
  return std::filesystem::exists(library, error) ? library.string() : "";
}

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

class KernelRun {
 public:
  KernelRun(const Config& config, const SimulateOptions& options)
      : config_(config), options_(options), report_(start_report(config, true)) {}

  Result<void> open();
  Result<void> run();
  Result<RunReport> finish();

 private:
  struct Guest {
    NodeId node = kNoNode;
    std::unique_ptr<GuestProcess> process;
    std::string line;  ///< of its program's output, as far as it has come
  };
  Result<void> open_emulated();
  Result<void> make_guests(const std::string& folder);
  Result<void> boot();
  GuestSettings settings_of(const NodeConfig& node, uint32_t number) const;
  void say(const std::string& line) const {
    if (options_.progress) options_.progress(line);
  }
  void print(Guest& guest);
  tl::unexpected<Error> failed(const Guest& guest, const std::string& why) const;
  Result<void> look();
  bool over() const;
  bool stopped() const { return options_.signal != nullptr && *options_.signal != 0; }
  uint64_t frames() const;

  const Config& config_;
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
  std::vector<SimulationGuest> plans_;
  std::unique_ptr<Simulation> simulation_;
  Progress progress_{options_.progress};
  std::chrono::steady_clock::time_point next_print_;
  std::vector<Guest> guests_;  ///< ends before the sockets that they are joined to
};

Result<void> KernelRun::open() {
  if (const std::string why = why_no_kernels(config_); !why.empty()) return fail(why);
  auto folder = ScratchFolder::create();
  if (!folder) return fail(folder.error().text);
  folder_.emplace(std::move(*folder));
  if (auto opened = open_emulated(); !opened) return opened;
  if (auto made = make_guests(folder_->name()); !made) return made;
  std::vector<SimulationPair> pairs;
  const std::vector<uint32_t> numbers = port_numbers(config_, ports_);
  for (const size_t port : ports_) {
    pairs.push_back(
        {config_.nodes[config_.ports[port].node].name, shard_.get(), nullptr, numbers[port], 0});
  }
  auto simulation = Simulation::create(pairs, options_.capture_path, plans_,
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
  return boot();
}

Result<void> KernelRun::open_emulated() {
  if (const std::string why = why_not_carried(config_); !why.empty()) return fail(why);
  if (is_switched(config_)) {
    auto made = SwitchedRun::create(config_);
    if (!made) return fail(made.error().text);
    switched_ = std::move(*made);
  }
  auto setups = JobRunner::plan(config_, switched_.get(), true);
  if (!setups) return fail(setups.error().text);
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
      config_, std::move(all), std::move(*setups), report_, [this] { return control_->now(); },
      [this](const std::string& line) { say(line); });
  if (!side) return fail(side.error().text);
  side_ = std::move(*side);
  if (options_.timeline) side_->jobs().record();
  HostNamespaceSpec spec = emulated_addresses(config_);
  spec.mtu = config_.fabric.mtu + kHeaders;
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

GuestSettings KernelRun::settings_of(const NodeConfig& node, uint32_t number) const {
  GuestSettings settings;
  settings.name = node.name;
  settings.number = number;
  settings.memory_mb = static_cast<uint32_t>(node.kernel->memory >> 20);
  settings.program = node.kernel->program;
  settings.share = node.kernel->share;
  settings.preload = poll_library();
  for (unsigned n = 0; n < node.nics.size(); ++n) {
    const NicConfig& nic = node.nics[n];
    GuestNetwork network;
    network.mac = nic.mac;
    network.mtu = config_.fabric.mtu + kHeaders;
    network.vlan = nic.vlan;
    network.pcp = nic.pcp;
    for (const PrefixConfig& prefix : config_.prefixes) {
      if (prefix.nic != n) continue;
      if (nic.v4 && prefix.v4) {
        network.addresses.push_back(nic.v4->text() + "/" + std::to_string(prefix.v4->length));
      }
      if (nic.v6 && prefix.v6) {
        network.addresses.push_back(nic.v6->text() + "/" + std::to_string(prefix.v6->length));
      }
    }
    settings.networks.push_back(std::move(network));
  }
  return settings;
}

Result<void> KernelRun::make_guests(const std::string& folder) {
  for (const NodeConfig& node : config_.nodes) {
    if (!node.kernel) continue;
    const auto number = static_cast<uint32_t>(guests_.size() + 1);
    auto process = GuestProcess::create(settings_of(node, number), folder);
    if (!process) return fail("node \"" + node.name + "\": " + process.error().text);
    plans_.push_back({node.name,
                      (*process)->folder(),
                      {},
                      {node.kernel->packet_cost, node.kernel->message_cost}});
    guests_.push_back({node.index, std::move(*process), ""});
    // In the order in which the kernel will find them, whatever that of the ports.
    for (size_t nic = 0; nic < node.nics.size(); ++nic) {
      const auto port = std::ranges::find_if(
          config_.ports, [&](const PortConfig& p) { return p.node == node.index && p.nic == nic; });
      plans_.back().nics.push_back({static_cast<size_t>(port - config_.ports.begin()),
                                    node.nics[nic].mac, node.nics[nic].link_rate});
    }
  }
  return {};
}

Result<void> KernelRun::boot() {
  const auto image = GuestImage::find();
  if (!image) return fail(image.error().text);
  for (size_t i = 0; i < guests_.size(); ++i) {
    Guest& guest = guests_[i];
    if (auto started = guest.process->start(*image); !started) {
      return failed(guest, started.error().text);
    }
    auto booted = simulation_->guest(i).boot(guest.process->process());
    if (!booted && !stopped()) return failed(guest, booted.error().text);
  }
  say(std::to_string(guests_.size()) +
      (guests_.size() == 1 ? " kernel has begun" : " kernels have begun"));
  return {};
}

bool KernelRun::over() const {
  for (size_t i = 0; i < guests_.size(); ++i) {
    if (!simulation_->guest(i).over()) return false;
  }
  return true;
}

/// Whole lines of what a program has printed.
void KernelRun::print(Guest& guest) {
  guest.line += guest.process->take_output();
  for (size_t end; (end = guest.line.find('\n')) != std::string::npos;) {
    say(config_.nodes[guest.node].name + ": " + guest.line.substr(0, end));
    guest.line.erase(0, end + 1);
  }
}

tl::unexpected<Error> KernelRun::failed(const Guest& guest, const std::string& why) const {
  return fail("node \"" + config_.nodes[guest.node].name + "\": " + why +
              guest.process->how_it_ended() + guest.process->last_words());
}

Result<void> KernelRun::look() {
  const auto wall = std::chrono::steady_clock::now();
  const bool printing = wall >= next_print_;
  if (printing) next_print_ = wall + kPrint;
  for (size_t i = 0; i < guests_.size(); ++i) {
    const std::string& failure = simulation_->guest(i).failure();
    if (printing || !failure.empty()) print(guests_[i]);
    if (!failure.empty()) return failed(guests_[i], failure);
  }
  return {};
}

uint64_t KernelRun::frames() const {
  uint64_t all = 0;
  for (size_t i = 0; i < guests_.size(); ++i) {
    const GuestNode::Counters counters = simulation_->guest(i).counters();
    all += counters.tx_frames + counters.rx_frames;
  }
  return all;
}

Result<void> KernelRun::run() {
  const auto work = [&] {
    return format_text("%llu frames in %.1f s", static_cast<unsigned long long>(frames()),
                       progress_.seconds());
  };
  Time last;  // that anything was seen of them
  for (uint64_t seen = 0; !over();) {
    const Time until = std::max(simulation_->now(), simulation_->next()) + kLook;
    if (auto ran = simulation_->run(until); !ran) return ran;
    if (stopped()) break;
    if (auto looked = look(); !looked) return looked;
    const Time now = simulation_->now();
    if (progress_.due() && frames() != 0) progress_.line("at " + time_text(now) + ": " + work(), 0);
    if (frames() != seen) {
      seen = frames();
      last = now;
    } else if (now - last > kLongestSilence) {
      return fail(
          "no kernel has sent or received anything for an hour of virtual time: programs wait for "
          "what does not come");
    }
  }
  if (stopped()) report_.ended_by = *options_.signal == SIGINT ? "SIGINT" : "SIGTERM";
  if (const auto all = static_cast<double>(frames()); all != 0) {
    say(work() + format_text(", %.2f ms each", 1e3 * progress_.seconds() / all));
  }
  return {};
}

Result<RunReport> KernelRun::finish() {
  const Time end = simulation_->now();
  report_.duration = end - Time::zero();
  side_->finish(options_.timeline);
  ShardSnapshot snapshot;
  for (const size_t port : ports_) {
    shard_->fit(snapshot);
    shard_->snapshot(snapshot, end, port_numbers(config_, ports_)[port]);
    report_.ports.push_back(port_report(config_.nodes[config_.ports[port].node].name,
                                        config_.ports[port], config_, shard_->node_table(),
                                        snapshot, PortCounters{}));
    if (port != 0) leave_out_shared(report_.ports.back());
  }
  report_.ports.front().cm = side_->cm_counters(0);
  if (switched_ != nullptr) report_.traffic = switched_->report(snapshot, end);
  if (!options_.capture_path.empty()) report_.capture_drops = 0;
  if (auto closed = simulation_->close(); !closed) return fail(closed.error().text);
  for (size_t i = 0; i < guests_.size(); ++i) {
    Guest& guest = guests_[i];
    print(guest);
    if (!guest.line.empty()) say(config_.nodes[guest.node].name + ": " + guest.line);
    KernelReport kernel;
    kernel.node = config_.nodes[guest.node].name;
    kernel.exit_status = guest.process->status();
    if (!kernel.exit_status && !report_.ended_by) {
      return failed(guest, "its kernel ended before its program");
    }
    const GuestNode::Counters counters = simulation_->guest(i).counters();
    kernel.counters = {
        {"frames_sent", counters.tx_frames},          {"frames_received", counters.rx_frames},
        {"frames_without_buffers", counters.no_room}, {"broken_buffers", counters.broken},
        {"interrupts", counters.interrupts},          {"turns", counters.runs}};
    report_.kernels.push_back(std::move(kernel));
  }
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
