#include "ctrl/run/simulate.h"

#include <algorithm>
#include <csignal>
#include <iterator>
#include <memory>
#include <optional>

#include "ctrl/config/kernel_nodes.h"
#include "ctrl/guest/scratch_folder.h"
#include "ctrl/jobs/rank_timeline.h"
#include "ctrl/network/link_changes.h"
#include "ctrl/network/progress.h"
#include "ctrl/network/trace_reports.h"
#include "ctrl/network/training_reports.h"
#include "ctrl/report/drills/judge_drills.h"
#include "ctrl/report/text.h"
#include "ctrl/run/emulator.h"
#include "ctrl/run/held_drills.h"
#include "ctrl/run/kernel_guests.h"
#include "ctrl/run/reference_side.h"
#include "ctrl/run/run_sampler.h"
#include "ctrl/run/start_report.h"
#include "ctrl/run/virtual_control.h"
#include "dataplane/base/text_format.h"
#include "dataplane/base/try.h"
#include "dataplane/virtual_time/simulation.h"

namespace understudy {
namespace {

/// Between looks at signals and at what has failed.
constexpr Duration kLook = Duration::ms(1);
/// No program waits so long for anything, and no timer of a protocol does.
constexpr Duration kLongestSilence = Duration::s(3600);

/// Participants are made in the order of the members and end in the opposite one.
class VirtualRun {
 public:
  VirtualRun(const Scenario& scenario, const SimulateOptions& options)
      : scenario_(scenario),
        config_(scenario.config),
        options_(options),
        report_(start_report(config_, true)),
        drills_(scenario, report_),
        guests_(config_, [this](const std::string& line) { say(line); }) {}

  Result<void> open();
  Result<void> run();
  Result<RunReport> finish();

 private:
  Result<void> open_kernels();
  Result<void> open_simulation();
  Result<void> open_series();
  Result<void> run_to_rest();
  Result<void> run_kernels();
  Result<void> run_until(Time until);
  bool break_off(const Error& why);
  void begin_drills();
  Result<void> look_for_silence();
  Result<void> look();
  void say_progress();
  bool has_kernels() const { return folder_.has_value(); }
  /// All programs and operations are done, or have failed.
  bool over() const {
    if (!guests_.over() || !reference_->over()) return false;
    if (control_ == nullptr) return true;
    const JobRunner& jobs = control_->side().jobs();
    return jobs.reference_over() && jobs.settled();
  }
  bool all_over() const;
  /// Null: a shard has the network, or there is none.
  LoneFlows* alone() const {
    return emulator_->network() == nullptr ? nullptr : emulator_->network()->alone();
  }
  /// Frames of kernels and operations of reference nodes.
  uint64_t signs_of_life() const { return guests_.frames() + reference_->progress(); }
  std::string work() const;
  Time end() const;
  void say(const std::string& line) const {
    if (options_.progress) options_.progress(line);
  }
  bool stopped() const { return options_.signal != nullptr && *options_.signal != 0; }

