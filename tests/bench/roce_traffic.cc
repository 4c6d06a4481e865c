// RoCEv2 traffic of eight connections, right in every rule, for measuring what reads it:
//   roce_traffic PACKETS [PAYLOAD]                    as a pcap file to standard output
//   roce_traffic PACKETS PAYLOAD INTERFACE RATE       to a network interface, RATE packets a second,
//                                                     for as long as that should take
// The second form needs CAP_NET_RAW. Prints how long that took to standard error.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/bench/interface_sender.h"
#include "tests/tools/roce_check/traffic.h"

namespace understudy {
namespace {

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

bool send_all(TrafficSource& source, uint64_t packets, InterfaceSender& sender, double rate) {
  const double enough = static_cast<double>(packets) / rate;
  uint64_t sent = 0;
  for (auto frame = source.next(); *frame; frame = source.next()) {
    if (!sender.add((*frame)->bytes)) return false;
    if (++sent % InterfaceSender::kBatch != 0 && source.ready() != 0) continue;
    if (sender.passed() > enough && source.ready() == 0) break;
    sender.keep_pace();
  }
  if (!sender.flush()) return false;
  sender.say_how_many();
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
  InterfaceSender sender;
  const double rate = std::strtod(words[4], nullptr);
  if (rate > 0 && sender.open(words[3], rate) && send_all(source, packets, sender, rate)) return 0;
  std::fprintf(stderr, "roce_traffic: %s: %s\n", words[3], std::strerror(errno));
  return 1;
}

}  // namespace
}  // namespace understudy

int main(int argc, char** argv) { return understudy::run(argc, argv); }
