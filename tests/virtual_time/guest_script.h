// A guest of a GuestNode as a script in a thread of its own: it speaks the clock's protocol and
// that of one network device, as a kernel would.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "dataplane/virtual_time/guest_socket.h"
#include "tests/virtual_time/guest_vhost.h"

namespace understudy {

class GuestScript {
 public:
  static constexpr uint32_t kReceive = 0, kTransmit = 1;
  static constexpr uint64_t kBuffers = 16 << 10, kBufferBytes = 2048;
  static constexpr uint32_t kHeader = 12;

  explicit GuestScript(const std::string& folder)
      : clock_(connect_unix(folder + "/clock")), nic_(folder + "/nic0") {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    back_ = UniqueFd(ends[0]);
    given_ = UniqueFd(ends[1]);
  }

  /// Boots with its network device, and waits until `time`; then it runs.
  void boot(uint64_t time, bool interrupts = true) {
    tell(kStart, 0);
    nic_.share(file_);
    nic_.set_up(kReceive, receive_);
    nic_.set_up(kTransmit, transmit_);
    if (interrupts) nic_.send(Vhost::kSetBackendRequestFd, {}, {given_.get()});
    given_ = UniqueFd();
    ask(Vhost::kGetQueueNum, {});  // all of these are done
    sleep_until(time);
  }

  /// Asks for a time, waits, and returns when it runs. Interrupts make it run at once.
  uint64_t sleep_until(uint64_t time) {
    tell(kRequest, time);
    return wait();
  }
  uint64_t wait() {
    tell(kWait, 0);
    for (;;) {
      pollfd both[]{{clock_.get(), POLLIN, 0}, {back_.get(), POLLIN, 0}};
      if (poll(both, 2, -1) < 0) std::abort();
      if (both[1].revents != 0) interrupted();
      if (both[0].revents == 0) continue;
      const Message message = read_message();
      acknowledge(message);
      if (message.op == kRun) return now_ = message.time;
    }
  }
  /// Time that passes while it computes.
  void update(uint64_t time) {
    tell(kUpdate, time);
    now_ = time;
  }
  /// Until when it is free to go on by itself.
  uint64_t free() const { return free_; }
  uint64_t now() const { return now_; }

  /// Offers a frame in buffer `index`, for the device to fetch after kick().
  void offer(uint16_t index, const std::vector<uint8_t>& frame) {
    const uint64_t at = kBuffers + kBufferBytes * index;
    file_.write(at + kHeader, frame);
    transmit_.describe(index, GuestFile::kGuest + at,
                       kHeader + static_cast<uint32_t>(frame.size()));
    transmit_.offer(index);
  }
  /// Offers buffer `index` for a frame that comes.
  void make_room(uint16_t index) {
    const uint64_t at = kBuffers + kBufferBytes * index;
    receive_.describe(index, GuestFile::kGuest + at, kBufferBytes, GuestRing::kWrite);
    receive_.offer(index);
  }
  std::vector<uint8_t> received(const GuestRing::Used& used) const {
    return file_.read(kBuffers + kBufferBytes * used.head + kHeader, used.bytes - kHeader);
  }
  /// Tells the device; how far it is free is known anew when this returns.
  void kick(uint32_t queue) { ask(Vhost::kVringKick, packed(queue, uint32_t{0})); }

  void hang_up_nic() {
    nic_.hang_up();
    back_ = UniqueFd();
  }

  GuestRing& receive() { return receive_; }
  GuestRing& transmit() { return transmit_; }
  /// When interrupts of a queue came.
  const std::vector<uint64_t>& interrupts(uint32_t queue) const { return interrupts_[queue]; }
  /// Its next interrupt ends it.
  void die_at_an_interrupt() { dies_ = true; }

 private:
  enum Op : uint32_t { kAck, kStart, kRequest, kWait, kGet, kUpdate, kRun, kFreeUntil };
  struct Message {
    uint32_t op = 0, number = 0;
    uint64_t time = 0;
  };
  Message read_message() {
    Message message;
    if (!read_whole(clock_.get(), {reinterpret_cast<uint8_t*>(&message), sizeof message})) {
      throw Ended();
    }
    return message;
  }
  void write_message(const Message& message) const {
    if (!write_whole(clock_.get(), {reinterpret_cast<const uint8_t*>(&message), sizeof message})) {
      throw Ended();
    }
  }
  void acknowledge(const Message& message) {
    if (message.op == kFreeUntil) free_ = message.time;
    write_message({kAck, message.number, 0});
  }
  uint64_t tell(uint32_t op, uint64_t time) {
    write_message({op, ++number_, time});
    for (;;) {
      const Message message = read_message();
      if (message.op == kAck) return message.time;
      acknowledge(message);
    }
  }
  void ask(Vhost code, const std::vector<uint8_t>& payload) {
    nic_.send(code, payload, {}, VhostClient::kVersion | VhostClient::kNeedReply);
    for (;;) {
      pollfd both[]{{clock_.get(), POLLIN, 0}, {nic_.fd(), POLLIN, 0}};
      if (poll(both, 2, -1) < 0) std::abort();
      if (both[0].revents != 0) {
        acknowledge(read_message());
      } else if (both[1].revents != 0) {
        nic_.receive();
        return;
      }
    }
  }
  void interrupted() {
    std::vector<uint8_t> request(20);
    if (!read_whole(back_.get(), request)) throw Ended();
    if (dies_) {
      clock_ = UniqueFd();
      throw Ended();
    }
    const uint64_t now = tell(kGet, 0);
    interrupts_[request[12]].push_back(now);
    tell(kRequest, now);
    if (!write_whole(back_.get(), packed(uint32_t{4}, uint32_t{5}, uint32_t{8}, uint64_t{0}))) {
      throw Ended();
    }
  }

  friend class RunningGuest;
  struct Ended {};

  GuestFile file_{256 << 10};
  GuestRing receive_{file_, 0, 64}, transmit_{file_, 4096, 64};
  UniqueFd clock_, back_, given_;
  VhostClient nic_;
  uint32_t number_ = 0;
  uint64_t free_ = 0, now_ = 0;
  std::array<std::vector<uint64_t>, 2> interrupts_;
  bool dies_ = false;
};

/// Runs a script in a thread until it returns, or until its node is gone; then it hangs up.
class RunningGuest {
 public:
  RunningGuest(const std::string& folder, std::function<void(GuestScript&)> script)
      : thread_([folder, script = std::move(script)] {
          GuestScript guest(folder);
          try {
            script(guest);
          } catch (const GuestScript::Ended&) {
          }
        }) {}
  ~RunningGuest() { thread_.join(); }

 private:
  std::thread thread_;
};

}  // namespace understudy
