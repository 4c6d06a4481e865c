// TCP segments in captured packets.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/base/result.h"
#include "tools/nccl_decode/tcp_stream.h"

struct pcap;  // libpcap's

namespace understudy::nccl_decode {

/// The TCP segment in a packet, nothing where there is none, or only a fragment of one.
/// `link_type` is libpcap's DLT (Ethernet with VLANs, Linux cooked, raw, loopback); `original` the
/// packet's bytes on the wire. Packet number and time are the caller's.
std::optional<TcpSegment> parse_packet(int link_type, std::span<const uint8_t> bytes,
                                       uint32_t original);

struct Capture {
  uint64_t packets = 0;
  uint64_t cut = 0;        ///< packets of which the capture has the beginning only
  bool truncated = false;  ///< the file ends within a packet
  std::vector<TcpConnection> connections;
};

/// A capture that has been opened and not yet read.
class CaptureFile {
 public:
  /// Of pcap or pcapng; errors name it.
  static Result<CaptureFile> open(const std::string& path);
  /// Once only. Errors name the file.
  Result<Capture> read();

 private:
  struct Close {
    void operator()(pcap* file) const;
  };
  CaptureFile(std::string path, pcap* file) : path_(std::move(path)), file_(file) {}

  std::string path_;
  std::unique_ptr<pcap, Close> file_;
};

/// Opens and reads one.
Result<Capture> read_capture(const std::string& path);

}  // namespace understudy::nccl_decode
