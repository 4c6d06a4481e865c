// A cable between two DPDK devices, for a soft NIC and a virtual node that shall meet:
//   cable CAPTURE DEVICE DEVICE [LOSE]
// What comes in at one leaves unchanged at the other, and stands in CAPTURE as the first device has
// it. Prints "ready"; ends by SIGINT or SIGTERM, with status 1 where frames were lost on the way or
// are not in the capture. LOSE: of so many RoCE frames one goes no further (but is captured), on
// the average and not by a fixed period, which retries may fall into step with. A frame that an end
// does not take, because it has not read for too long, is lost behind the capture, too: with LOSE
// that is no error.
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <string>
#include <string_view>

#include "dataplane/base/pattern.h"
#include "dataplane/port/capture.h"
#include "dataplane/port/dpdk_port.h"
#include "dataplane/runtime/clock.h"
#include "dataplane/runtime/eal.h"

namespace understudy {
namespace {

volatile std::sig_atomic_t stopping = 0;

constexpr long kNapNs = 10'000;
constexpr int kTurnsBeforeNap = 16;  // a nap costs more than looking again at a busy device

class Cable {
 public:
  /// `lose`: one of so many; 0: none.
  Result<void> open(const std::string& capture, const std::array<EalPort, 2>& ends, uint32_t lose) {
    lose_ = lose;
    auto eal = Eal::start({.ports = {ends.begin(), ends.end()}});
    if (!eal) return tl::unexpected(eal.error());
    eal_ = std::move(*eal);
    CaptureOptions options;
    options.path = capture;
    options.application = "cable";
    options.epoch = clock_.epoch();
    options.interfaces = {ends[0].name};  // one, so that the file keeps the order of the frames
    for (size_t i = 0; i < ends.size(); ++i) {
      auto port = DpdkPort::open({.name = ends[i].name, .device = ends[i].device});
      if (!port) return tl::unexpected(port.error());
      ports_[i] = std::move(*port);
    }
    auto file = open_threaded_capture(options, size_t{128} << 20);
    if (!file) return tl::unexpected(file.error());
    capture_ = std::move(*file);
    return {};
  }

  void run() {
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    int idle = 0;
    while (stopping == 0) {
      bool busy = false;
      for (size_t from = 0; from < ports_.size(); ++from) busy = carry(from) || busy;
      idle = busy ? 0 : idle + 1;
      if (idle >= kTurnsBeforeNap) nap();
    }
  }

  /// True where everything that came in left again and was written down.
  Result<bool> close() {
    if (auto closed = capture_->close(); !closed) return tl::unexpected(closed.error());
    uint64_t lost = capture_->drops();
    for (auto& port : ports_) {
      const PortCounters seen = port->counters();
      lost += seen.rx_missed + seen.rx_unreadable + (lose_ == 0 ? seen.tx_refused : 0);
      std::fprintf(stderr, "cable: %s: %lu in, %lu out, %lu missed, %lu refused, %lu to nobody\n",
                   port->name().c_str(), seen.rx_frames, seen.tx_frames, seen.rx_missed,
                   seen.tx_refused, seen.tx_link_down);
    }
    std::fprintf(stderr, "cable: %lu frames are not in the capture\n", capture_->drops());
    return lost == 0;
  }

 private:
  /// Gives the CPU to whom this waits for. sched_yield() would not: the cable goes before others.
  static void nap() {
    const timespec time{0, kNapNs};
    nanosleep(&time, nullptr);
  }

  bool goes_astray(std::span<const uint8_t> frame) {
    constexpr size_t kPort = 36;  // of UDP in IPv4 in an untagged frame
    if (lose_ == 0 || frame.size() < kPort + 2) return false;
    if (frame[23] != 17 || frame[kPort] != (4791 >> 8) || frame[kPort + 1] != (4791 & 255))
      return false;
    if (until_lost_ == 0) until_lost_ = 1 + splitmix64(++draws_) % (2 * uint64_t{lose_} - 1);
    return --until_lost_ == 0;
  }

  bool carry(size_t from) {
    const auto frames = ports_[from]->rx();
    Port& other = *ports_[1 - from];
    const Time now = clock_.now();
    const auto direction = from == 0 ? CaptureDirection::kIn : CaptureDirection::kOut;
    for (const auto frame : frames) {
      capture_->tap(0).frame(direction, now, Time::never(), frame);
      if (goes_astray(frame)) continue;
      uint8_t* bytes = other.tx().reserve(static_cast<uint32_t>(frame.size()));
      while (bytes == nullptr) {  // until the device takes some, or is given up
        other.flush(clock_.now());
        bytes = other.tx().reserve(static_cast<uint32_t>(frame.size()));
        if (bytes == nullptr) nap();
      }
      std::ranges::copy(frame, bytes);
      other.tx().commit(static_cast<uint32_t>(frame.size()), Time::never());
    }
    other.flush(clock_.now());
    return !frames.empty();
  }

  Clock clock_;
  uint32_t lose_ = 0;
  uint64_t until_lost_ = 0;  ///< RoCE frames from now on; 0: to be drawn
  uint64_t draws_ = 0;
  std::unique_ptr<Eal> eal_;
  std::array<std::unique_ptr<DpdkPort>, 2> ports_;
  std::unique_ptr<Capture> capture_;
};

int run(const std::string& capture, const std::array<EalPort, 2>& ends, uint32_t lose) {
  for (const int number : {SIGINT, SIGTERM}) std::signal(number, [](int) { stopping = 1; });
  Cable cable;
  if (auto opened = cable.open(capture, ends, lose); !opened) {
    std::fprintf(stderr, "cable: %s\n", opened.error().text.c_str());
    return 1;
  }
  std::puts("ready");
  std::fflush(stdout);
  cable.run();
  const auto whole = cable.close();
  if (!whole) std::fprintf(stderr, "cable: %s\n", whole.error().text.c_str());
  return whole && *whole ? 0 : 1;
}

}  // namespace
}  // namespace understudy

int main(int count, char** words) {
  const std::string_view last = count == 5 ? words[4] : "0";
  uint32_t lose = 0;
  const auto [end, error] = std::from_chars(last.data(), last.data() + last.size(), lose);
  if (count < 4 || count > 5 || error != std::errc() || end != last.data() + last.size()) {
    std::fprintf(stderr, "usage: cable CAPTURE DEVICE DEVICE [LOSE]\n");
    return 2;
  }
  return understudy::run(words[1], {{{"first", words[2]}, {"second", words[3]}}}, lose);
}
