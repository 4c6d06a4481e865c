#include "ctrl/jobs/nccl/reach_test.h"

#include <algorithm>
#include <utility>

namespace understudy {
namespace {

constexpr uint16_t kPort = 9;  ///< discard: nobody serves it nowadays
/// The kernel repeats a SYN after 1 s.
constexpr Duration kPatience = Duration::ms(2500);

/// Wants no more than to know whether anybody answers.
class Caller final : public Peer {
 public:
  void on_connected(Time) override { finished_ = true; }
  void on_bytes(Time, std::span<const uint8_t>) override {}
  void on_endpoint(Time, const EndpointReady&) override {}
  void on_closed(Time) override {}
};

}  // namespace

std::vector<ReachTest::Source> ReachTest::some(std::vector<Source> all, size_t most) {
  if (all.size() <= most) return all;
  std::vector<Source> few;
  for (size_t i = 0; i < most; ++i) few.push_back(all[i * (all.size() - 1) / (most - 1)]);
  return few;
}

ReachTest::ReachTest(std::string name, IpAddress target, const std::vector<Source>& sources,
                     PeerNetwork& network)
    : name_(std::move(name)),
      target_(target),
      sources_(some(sources, kMost)),
      all_(sources.size()),
      network_(network) {}

void ReachTest::begin(Time now) {
  probes_.resize(sources_.size());
  for (size_t i = 0; i < sources_.size(); ++i) {
    const auto called =
        network_.call(sources_[i].address, {sources_[i].target.value_or(target_), kPort},
                      std::make_unique<Caller>());
    if (called) {
      probes_[i].connection = *called;
    } else {
      probes_[i].error = called.error().text;
    }
  }
  until_ = now + kPatience;
}

bool ReachTest::on_ended(const EndedConnection& ended) {
  const auto probe = std::ranges::find(probes_, ended.id, &Probe::connection);
  if (probe == probes_.end()) return false;
  probe->connection = 0;
  probe->answered = ended.connected || ended.refused;
  if (!probe->answered) probe->error = ended.failure;
  return true;
}

void ReachTest::end() {
  for (const Probe& probe : probes_) {
    if (probe.connection != 0) network_.drop(probe.connection);
  }
  probes_.clear();
}

std::optional<std::string> ReachTest::complain() {
  if (complained_) return std::nullopt;
  complained_ = true;
  size_t silent = 0;
  const Probe* first = nullptr;
  for (const Probe& probe : probes_) {
    if (probe.answered) continue;
    if (silent++ == 0) first = &probe;
  }
  const Source& source = sources_[static_cast<size_t>(first - probes_.data())];
  std::string text =
      "self-test: " + name_ + " (" + source.target.value_or(target_).text() + ") does not answer ";
  text += silent == probes_.size() ? "any emulated address yet"
                                   : std::to_string(silent) + " of " +
                                         std::to_string(probes_.size()) + " emulated addresses, " +
                                         source.name + " (" + source.address.text() + ") first";
  if (!first->error.empty()) text += ": " + first->error;
  return text +
         "; is it up, its interface in the emulated prefix, no firewall in the way, and its "
         "neighbour table large enough? Trying again";
}

std::optional<std::string> ReachTest::poll(Time now) {
  if (passed_ || sources_.empty()) return std::nullopt;
  if (probes_.empty()) begin(now);
  const bool all = std::ranges::all_of(probes_, &Probe::answered);
  if (!all && now < until_) return std::nullopt;
  if (!all) {
    auto text = complain();
    end();
    return text;
  }
  passed_ = true;
  end();
  return "self-test: " + name_ + " (" + target_.text() + ") answers " +
         (all_ == sources_.size() ? "all " : "") + std::to_string(sources_.size()) +
         (all_ == sources_.size() ? "" : " of " + std::to_string(all_)) + " emulated addresses";
}

}  // namespace understudy
