#include "tools/nccl_decode/packet.h"

#include <pcap/pcap.h>

#include <algorithm>

namespace understudy::nccl_decode {
namespace {

constexpr uint16_t kEtherV4 = 0x0800, kEtherV6 = 0x86dd;
constexpr uint8_t kTcp = 6;

uint16_t be16(std::span<const uint8_t> bytes, size_t at) {
  return static_cast<uint16_t>(bytes[at] << 8 | bytes[at + 1]);
}

uint32_t be32(std::span<const uint8_t> bytes, size_t at) {
  return static_cast<uint32_t>(be16(bytes, at)) << 16 | be16(bytes, at + 2);
}

/// Bytes of the link's header, and what follows it: an Ethernet type, 0 if the first nibble says.
struct Link {
  size_t bytes = 0;
  uint16_t type = 0;
};

std::optional<Link> link_header(int link_type, std::span<const uint8_t> bytes) {
  Link link;
  switch (link_type) {
    case DLT_EN10MB:
      link.bytes = 14;
      if (bytes.size() < link.bytes) return std::nullopt;
      link.type = be16(bytes, 12);
      while (link.type == 0x8100 || link.type == 0x88a8) {
        link.bytes += 4;
        if (bytes.size() < link.bytes) return std::nullopt;
        link.type = be16(bytes, link.bytes - 2);
      }
      return link;
    case DLT_LINUX_SLL:
      link.bytes = 16;
      if (bytes.size() < link.bytes) return std::nullopt;
      link.type = be16(bytes, 14);
      return link;
    case DLT_LINUX_SLL2:
      link.bytes = 20;
      if (bytes.size() < link.bytes) return std::nullopt;
      link.type = be16(bytes, 0);
      return link;
    case DLT_NULL:
    case DLT_LOOP:
      link.bytes = 4;
      return bytes.size() < link.bytes ? std::nullopt : std::optional(link);
    case DLT_RAW:
      return link;
    default:
      return std::nullopt;
  }
}

/// The IP header's addresses, and where TCP begins and ends. `end` is on the wire: it may lie
/// beyond what was captured.
struct Ip {
  IpAddress from, to;
  size_t begin = 0, end = 0;
};

std::optional<Ip> ip_v4(std::span<const uint8_t> bytes, size_t original) {
  if (bytes.size() < 20) return std::nullopt;
  Ip ip;
  ip.begin = static_cast<size_t>(bytes[0] & 15) * 4;
  const size_t total = be16(bytes, 2);
  const bool fragment = (be16(bytes, 6) & 0x3fff) != 0;
  if (bytes[9] != kTcp || fragment || ip.begin < 20) return std::nullopt;
  ip.from = IpAddress::v4_bytes(bytes.data() + 12);
  ip.to = IpAddress::v4_bytes(bytes.data() + 16);
  // What the NIC is to cut into packets is captured whole, with a length of 0 if that is too long.
  ip.end = total == 0 ? original : total;
  return ip;
}

std::optional<Ip> ip_v6(std::span<const uint8_t> bytes, size_t original) {
  if (bytes.size() < 40) return std::nullopt;
  Ip ip;
  ip.from = IpAddress::v6_bytes(bytes.data() + 8);
  ip.to = IpAddress::v6_bytes(bytes.data() + 24);
  const size_t payload = be16(bytes, 4);
  ip.end = payload == 0 ? original : 40 + payload;
  ip.begin = 40;
  uint8_t next = bytes[6];
  while (next == 0 || next == 43 || next == 60) {  // hop by hop, routing, destination options
    if (bytes.size() < ip.begin + 8) return std::nullopt;
    next = bytes[ip.begin];
    ip.begin += (static_cast<size_t>(bytes[ip.begin + 1]) + 1) * 8;
  }
  return next == kTcp ? std::optional(ip) : std::nullopt;
}

}  // namespace

std::optional<TcpSegment> parse_packet(int link_type, std::span<const uint8_t> bytes,
                                       uint32_t original) {
  const auto link = link_header(link_type, bytes);
  if (!link) return std::nullopt;
  const size_t on_wire = std::max<size_t>(original, bytes.size()) - link->bytes;
  bytes = bytes.subspan(link->bytes);
  if (bytes.empty()) return std::nullopt;
  const int version = bytes[0] >> 4;
  if ((link->type == kEtherV4 && version != 4) || (link->type == kEtherV6 && version != 6) ||
      (link->type != 0 && link->type != kEtherV4 && link->type != kEtherV6)) {
    return std::nullopt;
  }
  std::optional<Ip> ip;
  if (version == 4) ip = ip_v4(bytes, on_wire);
  if (version == 6) ip = ip_v6(bytes, on_wire);
  if (!ip || ip->begin + 20 > bytes.size()) return std::nullopt;
  const auto tcp = bytes.subspan(ip->begin);
  const size_t header = static_cast<size_t>(tcp[12] >> 4) * 4;
  if (header < 20 || ip->begin + header > ip->end) return std::nullopt;
  TcpSegment out;
  out.from = {ip->from, be16(tcp, 0)};
  out.to = {ip->to, be16(tcp, 2)};
  out.sequence = be32(tcp, 4);
  const uint8_t flags = tcp[13];
  out.fin = (flags & 1) != 0;
  out.syn = (flags & 2) != 0;
  out.reset = (flags & 4) != 0;
  out.ack = (flags & 16) != 0;
  const size_t sent = ip->end - ip->begin - header;
  out.payload_bytes = static_cast<uint32_t>(sent);
  if (header < tcp.size()) {
    out.payload = tcp.subspan(header, std::min(sent, tcp.size() - header));
  }
  return out;
}

void CaptureFile::Close::operator()(pcap* file) const { pcap_close(file); }

Result<CaptureFile> CaptureFile::open(const std::string& path) {
  char error[PCAP_ERRBUF_SIZE] = "";
  pcap_t* file =
      pcap_open_offline_with_tstamp_precision(path.c_str(), PCAP_TSTAMP_PRECISION_NANO, error);
  if (file == nullptr) return fail(path + ": " + error);
  CaptureFile out(path, file);
  const int link_type = pcap_datalink(file);
  if (link_header(link_type, std::vector<uint8_t>(64)) == std::nullopt) {
    const char* name = pcap_datalink_val_to_name(link_type);
    return fail(path + ": link type " + (name != nullptr ? name : std::to_string(link_type)) +
                ", not Ethernet, Linux cooked, raw or loopback");
  }
  return out;
}

Result<Capture> CaptureFile::read() {
  const int link_type = pcap_datalink(file_.get());
  Capture capture;
  TcpReassembler reassembler;
  std::optional<int64_t> first;
  pcap_pkthdr* header = nullptr;
  const u_char* data = nullptr;
  int got = 0;
  while ((got = pcap_next_ex(file_.get(), &header, &data)) == 1) {
    ++capture.packets;
    capture.cut += header->caplen < header->len ? 1 : 0;
    auto segment = parse_packet(link_type, {data, header->caplen}, header->len);
    if (!segment) continue;
    segment->packet = capture.packets;
    // With nanoseconds in tv_usec: so the file was opened. Time has 106 days on either side.
    const int64_t seconds = header->ts.tv_sec;
    if (!first) first = seconds;
    constexpr int64_t kMostSeconds = 4'000'000, kNsPerSecond = 1'000'000'000;
    const int64_t since = std::clamp(seconds, *first - kMostSeconds, *first + kMostSeconds);
    segment->at = Time::zero() + Duration::s(since - *first) +
                  Duration::ns(std::clamp<int64_t>(header->ts.tv_usec, 0, kNsPerSecond));
    reassembler.add(*segment);
  }
  const std::string why = pcap_geterr(file_.get());
  capture.truncated = why.find("truncated dump file") != std::string::npos;
  if (got == PCAP_ERROR && !capture.truncated) return fail(path_ + ": " + why);
  capture.connections = reassembler.finish();
  return capture;
}

Result<Capture> read_capture(const std::string& path) {
  auto file = CaptureFile::open(path);
  if (!file) return tl::unexpected(file.error());
  return file->read();
}

}  // namespace understudy::nccl_decode
