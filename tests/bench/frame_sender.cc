// The frames of a pcap file again and again to a network interface, until SIGTERM:
//   frame_sender FILE INTERFACE RATE     RATE frames a second
// Needs CAP_NET_RAW. Prints to standard error how many there were.
#include <signal.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/bench/interface_sender.h"
#include "tests/rigs/pcap_frames.h"

namespace understudy {
namespace {

volatile sig_atomic_t enough = 0;

bool send(const std::vector<std::vector<uint8_t>>& frames, InterfaceSender& sender) {
  for (size_t next = 0; enough == 0; sender.keep_pace()) {
    for (size_t i = 0; i < InterfaceSender::kBatch; ++i) {
      if (!sender.add(frames[next++ % frames.size()])) return false;
    }
  }
  sender.say_how_many();
  return true;
}

int run(int count, char** words) {
  if (count != 4) {
    std::fprintf(stderr, "usage: frame_sender FILE INTERFACE RATE\n");
    return 2;
  }
  const auto frames = pcap_frames(words[1]);
  if (frames.empty()) {
    std::fprintf(stderr, "frame_sender: %s: no frame in it\n", words[1]);
    return 2;
  }
  InterfaceSender sender;
  const double rate = std::strtod(words[3], nullptr);
  ::signal(SIGTERM, [](int) { enough = 1; });
  if (rate > 0 && sender.open(words[2], rate) && send(frames, sender)) return 0;
  std::fprintf(stderr, "frame_sender: %s: %s\n", words[2], std::strerror(errno));
  return 1;
}

}  // namespace
}  // namespace understudy

int main(int argc, char** argv) { return understudy::run(argc, argv); }