  const Scenario& scenario_;
  const Config& config_;
  const SimulateOptions& options_;
  RunReport report_;
  HeldDrills drills_;
  std::optional<ScratchFolder> folder_;  ///< of kernels, if there are any
  std::unique_ptr<Emulator> emulator_;
  std::optional<ReferenceSide> reference_;
  std::unique_ptr<VirtualControl> control_;  ///< null: nobody has sockets
  std::unique_ptr<RunSampler> sampler_;
  std::unique_ptr<Simulation> simulation_;
  Progress progress_{options_.progress};
  bool at_rest_ = false;  ///< nothing happens any more
  uint64_t seen_ = 0;     ///< signs of life
  Time last_;             ///< that there were any
  /// Ends before the sockets that they are joined to.
  KernelGuests guests_;
};

Result<void> VirtualRun::open() {
  const bool kernels = understudy::has_kernels(config_);
  auto emulator = Emulator::create(scenario_, options_.timeline, options_.progress);
  if (!emulator) return tl::unexpected(emulator.error());
  emulator_ = std::move(*emulator);
  reference_.emplace(config_, *emulator_);
  if (kernels) {
    if (auto opened = open_kernels(); !opened) return opened;
  }
  if (auto opened = reference_->open(options_.feed_path, options_.timeline); !opened) return opened;
  if (auto opened = open_series(); !opened) return opened;
  if (auto opened = open_simulation(); !opened) return opened;
  std::vector<LinkChange> notes;
  for (const EventConfig& event : scenario_.changes) {
    emulator_->change(event, report_);
    std::ranges::copy(capture_notes(event), std::back_inserter(notes));
  }
  if (!drills_.any()) emulator_->expect_no_more();
  std::ranges::stable_sort(notes, {}, &LinkChange::at);
  for (const LinkChange& note : notes) simulation_->note_change(note);
  if (!kernels) return {};
  return guests_.boot(*simulation_, [this] { return stopped(); });
}

Result<void> VirtualRun::open_kernels() {
  auto folder = ScratchFolder::create();
  if (!folder) return tl::unexpected(folder.error());
  folder_.emplace(std::move(*folder));
  auto control = VirtualControl::create(config_, *emulator_, reference_->nodes().controls(),
                                        options_.feed_path, report_,
                                        [this](const std::string& line) { say(line); });
  if (!control) return tl::unexpected(control.error());
  control_ = std::move(*control);
  if (options_.timeline) control_->side().jobs().record();
  return guests_.make(folder_->name());
}

Result<void> VirtualRun::open_series() {
  const auto pairs = [this] {
    auto all = reference_->controlled();
    if (control_ == nullptr) return all;
    const auto of_kernels = control_->side().jobs().controlled();
    all.insert(all.end(), of_kernels.begin(), of_kernels.end());
    return all;
  };
  sampler_ = TRY(RunSampler::create(options_.series, *emulator_, pairs));
  return {};
}

Result<void> VirtualRun::open_simulation() {
  std::vector<SimulationPair> pairs;
  for (size_t i = 0; i < emulator_->ports(); ++i) {
    const Emulator::Port& port = emulator_->port(i);
    const ReferenceNodes::Port& far = reference_->nodes().behind(i);
    pairs.push_back({config_.nodes[config_.ports[i].node].name, &port.side->shard,
                     far.side == nullptr ? nullptr : &far.side->shard, port.number, far.number});
  }
  auto simulation = Simulation::create(pairs, options_.capture_path, guests_.plans(),
                                       {options_.patience_ms, options_.signal});
  if (!simulation) return tl::unexpected(simulation.error());
  simulation_ = std::move(*simulation);
  if (control_ != nullptr) simulation_->join(*control_);
  if (alone() != nullptr) simulation_->join(*alone());
  if (emulator_->network() != nullptr) simulation_->watch([this] { return look(); });
  return {};
}

/// And so are the flows beside them.
bool VirtualRun::all_over() const {
  const SharedNetwork& network = *emulator_->network();
  if (network.alone() != nullptr) return network.alone()->over();
  const bool more = !scenario_.changes.empty() && simulation_->now() <= scenario_.changes.back().at;
  const FlowTraffic* packets = network.packets();
  const FlowModel* rates = network.rates();
  if (packets != nullptr && !packets->all_finished() && (more || !packets->at_rest())) return false;
  if (rates != nullptr) {
    const size_t ended = rates->finished() + (more ? 0 : rates->stopped());
    if (ended < network.flows().size()) return false;
  }
  return over();
}

Result<void> VirtualRun::run() {
  auto ran = has_kernels() ? run_kernels() : run_to_rest();
  if (!ran && break_off(ran.error())) return {};
  return ran;
}

/// Those that wait for operations of a kernel's program.
void VirtualRun::begin_drills() {
  if (!drills_.any()) return;
  drills_.look(control_->side().jobs(), simulation_->now(), kLook,
               [this](const EventConfig& event) {
                 emulator_->change(event, report_);
                 for (const LinkChange& note : capture_notes(event)) simulation_->note_change(note);
               });
}

/// Drills want to know when and why a run got no further: it is judged then.
bool VirtualRun::break_off(const Error& why) {
  if (config_.drills.empty()) return false;
  report_.broken_off = BreakReport{simulation_->now(), why.text};
  return true;
}

Result<void> VirtualRun::run_to_rest() {
  if (scenario_.real_side) say("simulating in virtual time ...");
  if (sampler_ != nullptr) {
    auto ran = sampler_->run(*simulation_, [this] { return all_over(); });
    if (!ran) return ran;
  }
  if (auto ran = simulation_->run(Time::never()); !ran) return ran;
  at_rest_ = true;
  return emulator_->find_nothing_left();
}

/// Now and then: a network's timers, and those of its queue pairs, may go on for ever.
Result<void> VirtualRun::look() {
  if (alone() != nullptr && progress_.due()) {
    progress_.line(alone()->progress(progress_.seconds()), alone()->share_done());
  }
  if (auto found = emulator_->find_no_deadlock(); !found) return found;
  return emulator_->find_no_standstill(simulation_->now());
}

Result<void> VirtualRun::run_until(Time until) {
  return sampler_ == nullptr ? simulation_->run(until) : sampler_->run_until(*simulation_, until);
}

/// Kernels have no rest: until all have said what they came to.
Result<void> VirtualRun::run_kernels() {
  while (!over()) {
    const Time until = std::max(simulation_->now(), simulation_->next()) + kLook;
    if (auto ran = run_until(until); !ran) return ran;
    if (stopped()) break;
    begin_drills();
    if (auto looked = guests_.look(); !looked) return looked;
    say_progress();
    if (auto looked = look_for_silence(); !looked) return looked;
  }
  // What is on its way to the reference nodes belongs into the capture.
  const bool reference = !reference_->empty() || control_->side().jobs().has_reference();
  if (reference && !stopped()) {
    if (auto ran = run_until(simulation_->now() + kLook); !ran) return ran;
  }
  if (stopped()) report_.ended_by = *options_.signal == SIGINT ? "SIGINT" : "SIGTERM";
  if (const auto all = static_cast<double>(guests_.frames()); all != 0) {
    say(work() + format_text(", %.2f ms each", 1e3 * progress_.seconds() / all));
  }
  return {};
}

std::string VirtualRun::work() const {
  return format_text("%llu frames in %.1f s", static_cast<unsigned long long>(guests_.frames()),
                     progress_.seconds());
}

void VirtualRun::say_progress() {
  if (!progress_.due() || guests_.frames() == 0) return;
  progress_.line("at " + time_text(simulation_->now()) + ": " + work(), 0);
}

Result<void> VirtualRun::look_for_silence() {
  const Time now = simulation_->now();
  if (signs_of_life() != seen_) {
    seen_ = signs_of_life();
    last_ = now;
    return {};
  }
  if (now - last_ <= kLongestSilence) return {};
  return fail(guests_.over()
                  ? "a reference node's job has got no further for an hour of virtual time"
                  : "no kernel has sent or received anything for an hour of virtual time: "
                    "programs wait for what does not come" +
                        guests_.waiting());
}

/// Kernels and their sockets go on; without, all ends with the last operation.
Time VirtualRun::end() const {
  if (has_kernels()) return simulation_->now();
  if (alone() != nullptr) return alone()->end();
  Time end;
  for (const JobReport& job : report_.jobs) {
    for (const CollectiveReport& c : job.collectives) end = std::max(end, c.end());
  }
  return end;
}

Result<RunReport> VirtualRun::finish() {
  if (control_ != nullptr) control_->side().finish(options_.timeline);
  reference_->finish(report_, options_.timeline);
  // A job that has failed says more than flows that wait for it.
  const auto failed = [](const JobReport& job) { return job.failed; };
  if (at_rest_ && std::ranges::none_of(report_.jobs, failed)) {
    auto found = emulator_->find_none_stuck(simulation_->now());
    if (!found && !break_off(found.error())) return tl::unexpected(found.error());
  }
  if (alone() != nullptr && options_.timeline) {
    add_timeline(report_.timeline, config_, *emulator_->network());
    if (const TrainingJob* training = emulator_->network()->training()) {
      add_training_timeline(report_.timeline, config_, *training);
    }
    if (const TraceOnNetwork* traces = emulator_->network()->traces()) {
      add_trace_timeline(report_.timeline, config_, *traces);
    }
  }
  const Time end = this->end();
  report_.duration = end - Time::zero();
  emulator_->report(report_, end, [](size_t) { return PortCounters{}; });
  if (control_ != nullptr) control_->side().report_cm();
  for (size_t i = 0; i < report_.ports.size(); ++i) {
    reference_->nodes().add_senders(report_.ports[i], config_, i, end);
  }
  if (sampler_ != nullptr) {
    auto done = sampler_->finish(config_.path, end);
    if (!done) return tl::unexpected(done.error());
  }
  if (!options_.capture_path.empty()) report_.capture_drops = 0;
  if (auto closed = simulation_->close(); !closed) return tl::unexpected(closed.error());
  auto kernels = guests_.finish(report_.ended_by.has_value());
  if (!kernels) return tl::unexpected(kernels.error());
  report_.kernels = std::move(*kernels);
  judge_drills(report_);
  judge(report_);
  return std::move(report_);
}

}  // namespace

Result<RunReport> simulate(const Scenario& scenario, const SimulateOptions& options) {
  VirtualRun run(scenario, options);
  TRY(run.open());
  TRY(run.run());
  return run.finish();
}

}  // namespace understudy
