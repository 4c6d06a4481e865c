#include "ctrl/jobs/nccl/roce_test.h"

#include <algorithm>
#include <utility>

namespace understudy {
namespace {

constexpr Duration kProbeEvery = Duration::s(1);
/// Once it was said that nobody answers.
constexpr Duration kProbeStillEvery = Duration::s(5);
constexpr Duration kCountEvery = Duration::ms(100);

std::string whole_seconds(Duration d) {
  return std::to_string(static_cast<int64_t>(d.seconds())) + " s";
}

}  // namespace

RoceTest::RoceTest(std::string name, IpAddress target,
                   const std::vector<ReachTest::Source>& sources, Seams seams)
    : name_(std::move(name)),
      target_(target),
      sources_(ReachTest::some(sources, kMost)),
      all_(sources.size()),
      seams_(std::move(seams)),
      answered_(sources_.size()) {
  for (const ReachTest::Source& source : sources_) {
    if (!source.carries) continue;
    const IpAddress real = source.target.value_or(target_);
    if (std::ranges::find(ports_, real, &Port::real) == ports_.end()) ports_.push_back({real, {}});
  }
  if (ports_.empty()) ports_.push_back({target_, {}});
}

size_t RoceTest::answered() const {
  return static_cast<size_t>(std::ranges::count(answered_, true));
}

std::string RoceTest::first_silent() const {
  const auto at = std::ranges::find(answered_, false) - answered_.begin();
  const ReachTest::Source& source = sources_[static_cast<size_t>(at)];
  return source.name + " (" + source.address.text() + ")";
}

void RoceTest::probe(Time now) {
  if (!probed_) probed_ = now;
  if (now < next_probe_) return;
  next_probe_ = now + (told_of_probes_ ? kProbeStillEvery : kProbeEvery);
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (answered_[i]) continue;
    seams_.probe(sources_[i].address, sources_[i].target.value_or(target_),
                 [this, i] { answered_[i] = true; });
  }
}

void RoceTest::count(Time now) {
  if (now < next_count_) return;
  next_count_ = now + kCountEvery;
  for (size_t p = 0; p < ports_.size(); ++p) {
    seams_.count(ports_[p].real, [this, p](const Counts& counts) { ports_[p].counts = counts; });
  }
}

std::string RoceTest::pass(std::string how) {
  passed_ = true;
  return passed_text_ = "self-test: RoCE passes between " + real() + " and " + std::move(how);
}

std::optional<std::string> RoceTest::poll(Time now, bool reached, bool connected, bool carried) {
  if (passed_ || sources_.empty()) return std::nullopt;
  const size_t asked = sources_.size();
  if (answered() == asked) {
    return pass(std::to_string(asked) + (all_ == asked ? "" : " of " + std::to_string(all_)) +
                " emulated addresses");
  }
  // One queue pair says nothing of other addresses; where some of them are answered, all should be.
  // A short job may be over before its packets are counted. Which of several ports an operation
  // took is not known here.
  const bool by_job = carried && connected_ && ports_.size() == 1;
  const bool acknowledged = by_job || std::ranges::all_of(ports_, [](const Port& p) {
                              return p.counts.acknowledged > 0;
                            });
  if (acknowledged && answered() == 0) return pass("queue pairs of the job");
  if (reached && seams_.probe) probe(now);
  if (connected && !connected_) connected_ = now;
  if (connected_) count(now);
  if (auto line = complain_of_packets(now)) return line;
  return complain_of_probes(now);
}

std::optional<std::string> RoceTest::complain_of_probes(Time now) {
  if (told_of_probes_ || told_of_packets_ || !probed_ || now - *probed_ < kPatience) {
    return std::nullopt;
  }
  told_of_probes_ = true;
  const std::string still = "; the job goes on, and the question is asked again";
  if (answered() == 0) {
    return "self-test: " + real() + " answers no REQ of RDMA-CM yet: either its kernel has no " +
           "communication manager (module ib_cm), or UDP port 4791 does not pass" + still;
  }
  return "self-test: " + real() + " answers RDMA-CM's REQ to " + std::to_string(answered()) +
         " of " + std::to_string(sources_.size()) + " emulated addresses, " + first_silent() +
         " is the first without: UDP port 4791 does not pass there" + still;
}

std::optional<std::string> RoceTest::complain_of_packets(Time now) {
  if (told_of_packets_ || !connected_ || now - *connected_ < kPatience) return std::nullopt;
  for (const Port& port : ports_) {
    if (port.counts.timeouts == 0 || port.counts.acknowledged > 0) continue;
    told_of_packets_ = true;
    const std::string what = "self-test: RoCE packets were sent to " + name_ + " (" +
                             port.real.text() + ") for " + whole_seconds(now - *connected_);
    return what +
           (port.counts.received == 0 ? " and none has come back: "
                                      : " and none was acknowledged, though its own come here: ") +
           kRoceAdvice;
  }
  return std::nullopt;
}

std::string RoceTest::status() const {
  if (passed_) return passed_text_;
  if (told_of_packets_) return "self-test: " + real() + " has acknowledged no RoCE packet yet";
  if (!probed_) return "self-test: waiting for " + real() + " to acknowledge a RoCE packet";
  return "self-test: waiting for " + real() +
         " to answer RDMA-CM's REQ: " + std::to_string(answered()) + " of " +
         std::to_string(sources_.size()) + " emulated addresses have an answer, " + first_silent() +
         " is the first without";
}

}  // namespace understudy
