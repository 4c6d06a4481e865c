// RoCEv2 traffic of eight connections, right in every rule, for measuring what reads it:
//   roce_traffic PACKETS [PAYLOAD]                    as a pcap file to standard output
//   roce_traffic PACKETS PAYLOAD INTERFACE RATE       to a network interface, RATE packets a second,
//                                                     for as long as that should take
// The second form needs CAP_NET_RAW. Prints how long that took to standard error.
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <time.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "dataplane/base/unique_fd.h"
#include "tests/tools/roce_check/traffic.h"

namespace understudy {
namespace {

constexpr size_t kBatch = 32;
constexpr double kBillion = 1e9;

double seconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / kBillion;
}

bool write_words(std::FILE* out, const std::vector<uint32_t>& words) {
  return std::fwrite(words.data(), sizeof(uint32_t), words.size(), out) == words.size();
}

/// pcap with nanoseconds. False: nobody reads any more.
bool write_pcap(TrafficSource& source, std::FILE* out) {
  if (!write_words(out, {0xa1b23c4d, 2 | 4 << 16, 0, 0, 65535, 1})) return false;
  for (auto frame = source.next(); *frame; frame = source.next()) {
    const SourceFrame& f = **frame;
    constexpr int64_t kPsPerSecond = 1'000'000'000'000, kPsPerNs = 1'000;
    const auto second = static_cast<uint32_t>(f.at.ps() / kPsPerSecond);
    const auto ns = static_cast<uint32_t>(f.at.ps() % kPsPerSecond / kPsPerNs);
    const auto size = static_cast<uint32_t>(f.bytes.size());
    if (!write_words(out, {second, ns, size, size})) return false;
    if (std::fwrite(f.bytes.data(), 1, size, out) != size) return false;
  }
  return std::fflush(out) == 0;
}

class Sender {
 public:
  bool open(const char* interface) {
    socket_ = UniqueFd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
    sockaddr_ll to{};
    to.sll_family = AF_PACKET;
    to.sll_protocol = htons(ETH_P_IP);
    to.sll_ifindex = static_cast<int>(if_nametoindex(interface));
    const int on = 1;
    return socket_.valid() && to.sll_ifindex != 0 &&
           ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 &&
           ::setsockopt(socket_.get(), SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on) == 0;
  }
  bool add(std::span<const uint8_t> frame) {
    frames_[used_].assign(frame.begin(), frame.end());
    return ++used_ < kBatch || flush();
  }
  bool flush() {
    std::array<mmsghdr, kBatch> messages{};
    std::array<iovec, kBatch> parts{};
    for (size_t i = 0; i < used_; ++i) {
      parts[i] = {frames_[i].data(), frames_[i].size()};
      messages[i].msg_hdr.msg_iov = &parts[i];
      messages[i].msg_hdr.msg_iovlen = 1;
    }
    for (size_t done = 0; done < used_;) {
      const int sent =
          ::sendmmsg(socket_.get(), &messages[done], static_cast<unsigned>(used_ - done), 0);
      if (sent < 0 && errno != ENOBUFS && errno != EAGAIN && errno != EINTR) return false;
      done += static_cast<size_t>(std::max(sent, 0));
    }
    used_ = 0;
    return true;
  }

 private:
  UniqueFd socket_;
  std::array<std::vector<uint8_t>, kBatch> frames_;
  size_t used_ = 0;
};

void sleep_for(double seconds) {
  timespec nap{0, static_cast<long>(seconds * kBillion)};
  nanosleep(&nap, nullptr);
}

bool send_all(TrafficSource& source, uint64_t packets, Sender& sender, double rate) {
  const double begin = seconds_now();
  const double enough = static_cast<double>(packets) / rate;
  uint64_t sent = 0;
  for (auto frame = source.next(); *frame; frame = source.next()) {
    if (!sender.add((*frame)->bytes)) return false;
    constexpr double kEarly = 0.0005;  // of a second; naps are not shorter
    if (++sent % kBatch != 0 && source.ready() != 0) continue;
    const double passed = seconds_now() - begin;
    if (passed > enough && source.ready() == 0) break;
    const double ahead = static_cast<double>(sent) / rate - passed;
    if (ahead > kEarly) sleep_for(ahead);
  }
  if (!sender.flush()) return false;
  const double took = seconds_now() - begin;
  std::fprintf(stderr, "%lu packets in %.3f s: %.0f/s\n", static_cast<unsigned long>(sent), took,
               static_cast<double>(sent) / took);
  return true;
}

int run(int count, char** words) {
  if (count != 2 && count != 3 && count != 5) {
    std::fprintf(stderr, "usage: roce_traffic PACKETS [PAYLOAD [INTERFACE RATE]]\n");
    return 2;
  }
  const uint64_t packets = std::strtoull(words[1], nullptr, 10);
  const TrafficShape shape{
      .mtu = count > 2 ? static_cast<uint32_t>(std::strtoul(words[2], nullptr, 10)) : 1024};
  TrafficSource source(shape, packets);
  if (count < 5) return write_pcap(source, stdout) ? 0 : 1;
  Sender sender;
  const double rate = std::strtod(words[4], nullptr);
  if (rate > 0 && sender.open(words[3]) && send_all(source, packets, sender, rate)) return 0;
  std::fprintf(stderr, "roce_traffic: %s: %s\n", words[3], std::strerror(errno));
  return 1;
}

}  // namespace
}  // namespace understudy

int main(int argc, char** argv) { return understudy::run(argc, argv); }
