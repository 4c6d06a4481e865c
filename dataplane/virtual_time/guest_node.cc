#include "dataplane/virtual_time/guest_node.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "dataplane/base/try.h"
#include "dataplane/virtual_time/guest_socket.h"
#include "dataplane/wire/headers.h"
#include "dataplane/wire/parse.h"

namespace understudy {
namespace {

/// So often a request to stop is looked for while nothing comes.
constexpr int kLookMs = 200;
/// Turns at one time; interrupts make a few.
constexpr unsigned kMostTurns = 10'000;
/// Frames that wait for buffers of the guest; a NIC has about as many in its own memory.
constexpr size_t kMostWaiting = 1024;

constexpr int64_t kPsPerNs = 1000;

/// Where the guest's clock stands then: it has whole nanoseconds.
uint64_t ns_from(Time t) { return static_cast<uint64_t>((t.ps() + kPsPerNs - 1) / kPsPerNs); }
Time time_at(uint64_t ns) {
  const auto most = static_cast<uint64_t>(Time::never().ps() / kPsPerNs);
  return ns >= most ? Time::never() : Time::from_ps(static_cast<int64_t>(ns) * kPsPerNs);
}

}  // namespace

Result<std::unique_ptr<GuestNode>> GuestNode::create(std::string name, const std::string& folder,
                                                     const std::vector<GuestNicSettings>& nics,
                                                     const VirtualLoop& loop,
                                                     const GuestLimits& limits,
                                                     const GuestCosts& costs) {
  std::unique_ptr<GuestNode> node(new GuestNode(std::move(name), loop, limits, costs));
  node->listener_ = TRY(listen_unix(folder + "/clock"));
  for (const GuestNicSettings& nic : nics) {
    node->nics_.push_back(std::make_unique<Nic>(nic));
    TRY(node->nics_.back()->device.listen(folder + "/nic" +
                                          std::to_string(node->nics_.size() - 1)));
  }
  return node;
}

/// Until one of them has something to read.
Result<void> GuestNode::await(std::vector<pollfd>& fds) const {
  for (int waited = 0; waited < limits_.patience_ms;) {
    if (limits_.stop != nullptr && *limits_.stop != 0) return fail("was stopped");
    const int slice = std::min(kLookMs, limits_.patience_ms - waited);
    const int ready = poll(fds.data(), fds.size(), slice);
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fail(std::string("poll: ") + std::strerror(errno));
    if (ready == 0) waited += slice;
  }
  return fail(
      "has computed for " + std::to_string(limits_.patience_ms) +
      " ms of the host's time without a word, in which no virtual time passes: a program in "
      "it polls, or hangs");
}

/// Serves the guest until `until` can be read: one of its sockets, whose reader the caller is.
Result<void> GuestNode::serve(int until) {
  for (;;) {
    std::vector<pollfd> fds{{clock_.fd(), POLLIN, 0}, {process_, POLLIN, 0}};
    if (until != clock_.fd()) fds.push_back({until, POLLIN, 0});
    const size_t first_nic = fds.size();
    for (const auto& nic : nics_) fds.push_back({nic->device.fd(), POLLIN, 0});
    TRY(await(fds));
    // A message that came before the end is still to be taken.
    if (until == clock_.fd() && fds[0].revents != 0) return {};
    if (fds[0].revents != 0 && clock_.fd() >= 0) {
      TRY(clock_.serve());
      if (clock_.gone()) return fail("its kernel ended in the middle of an interrupt");
      continue;
    }
    if (until != clock_.fd() && fds[2].revents != 0) return {};
    bool served_nic = false;
    for (size_t i = 0; i < nics_.size(); ++i) {
      if (fds[first_nic + i].revents == 0) continue;
      auto served =
          nics_[i]->device.serve([&](GuestNic::Queue queue) { return kicked(*nics_[i], queue); });
      if (!served) return served;
      served_nic = true;
    }
    if (!served_nic && fds[1].revents != 0) {
      return fail("its process has ended by itself");
    }
  }
}

Result<void> GuestNode::boot(int process) {
  process_ = process;
  TRY(serve(listener_.get()));
  UniqueFd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!connection.valid()) return fail(std::string("accept: ") + std::strerror(errno));
  limit_waits(connection.get());
  listener_ = UniqueFd();
  clock_ = GuestClock(
      std::move(connection), [this] { return now_ns(); }, [this] { return serve(clock_.fd()); });
  while (!clock_.waits() && !clock_.gone()) {
    TRY(serve(clock_.fd()));
    TRY(clock_.serve());
  }
  if (clock_.gone()) return fail("its kernel ended before it began");
  return {};
}

uint64_t GuestNode::now_ns() const { return ns_from(now_); }

/// When something of its own hardware is due.
Time GuestNode::own_event() const {
  Time next = Time::never();
  for (const auto& nic : nics_) {
    next = std::min(next, nic->port->next_arrival());
    if (!nic->received.empty()) next = std::min(next, nic->received.front().done);
    if (nic->sending.empty()) continue;
    for (const Sending& frame : nic->sending) {
      next = std::min(next, frame.started ? frame.end : frame.start);
      if (!frame.started) break;
    }
  }
  return next;
}

