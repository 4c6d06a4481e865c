#include "ctrl/session/reach_test.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace understudy {
namespace {

constexpr uint16_t kPort = 9;  ///< discard: nobody serves it nowadays
/// The kernel repeats a SYN after 1 s.
constexpr Duration kPatience = Duration::ms(2500);

std::vector<ReachTest::Source> some(std::vector<ReachTest::Source> all) {
  if (all.size() <= ReachTest::kMost) return all;
  std::vector<ReachTest::Source> few;
  for (size_t i = 0; i < ReachTest::kMost; ++i) {
    few.push_back(all[i * (all.size() - 1) / (ReachTest::kMost - 1)]);
  }
  return few;
}

}  // namespace

ReachTest::ReachTest(std::string name, IpAddress target, std::vector<Source> sources,
                     Connect connect)
    : name_(std::move(name)),
      target_(target),
      sources_(some(sources)),
      all_(sources.size()),
      connect_(std::move(connect)) {}

void ReachTest::begin(Time now) {
  probes_.clear();
  probes_.resize(sources_.size());
  for (size_t i = 0; i < sources_.size(); ++i) {
    auto fd = connect_(sources_[i].address, target_, kPort);
    if (fd) {
      probes_[i].fd = UniqueFd(*fd);
    } else {
      probes_[i].error = fd.error().text;
    }
  }
  until_ = now + kPatience;
}

void ReachTest::look() {
  for (Probe& probe : probes_) {
    if (!probe.fd.valid()) continue;
    pollfd wait{probe.fd.get(), POLLOUT, 0};
    if (::poll(&wait, 1, 0) != 1) continue;
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(probe.fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    probe.answered = error == 0 || error == ECONNREFUSED || error == ECONNRESET;
    if (!probe.answered) probe.error = std::strerror(error);
    probe.fd = UniqueFd();
  }
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
  std::string text = "self-test: " + name_ + " (" + target_.text() + ") does not answer ";
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
  look();
  const bool all = std::ranges::all_of(probes_, &Probe::answered);
  if (!all && now < until_) return std::nullopt;
  if (!all) {
    auto text = complain();
    probes_.clear();
    return text;
  }
  passed_ = true;
  probes_.clear();
  return "self-test: " + name_ + " (" + target_.text() + ") answers " +
         (all_ == sources_.size() ? "all " : "") + std::to_string(sources_.size()) +
         (all_ == sources_.size() ? "" : " of " + std::to_string(all_)) + " emulated addresses";
}

}  // namespace understudy
