// The device: queue pairs and regions behind one port, under one lock. There is no thread between a
// program's calls and the port: whoever calls (posting, polling an empty completion queue) moves
// packets, so that nothing is handed over and few CPUs suffice; a helper thread (driver.h) does it
// while nobody calls.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "dataplane/cm/connection.h"
#include "dataplane/rc/qp.h"
#include "dataplane/wire/parse.h"
#include "tools/soft_nic/port/frame_port.h"
#include "tools/soft_nic/port/interface.h"
#include "tools/soft_nic/port/loop_port.h"
#include "tools/soft_nic/port/neighbours.h"

namespace understudy::soft_nic {

class QueuePair;

/// Who hears datagrams to QP1: the communication manager. Called under the device's lock.
class GsiHandler {
 public:
  virtual ~GsiHandler() = default;
  virtual void on_datagram(Time now, const CmEnds& ends, std::span<const uint8_t> bytes) = 0;
  virtual void on_time(Time now) = 0;
  virtual Time deadline() const = 0;
};

struct NicCounters {
  uint64_t rx_frames = 0, tx_frames = 0;
  uint64_t bad_icrc = 0;       ///< dropped: damaged
  uint64_t other_address = 0;  ///< dropped: for somebody else
  uint64_t other_vlan = 0;     ///< dropped: of another VLAN than ours, or untagged in one
  uint64_t unknown_qp = 0;     ///< dropped: no such queue pair, or not of this peer
  uint64_t malformed = 0;      ///< dropped: no frame we know
};

class Nic {
 public:
  static constexpr uint32_t kQueuePairs = 4096, kRegions = 1 << 16;

  /// `clock` never goes back. Queue pair numbers begin behind `first_qpn`, a multiple of
  /// kQueuePairs: programs on one address draw different ones.
  Nic(const Interface& interface, uint32_t window, uint32_t first_qpn,
      std::unique_ptr<FramePort> port, std::function<Time()> clock);

  /// Taken by all calls of verbs; what follows is called under it where nothing else is said.
  std::mutex& mutex() { return mutex_; }
  const Interface& interface() const { return interface_; }
  uint32_t mtu() const { return roce_mtu(interface_.mtu); }  ///< largest path MTU
  uint32_t window() const { return window_; }
  Time now() const { return clock_(); }

  /// Receives, keeps time, sends. True when it found something to do.
  bool progress(Time now);
  /// When progress() must be called though nothing comes in; for any thread, without the lock.
  Time next_wake() const { return Time::from_ps(wake_.load()); }
  /// Without the lock: as progress(), unless somebody else is at it. For programs that poll: lets
  /// others have the CPU when there has been nothing to do for a while.
  void try_progress();
  /// When a program last looked for work itself; any thread.
  Time polled_at() const { return Time::from_ps(polled_.load()); }
  void note_polled(Time at) { polled_.store(at.ps(), std::memory_order_relaxed); }
  /// The program is about to wait for an event: the helper thread's turn. In the order of what the
  /// helper does before it sleeps, so that neither waits for the other.
  void end_polling() {
    polled_.store(0);
    alarm();
  }
  FramePort& port() { return *port_; }
  /// Before a wait for the port's wait_fd(), without the lock; false: there are frames already, and
  /// no end_wait() is due.
  bool begin_wait();
  void end_wait();
  /// Called when next_wake() comes nearer or polling ends: the helper thread may sleep too long.
  void set_alarm(std::function<void()> alarm) { alarm_ = std::move(alarm); }
  void alarm() {
    if (alarm_) alarm_();
  }

  /// Gives it a number; false when there are too many.
  bool add(QueuePair& qp);
  void remove(QueuePair& qp);
  /// The process ends: no queue pair sends or hears anything any more, the services still do.
  void forget_queue_pairs();
  /// Frames to that queue pair at that address do not leave the process: it is one of ours, or
  /// nobody else's by this port.
  bool is_within(const IpAddress& to, uint32_t qpn) const {
    return interface_.has(to) && (!port_->comes_back() || qpn - first_qpn_ < kQueuePairs);
  }
  /// The queue pair may have something to send, or a timer.
  void touch(QueuePair& qp, Time now);
  /// Sends what is ready.
  void send(Time now);
  /// The same after `qp` was posted to; but frames of who polls and has more under way may leave
  /// with its next poll, many by one call of the kernel.
  void send_posted(const QueuePair& qp, Time now);

  /// Outlives the device, or null.
  void set_services(GsiHandler* services) { services_ = services; }
  /// Sends from QP1 to QP1; false where the MAC of the next hop is not known (it is asked for) or
  /// the port takes no more: whoever wants an answer repeats.
  bool send_to_services(const CmEnds& ends, std::span<const uint8_t> bytes);
  /// Time may have come nearer for the services.
  void touch_services();

  RegionTable& regions() { return regions_; }
  /// What the kernel hears of frames that are not RoCE's, ARP and neighbour discovery among them;
  /// under the lock.
  /// Untagged: `head`, and `rest` behind it, where a tag stood between them.
  using ToKernel =
      std::function<void(std::span<const uint8_t> head, std::span<const uint8_t> rest)>;
  void set_kernel_side(ToKernel hear) { to_kernel_ = std::move(hear); }
  /// A frame of the kernel's; lost where the port takes no more.
  void send_from_kernel(std::span<const uint8_t> frame);

  /// Its key (both lkey and rkey), or 0 when there are too many.
  Rkey add_region(const Region& region);
  /// Queue pairs that still have work with it fail.
  void remove_region(Rkey key);

  /// MAC of the next hop to `to`; asks for it if need be: nothing after three seconds without an
  /// answer. Lets go of the lock meanwhile.
  std::optional<MacAddress> resolve(const IpAddress& to, std::unique_lock<std::mutex>& lock);

  RcCounters& rc_counters() { return rc_counters_; }
  const NicCounters& counters() const { return counters_; }

 private:
  void give_way(Time at);
  void nap();
  bool receive(FramePort& port, Time now);
  void frame(std::span<const uint8_t> bytes, Time now);
  void services_frame(const FrameView& view, const RoceView& roce, Time now);
  void ask(const IpAddress& hop);
  bool is_in_our_vlan(const FrameView& view) const;
  void hand_to_kernel(const FrameView& view);
  void neighbour_frame(const FrameView& view);
  void answer_neighbour(const FrameView& view);
  bool run_timers(Time now);
  bool send_from(QueuePair& qp, Time now);
  void build(Time now);
  void set_wake(Time wake);

  const Interface interface_;
  const uint32_t window_, first_qpn_, longest_frame_;
  std::unique_ptr<FramePort> port_;
  LoopPort loop_;
  const std::function<Time()> clock_;
  std::function<void()> alarm_;
  ToKernel to_kernel_;
  std::mutex mutex_;
  Neighbours neighbours_;
  RegionTable regions_{kRegions};
  std::vector<uint32_t> free_regions_;
  uint32_t regions_used_ = 0;
  std::vector<QueuePair*> slots_;
  uint32_t next_slot_ = 0;
  uint32_t waiting_ = 0;  ///< threads between begin_wait() and end_wait()
  std::deque<QueuePair*> ready_;
  GsiHandler* services_ = nullptr;
  Psn services_psn_;
  Time timers_ = Time::never();  ///< no queue pair's timer is earlier
  std::atomic<int64_t> wake_{Time::never().ps()}, polled_{0}, busy_{0}, crowded_until_{0};
  RcCounters rc_counters_{};
  NicCounters counters_;
};

}  // namespace understudy::soft_nic