Time GuestNode::next_event() const {
  if (over()) {
    Time next = Time::never();
    for (const auto& nic : nics_) {
      for (const Sending& frame : nic->sending) {
        if (!frame.started) next = std::min(next, frame.start);
      }
    }
    return next;
  }
  return std::min(own_event(), time_at(clock_.wanted()));
}

uint64_t GuestNode::free_until() const {
  // Once it has made room for a frame it is interrupted at the time that its own clock shows, which
  // only it knows while it is free.
  for (const auto& nic : nics_) {
    if (!nic->waiting.empty()) return 0;
  }
  const Time next = std::min(own_event(), loop_.next_but(*this));
  return next.is_never() ? GuestClock::kNever / 2 : static_cast<uint64_t>(next.ps() / kPsPerNs);
}

Time GuestNode::worked(Time t, std::span<const uint8_t> frame) {
  Duration cost = costs_.packet;
  if (costs_.message > Duration()) {
    FrameView view;
    RoceView roce;
    if (parse_frame(frame, view, roce) == FrameKind::kRoce && roce.info().start &&
        roce.info().is_request()) {
      cost += costs_.message;
    }
  }
  if (cost == Duration()) return t;
  processor_free_ = std::max(t, processor_free_) + cost;
  return processor_free_;
}

Result<void> GuestNode::kicked(Nic& nic, GuestNic::Queue queue) {
  if (queue == GuestNic::kReceive) return {};  // run() fills them once it waits
  const Time now = std::max(now_, time_at(clock_.time()));
  Sending next;
  while (nic.device.take_frame(next.frame, next.head)) {
    next.start = std::max(worked(now, next.frame), nic.free);
    next.end = nic.free =
        next.start + nic.wire.next(wire_bytes(static_cast<uint32_t>(next.frame.size())));
    nic.sending.push_back(std::move(next));
    next = {};
    ++counters_.tx_frames;
  }
  return clock_.waits() ? Result<void>() : clock_.limit(free_until());
}

void GuestNode::start_due(Nic& nic, Time t) {
  for (Sending& frame : nic.sending) {
    if (frame.started || frame.start > t) continue;
    frame.started = true;
    std::ranges::copy(frame.frame,
                      nic.port->tx().reserve(static_cast<uint32_t>(frame.frame.size())));
    nic.port->tx().commit(static_cast<uint32_t>(frame.frame.size()), frame.start);
    nic.port->flush(frame.start);
  }
}

Result<void> GuestNode::send_due(Nic& nic, Time t) {
  start_due(nic, t);
  bool returned = false;
  while (!nic.sending.empty() && nic.sending.front().end <= t) {
    nic.device.give_back(nic.sending.front().head);
    nic.sending.pop_front();
    returned = true;
  }
  if (!returned || !nic.device.wants_interrupt(GuestNic::kTransmit)) return {};
  ++counters_.interrupts;
  return nic.device.interrupt(GuestNic::kTransmit, [this](int fd) { return serve(fd); });
}

Result<void> GuestNode::receive_due(Nic& nic, Time t) {
  while (nic.port->next_arrival() <= t) {
    for (const auto frame : nic.port->rx()) {
      if (nic.waiting.size() + nic.received.size() >= kMostWaiting) {
        ++counters_.no_room;
        continue;
      }
      nic.received.push_back({worked(t, frame), {frame.begin(), frame.end()}});
    }
  }
  for (; !nic.received.empty() && nic.received.front().done <= t; nic.received.pop_front()) {
    nic.waiting.push_back(std::move(nic.received.front().frame));
  }
  return fill(nic);
}

Result<void> GuestNode::fill(Nic& nic) {
  bool delivered = false;
  while (!nic.waiting.empty() && nic.device.deliver(nic.waiting.front())) {
    nic.waiting.pop_front();
    ++counters_.rx_frames;
    delivered = true;
  }
  if (!delivered || !nic.device.wants_interrupt(GuestNic::kReceive)) return {};
  ++counters_.interrupts;
  return nic.device.interrupt(GuestNic::kReceive, [this](int fd) { return serve(fd); });
}

/// Until it waits again.
Result<void> GuestNode::run() {
  ++counters_.runs;
  const uint64_t time = std::max(clock_.wanted(), now_ns());
  TRY(clock_.run(time, free_until()));
  while (!clock_.waits() && !clock_.gone()) {
    TRY(serve(clock_.fd()));
    TRY(clock_.serve());
  }
  return {};
}

Result<void> GuestNode::turn(Time t) {
  for (unsigned turns = 0; turns < kMostTurns; ++turns) {
    if (over()) {
      for (const auto& nic : nics_) start_due(*nic, t);
      return {};
    }
    for (const auto& nic : nics_) {
      TRY(send_due(*nic, t));
      TRY(receive_due(*nic, t));
    }
    if (time_at(clock_.wanted()) > t) return {};
    TRY(run());
    // It may have made room.
    for (const auto& nic : nics_) {
      TRY(fill(*nic));
    }
  }
  return fail("wants to run at " + std::to_string(ns_from(t)) + " ns again and again");
}

void GuestNode::advance_to(Time t) {
  now_ = std::max(now_, t);
  if (auto done = turn(now_); !done) failure_ = done.error().text;
}

GuestNode::Counters GuestNode::counters() const {
  Counters all = counters_;
  for (const auto& nic : nics_) all.broken += nic->device.broken();
  return all;
}

}  // namespace understudy
