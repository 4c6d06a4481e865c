// Fuzzer of roce-check: any bytes as a capture file, and structured captures, where the input
// chooses headers and the ICRC is made right, so that the state machines behind it are reached.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/unique_fd.h"
#include "dataplane/wire/pcapng.h"
#include "tests/fuzz/captured_packets.h"
#include "tools/roce_check/checks/analysis.h"
#include "tools/roce_check/output/report.h"
#include "tools/roce_check/packets/consecutive_source.h"

namespace understudy {
namespace {

/// A file (which libpcap needs) that lives in memory only.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const uint8_t> bytes) : fd_(memfd_create("capture", 0)) {
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t n = ::write(fd_.get(), bytes.data() + done, bytes.size() - done);
      if (n <= 0) break;
      done += static_cast<size_t>(n);
    }
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }

 private:
  UniqueFd fd_;
};

void judge(const std::vector<uint8_t>& bytes) {
  const MemoryFile file(bytes);
  if (const auto analysis = analyse(file.path(), {})) (void)report_json(*analysis, file.path());
}

/// The input as two files of one capture; the first byte says where it is cut.
void judge_consecutive(std::span<const uint8_t> bytes) {
  if (bytes.empty()) return;
  const size_t cut = 1 + (bytes.size() - 1) * bytes[0] / 256;
  const MemoryFile first(bytes.subspan(1, cut - 1)), second(bytes.subspan(cut));
  auto source = open_consecutive({first.path(), second.path()});
  if (!source) return;
  if (const auto analysis = analyse(**source, {})) (void)report_json(*analysis, first.path());
}

/// Each 8 bytes of input become one packet between two hosts.
std::vector<uint8_t> structured(const uint8_t* data, size_t size) {
  std::vector<uint8_t> out;
  append_pcapng_section(out, "fuzz");
  append_pcapng_interface(out, "port0", 0, {});
  for (size_t i = 0; i + kBytesOfPacket <= size; i += kBytesOfPacket) {
    const std::vector<uint8_t> frame =
        packet_of(std::span<const uint8_t, kBytesOfPacket>(data + i, kBytesOfPacket));
    if (frame.empty()) continue;
    append_pcapng_packet(out, 0, {},
                         {CaptureDirection::kIn, Time::from_ps(static_cast<int64_t>(i)),
                          Time::never(), frame, static_cast<uint32_t>(frame.size())});
  }
  return out;
}

}  // namespace
}  // namespace understudy

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  understudy::judge({data, data + size});
  understudy::judge(understudy::structured(data, size));
  understudy::judge_consecutive({data, size});
  return 0;
}
