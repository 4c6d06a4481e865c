#include "tools/roce_check/live/live_capture.h"

#include <pcap/pcap.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

constexpr int kSnapLength = 65'535;
constexpr int kHoldMs = 20;   // the kernel hands over a block that is not full after it
constexpr int kBatch = 4096;  // frames at once; in between the clock is looked at
constexpr int64_t kMillisecond = 1'000'000'000;
constexpr Duration kLongestRest = Duration::s(5);
constexpr Duration kSilence = Duration::ms(int64_t{5} * kHoldMs);

Duration clock_time(clockid_t which) {
  timespec now{};
  clock_gettime(which, &now);
  return Duration::s(now.tv_sec) + Duration::ns(now.tv_nsec);
}

struct Close {
  void operator()(pcap_t* pcap) const { pcap_close(pcap); }
};
using Pcap = std::unique_ptr<pcap_t, Close>;

class PcapLive final : public LiveCapture {
 public:
  PcapLive(std::string interface, Pcap pcap)
      : interface_(std::move(interface)),
        pcap_(std::move(pcap)),
        nanoseconds_(pcap_get_tstamp_precision(pcap_.get()) == PCAP_TSTAMP_PRECISION_NANO),
        begun_(clock_time(CLOCK_MONOTONIC)) {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    begun_at_ = Time::zero() + Duration::ns(now.tv_nsec);
    summary_.format = "live";
    summary_.interfaces = {interface_};
    summary_.first_second = now.tv_sec;
    summary_.has_drop_counts = true;
    summary_.whole_from = begun_at_ + kSettlingIn;
  }

  Time now() const override { return begun_at_ + (clock_time(CLOCK_MONOTONIC) - begun_); }

  Result<void> take(Duration patience, const Taker& taker) override {
    pollfd ready{pcap_get_selectable_fd(pcap_.get()), POLLIN, 0};
    const int64_t ms = std::clamp<int64_t>(patience.ps() / kMillisecond, 0, 1000);
    if (poll(&ready, 1, static_cast<int>(ms)) < 0 && errno == EINTR) return {};
    auto got = dispatch(taker);
    if (!got) return tl::unexpected(got.error());
    return {};
  }

  void take_rest(const Taker& taker) override {
    const Time end = now();
    bool beyond = false;
    const Taker until_end = [&](const SourceFrame& frame) {
      beyond |= frame.at > end;
      if (frame.at <= end) taker(frame);
    };
    Time silent_since = end;
    while (!beyond && now() < end + kLongestRest && now() < silent_since + kSilence) {
      pollfd ready{pcap_get_selectable_fd(pcap_.get()), POLLIN, 0};
      poll(&ready, 1, kHoldMs);
      const auto got = dispatch(until_end);
      if (!got) return;
      if (*got != 0) silent_since = now();
    }
  }

 private:
  struct Call {
    PcapLive* capture;
    const Taker* taker;
  };

  Result<int> dispatch(const Taker& taker) {
    Call call{this, &taker};
    const int got = pcap_dispatch(pcap_.get(), kBatch, on_packet, reinterpret_cast<u_char*>(&call));
    count_drops();
    if (got < 0 && got != PCAP_ERROR_BREAK) {
      return fail(interface_ + ": " + pcap_geterr(pcap_.get()));
    }
    return std::max(got, 0);
  }

  static void on_packet(u_char* user, const pcap_pkthdr* header, const u_char* data) {
    const Call& call = *reinterpret_cast<Call*>(user);
    call.capture->packet(*header, data, *call.taker);
  }

  void packet(const pcap_pkthdr& header, const u_char* data, const Taker& taker) {
    SourceFrame out;
    out.number = ++summary_.frames;
    const Duration part =
        nanoseconds_ ? Duration::ns(header.ts.tv_usec) : Duration::us(header.ts.tv_usec);
    out.at = Time::zero() + Duration::s(header.ts.tv_sec - summary_.first_second) + part;
    out.bytes = {data, header.caplen};
    out.original_bytes = header.len;
    summary_.cut_frames += header.caplen < header.len ? 1 : 0;
    taker(out);
  }

  /// The kernel's counter has 32 bits.
  void count_drops() {
    pcap_stat now{};
    if (pcap_stats(pcap_.get(), &now) != 0) return;
    summary_.drops += now.ps_drop - std::exchange(drops_seen_, now.ps_drop);
  }

  const std::string interface_;
  const Pcap pcap_;
  const bool nanoseconds_;
  const Duration begun_;
  Time begun_at_;
  unsigned drops_seen_ = 0;
};

std::string why_not(int status, pcap_t* pcap) {
  switch (status) {
    case PCAP_ERROR_NO_SUCH_DEVICE:
      return "there is no such network interface";
    case PCAP_ERROR_PERM_DENIED:
    case PCAP_ERROR_PROMISC_PERM_DENIED:
      return "to see its packets takes the capability CAP_NET_RAW, as root has it";
    case PCAP_ERROR_IFACE_NOT_UP:
      return "the interface is down";
    default: {
      const std::string more = pcap_geterr(pcap);
      return more.empty() ? pcap_statustostr(status) : more;
    }
  }
}

/// libpcap's own words on what was asked of it, where it has some.
Result<void> set_filter(pcap_t* pcap) {
  bpf_program program{};
  if (pcap_compile(pcap, &program, live_filter(), 1, PCAP_NETMASK_UNKNOWN) != 0) {
    return fail(pcap_geterr(pcap));
  }
  const int set = pcap_setfilter(pcap, &program);
  pcap_freecode(&program);
  if (set != 0) return fail(pcap_geterr(pcap));
  return {};
}

}  // namespace

// `vlan` moves what stands behind it by one tag, so each tag needs the rest once more.
const char* live_filter() {
  return "udp dst port 4791 or "
         "(vlan and (udp dst port 4791 or (vlan and udp dst port 4791)))";
}

Result<std::unique_ptr<LiveCapture>> open_live_capture(const std::string& interface,
                                                       uint64_t buffer) {
  char error[PCAP_ERRBUF_SIZE] = "";
  Pcap pcap(pcap_create(interface.c_str(), error));
  if (pcap == nullptr) return fail(interface + ": " + error);
  pcap_set_snaplen(pcap.get(), kSnapLength);
  pcap_set_promisc(pcap.get(), 1);
  pcap_set_timeout(pcap.get(), kHoldMs);
  pcap_set_buffer_size(pcap.get(), static_cast<int>(std::min(buffer, kMostLiveBuffer)));
  pcap_set_tstamp_precision(pcap.get(), PCAP_TSTAMP_PRECISION_NANO);
  if (const int status = pcap_activate(pcap.get()); status < 0) {
    return fail(interface + ": " + why_not(status, pcap.get()));
  }
  if (const int type = pcap_datalink(pcap.get()); type != DLT_EN10MB) {
    const char* name = pcap_datalink_val_to_name(type);
    return fail(interface + ": link type " + (name != nullptr ? name : std::to_string(type)) +
                ", not Ethernet");
  }
  if (auto set = set_filter(pcap.get()); !set) {
    return fail(interface + ": " + set.error().text);
  }
  if (pcap_setnonblock(pcap.get(), 1, error) != 0) return fail(interface + ": " + error);
  return std::make_unique<PcapLive>(interface, std::move(pcap));
}

}  // namespace understudy
