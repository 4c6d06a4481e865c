// A real kernel in virtual time: a User-mode Linux guest as one more participant of the loop. Its
// clock asks when it is to run, and its NICs are at the far ends of virtual links. Computing takes
// no time in it; a frame starts on the wire when the NIC has sent what went before.
#pragma once

#include <poll.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/virtual_time/guest_clock.h"
#include "dataplane/virtual_time/guest_nic.h"
#include "dataplane/virtual_time/virtual_loop.h"

namespace understudy {

/// What a node's own processor takes, for which a guest's takes nothing. One packet after another,
/// sent or received; a request of RoCE's costs `message` with its first packet.
struct GuestCosts {
  Duration packet, message;
};

/// One NIC of a guest.
struct GuestNicSettings {
  MacAddress mac;
  Rate rate;                    ///< of its wire
  VirtualPort* port = nullptr;  ///< its end of a virtual link
};

/// What ends a guest that says nothing, in the host's time.
struct GuestLimits {
  /// Longest that it may compute without a word: a program that polls without entering the kernel
  /// never ends, for no time passes in it.
  int patience_ms = 60'000;
  /// Once it is not 0, no guest is waited for any more; may be null.
  const std::atomic<int>* stop = nullptr;
};

class GuestNode final : public Participant {
 public:
  /// Sockets that the guest's kernel is to be told: `folder`/clock and `folder`/nic0 and so on.
  static Result<std::unique_ptr<GuestNode>> create(std::string name, const std::string& folder,
                                                   const std::vector<GuestNicSettings>& nics,
                                                   const VirtualLoop& loop,
                                                   const GuestLimits& limits = {},
                                                   const GuestCosts& costs = {});

  /// Lets it boot until it first waits. `process`: a descriptor that can be read once the guest's
  /// process has ended (pidfd_open).
  Result<void> boot(int process);

  const std::string& name() const override { return name_; }
  Time next_event() const override;
  void advance_to(Time t) override;

  /// Its kernel has ended, or it failed. What it had given to its NICs is sent all the same.
  bool over() const { return clock_.gone() || !failure_.empty(); }
  const std::string& failure() const { return failure_; }

  /// What the guest and its NICs did.
  struct Counters {
    uint64_t runs = 0;        ///< turns that it had
    uint64_t interrupts = 0;  ///< of its NICs
    uint64_t no_room = 0;     ///< frames lost because it had no buffers
    uint64_t tx_frames = 0, rx_frames = 0;
    uint64_t broken = 0;  ///< buffers that were not in its memory
  };
  Counters counters() const;

 private:
  struct Sending {
    Time start, end;  ///< on the wire
    uint16_t head = 0;
    std::vector<uint8_t> frame;
    bool started = false;
  };
  struct Received {
    Time done;
    std::vector<uint8_t> frame;
  };
  struct Nic {
    explicit Nic(const GuestNicSettings& settings)
        : device(settings.mac), wire(settings.rate), port(settings.port) {}
    GuestNic device;
    Serializer wire;
    VirtualPort* port;
    Time free;  ///< the wire
    std::deque<Sending> sending;
    std::deque<Received> received;             ///< frames that its processor works on
    std::deque<std::vector<uint8_t>> waiting;  ///< frames that it has no room for yet
  };

  GuestNode(std::string name, const VirtualLoop& loop, const GuestLimits& limits,
            const GuestCosts& costs)
      : name_(std::move(name)), loop_(loop), limits_(limits), costs_(costs) {}
  /// When the processor has done its work on a frame that it gets at `t`.
  Time worked(Time t, std::span<const uint8_t> frame);
  uint64_t now_ns() const;
  uint64_t free_until() const;
  Time own_event() const;
  Result<void> serve(int until);
  Result<void> await(std::vector<pollfd>& fds) const;
  Result<void> kicked(Nic& nic, GuestNic::Queue queue);
  Result<void> run();
  void start_due(Nic& nic, Time t);
  Result<void> send_due(Nic& nic, Time t);
  Result<void> receive_due(Nic& nic, Time t);
  Result<void> fill(Nic& nic);
  Result<void> turn(Time t);

  const std::string name_;
  const VirtualLoop& loop_;
  const GuestLimits limits_;
  const GuestCosts costs_;
  UniqueFd listener_;
  GuestClock clock_;
  std::vector<std::unique_ptr<Nic>> nics_;
  int process_ = -1;
  Time now_;
  Time processor_free_;
  std::string failure_;
  Counters counters_;
};

}  // namespace understudy
