#include "dataplane/wire/icrc.h"

#include <isa-l/crc.h>

#include <cstring>

#include "dataplane/wire/headers.h"

namespace understudy {

uint32_t icrc(std::span<const uint8_t> ip) {
  // The headers are copied so that the mask never writes into a packet that others may read.
  uint8_t head[8 + sizeof(Ipv6Header) + sizeof(UdpHeader) + sizeof(Bth)];
  const bool v4 = (ip[0] >> 4) == 4;
  const size_t ip_bytes = v4 ? sizeof(Ipv4Header) : sizeof(Ipv6Header);
  const size_t covered = ip_bytes + sizeof(UdpHeader) + sizeof(Bth);
  std::memset(head, 0xff, 8);
  uint8_t* h = head + 8;
  std::memcpy(h, ip.data(), covered);
  if (v4) {
    h[1] = 0xff;           // DSCP and ECN
    h[8] = 0xff;           // TTL
    h[10] = h[11] = 0xff;  // header checksum
  } else {
    h[0] |= 0x0f;  // traffic class and flow label
    h[1] = h[2] = h[3] = 0xff;
    h[7] = 0xff;  // hop limit
  }
  h[ip_bytes + 6] = h[ip_bytes + 7] = 0xff;    // UDP checksum
  h[ip_bytes + sizeof(UdpHeader) + 4] = 0xff;  // FECN, BECN, reserved
  const uint32_t crc = crc32_gzip_refl(0, head, 8 + covered);
  return crc32_gzip_refl(crc, ip.data() + covered, ip.size() - covered);
}

}  // namespace understudy
