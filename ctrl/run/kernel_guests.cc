#include "ctrl/run/kernel_guests.h"

#include <filesystem>
#include <utility>

#include "ctrl/config/port_of.h"

namespace understudy {
namespace {

/// Between looks at what was printed, in the host's time.
constexpr std::chrono::milliseconds kPrint(200);

/// What tools/rigs/guest_poll builds, beside this program; empty where it was left out.
std::string poll_library() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto library =
      self.parent_path().parent_path() / "tools/rigs/guest_poll/libunderstudy-guest-poll.so";
  return std::filesystem::exists(library, error) ? library.string() : "";
}

}  // namespace

GuestSettings KernelGuests::settings_of(const NodeConfig& node, uint32_t number) const {
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
    network.mtu = config_.fabric.mtu + kGuestHeaders;
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

Result<void> KernelGuests::make(const std::string& folder) {
  for (const NodeConfig& node : config_.nodes) {
    if (!node.kernel) continue;
    const auto number = static_cast<uint32_t>(guests_.size() + 1);
    auto process = GuestProcess::create(settings_of(node, number), folder);
    if (!process) return fail("node \"" + node.name + "\": " + process.error().text);
    plans_.push_back({node.name,
                      (*process)->folder(),
                      {},
                      {node.kernel->packet_cost, node.kernel->message_cost}});
    guests_.push_back({node.index, std::move(*process), "", false});
    // In the order in which the kernel will find them, whatever that of the ports.
    for (size_t nic = 0; nic < node.nics.size(); ++nic) {
      plans_.back().nics.push_back(
          {*port_of(config_, node.index, nic), node.nics[nic].mac, node.nics[nic].link_rate});
    }
  }
  return {};
}

Result<void> KernelGuests::boot(Simulation& simulation, const std::function<bool()>& stopped) {
  simulation_ = &simulation;
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
  say_(std::to_string(guests_.size()) +
       (guests_.size() == 1 ? " kernel has begun" : " kernels have begun"));
  return {};
}

bool KernelGuests::over() const {
  for (size_t i = 0; i < guests_.size(); ++i) {
    if (!simulation_->guest(i).over()) return false;
  }
  return true;
}

/// Whole lines of what a program has printed.
void KernelGuests::print(Guest& guest) {
  guest.line += guest.process->take_output();
  for (size_t end; (end = guest.line.find('\n')) != std::string::npos;) {
    say_(config_.nodes[guest.node].name + ": " + guest.line.substr(0, end));
    guest.line.erase(0, end + 1);
  }
}

tl::unexpected<Error> KernelGuests::failed(const Guest& guest, const std::string& why) const {
  return fail("node \"" + config_.nodes[guest.node].name + "\": " + why +
              guest.process->how_it_ended() + guest.process->last_words());
}

Result<void> KernelGuests::look() {
  const auto wall = std::chrono::steady_clock::now();
  const bool printing = wall >= next_print_;
  if (printing) next_print_ = wall + kPrint;
  for (size_t i = 0; i < guests_.size(); ++i) {
    const std::string& failure = simulation_->guest(i).failure();
    if (printing || !failure.empty()) print(guests_[i]);
    if (!failure.empty()) return failed(guests_[i], failure);
    if (guests_[i].ended || !simulation_->guest(i).over()) continue;
    guests_[i].ended = true;
    guests_[i].ended_at = simulation_->now();
    if (guests_[i].process->status()) continue;
    guests_[i].process->await_end();
    print(guests_[i]);
    return failed(guests_[i], "its kernel ended before its program");
  }
  return {};
}

std::string KernelGuests::waiting() const {
  std::string text;
  for (const Guest& guest : guests_) {
    const auto status = guest.process->status();
    if (status == 0) continue;
    text += "\n  the program of node \"" + config_.nodes[guest.node].name + "\" " +
            (status ? "ended with status " + std::to_string(*status) : "has not ended");
  }
  return text;
}

uint64_t KernelGuests::frames() const {
  uint64_t all = 0;
  for (size_t i = 0; i < guests_.size(); ++i) {
    const GuestNode::Counters counters = simulation_->guest(i).counters();
    all += counters.tx_frames + counters.rx_frames;
  }
  return all;
}

Result<std::vector<KernelReport>> KernelGuests::finish(bool ended_early) {
  std::vector<KernelReport> reports;
  for (size_t i = 0; i < guests_.size(); ++i) {
    Guest& guest = guests_[i];
    print(guest);
    if (!guest.line.empty()) say_(config_.nodes[guest.node].name + ": " + guest.line);
    KernelReport kernel;
    kernel.node = config_.nodes[guest.node].name;
    kernel.exit_status = guest.process->status();
    kernel.ended = guest.ended_at;
    if (!kernel.exit_status && !ended_early) {
      return failed(guest, "its kernel ended before its program");
    }
    const GuestNode::Counters counters = simulation_->guest(i).counters();
    kernel.counters = {
        {"frames_sent", counters.tx_frames},          {"frames_received", counters.rx_frames},
        {"frames_without_buffers", counters.no_room}, {"broken_buffers", counters.broken},
        {"interrupts", counters.interrupts},          {"turns", counters.runs}};
    reports.push_back(std::move(kernel));
  }
  return reports;
}

}  // namespace understudy
