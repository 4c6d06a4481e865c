// For tests of net_ib's exchange: what a real rank of each release says, from the offsets of
// docs/nccl 2.3, and a peer with its observer.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "ctrl/peers/nccl/transport/net_ib_peer.h"

namespace understudy {

/// Offsets; 0 where a release has no such field, unless it is the first one.
struct NetIbRelease {
  const char* name;
  uint32_t minor;
  size_t list_bytes, bytes;
  size_t qpn_at, qpn_stride, ece_at, ece_stride, ece_flag_at, ece_flag_stride, device_index_at;
  size_t lid_at, port_at, mtu_at, link_at, gid_at, rkey_at;
  size_t name_at, address_at, ndevs_at, tc_at, sl_at;
  int most_devices;
};
inline const NetIbRelease kNetIbReleases[] = {
    {"2.18", 18, 0, 552, 8, 4, 0, 0, 0, 0, 0, 0, 4, 536, 5, 520, 540, 0, 544, 0, 0, 0, 1},
    {"2.19", 19,   0, 2600, 8,    4, 520,  12, 2056, 4, 0, 0,
     4,      2584, 5, 2568, 2588, 0, 2592, 0,  0,    0, 1},
    {"2.20", 20,   0,    3336, 0,    24,   4,    24,   16, 24, 20, 3072,
     3076,   3080, 3084, 3088, 3104, 3184, 3320, 3328, 0,  0,  2},
    {"2.23", 23,   0,    3336, 0,    24,   4,    24,   16, 24, 20, 3072,
     3076,   3080, 3084, 3088, 3104, 3184, 3320, 3328, 0,  0,  2},
    {"2.24", 24,   20,   3576, 0,    24,   4,    24,   16, 24, 20, 3072,
     3076,   3080, 3084, 3088, 3104, 3296, 3560, 3568, 0,  0,  4},
    {"2.25", 25,   20,   3576, 0,    24,   4,    24,   16, 24, 20, 3072,
     3076,   3080, 3084, 3088, 3104, 3296, 3560, 3568, 0,  0,  4},
    {"2.26", 26,   20,   3584, 0,    24,   4,    24,   16,   24,   20, 3072,
     3076,   3080, 3084, 3088, 3104, 3296, 3560, 3568, 3572, 3576, 4},
    {"2.27", 27,   20,   3648, 0,    24,   4,    24,   16,   24,   20, 3072,
     3076,   3080, 3084, 3088, 3104, 3296, 3624, 3632, 3636, 3640, 4},
    {"2.28", 28,   20,   3648, 0,    24,   4,    24,   16,   24,   20, 3072,
     3076,   3080, 3084, 3088, 3104, 3296, 3624, 3632, 3636, 3640, 4},
    {"2.29", 29,   20,   3744, 0,    24,   4,    24,   16,   24,   20, 3168,
     3172,   3176, 3180, 3184, 3200, 3392, 3720, 3728, 3732, 3736, 4},
    {"2.30", 30,   37,   4576, 0,    24,   4,    24,   16,   24,   20, 3456,
     3460,   3464, 3468, 3472, 3488, 3904, 4552, 4560, 4564, 4568, 8},
    {"2.31", 31,   37,   4576, 0,    24,   4,    24,   16,   24,   20, 3456,
     3460,   3464, 3468, 3472, 3488, 3904, 4552, 4560, 4564, 4568, 8},
};
inline NetIbRelease release_of(uint32_t minor) {
  for (const NetIbRelease& release : kNetIbReleases) {
    if (release.minor == minor) return release;
  }
  return kNetIbReleases[0];
}

inline const IpAddress kNetIbReal = *IpAddress::parse("10.9.0.200");
inline const IpAddress kNetIbEmulated = *IpAddress::parse("10.9.0.2");

struct ScriptedEnd {
  std::vector<Qpn> qpns;
  IpAddress gid;
  uint32_t lid = 0;
  uint8_t port = 1, link_layer = 2;
  int32_t mtu = 5;
  uint32_t rkey = 0;
  uint64_t address = 0;
  int32_t devices = 1, tc = 0, sl = 0;
  bool ece = false;  ///< as an NIC of Mellanox offers it
  std::string device = "understudy";
  /// Of further devices, which else are as the first. Queue pair q is on device q % devices.
  struct Further {
    IpAddress gid;
    uint32_t rkey = 0;
  };
  std::vector<Further> further = {};
  /// Of port failover and recovery; number i is on device i % devices.
  std::vector<Qpn> probing = {}, recovery = {};

  static ScriptedEnd real() {
    ScriptedEnd end;
    end.qpns = {0x1234};
    end.gid = kNetIbReal;
    end.lid = 7;
    end.port = 2;
    end.rkey = 0x1007;
    end.address = 0x7f00deadb000;
    end.tc = 106;
    end.sl = 3;
    end.ece = true;
    end.device = "mlx5_0";
    return end;
  }
};

inline void append(std::vector<uint8_t>& out, const std::vector<uint8_t>& more) {
  out.insert(out.end(), more.begin(), more.end());
}

inline std::vector<uint8_t> metadata(const NetIbRelease& r, const ScriptedEnd& end) {
  std::vector<uint8_t> out(r.bytes);
  const auto put = [&](size_t at, auto value) {
    std::memcpy(out.data() + at, &value, sizeof value);
  };
  for (size_t q = 0; q < end.qpns.size(); ++q) {
    put(r.qpn_at + q * r.qpn_stride, uint32_t{end.qpns[q]});
    if (r.device_index_at != 0) {
      put(r.device_index_at + q * 24, static_cast<uint32_t>(q % (1 + end.further.size())));
    }
    if (!end.ece || r.ece_stride == 0) continue;
    put(r.ece_at + q * r.ece_stride, uint32_t{0x15b3});
    put(r.ece_at + q * r.ece_stride + 4, uint32_t{0x30000002});
    put(r.ece_flag_at + q * r.ece_flag_stride, int32_t{1});
  }
  const auto put_further = [&](const std::vector<Qpn>& qpns, size_t first) {
    for (size_t i = 0; i < qpns.size(); ++i) {
      put(3072 + (first + i) * 24, uint32_t{qpns[i]});
      put(3072 + (first + i) * 24 + 20, static_cast<uint32_t>(i % (1 + end.further.size())));
    }
  };
  put_further(end.probing, 0);
  put_further(end.recovery, static_cast<size_t>(r.most_devices));
  put(r.lid_at, end.lid);
  out[r.port_at] = end.port;
  put(r.mtu_at, end.mtu);
  out[r.link_at] = end.link_layer;
  std::memcpy(out.data() + r.gid_at, end.gid.data(), 16);
  put(r.rkey_at, end.rkey);
  for (size_t d = 0; d < end.further.size(); ++d) {
    const size_t by = (d + 1) * 56;
    put(r.lid_at + by, end.lid);
    out[r.port_at + by] = end.port;
    put(r.mtu_at + by, end.mtu);
    out[r.link_at + by] = end.link_layer;
    std::memcpy(out.data() + r.gid_at + by, end.further[d].gid.data(), 16);
    put(r.rkey_at + by, end.further[d].rkey);
  }
  if (r.name_at != 0) std::memcpy(out.data() + r.name_at, end.device.data(), end.device.size());
  put(r.address_at, end.address);
  if (r.ndevs_at != 0) put(r.ndevs_at, end.devices);
  if (r.tc_at != 0) put(r.tc_at, end.tc);
  if (r.sl_at != 0) put(r.sl_at, end.sl);
  return out;
}

inline std::vector<uint8_t> hello() {
  return {0x6c, 0x9d, 0x4b, 0xfc, 0xf2, 0xb9, 0x4a, 0x56, 4, 0, 0, 0};
}

inline std::vector<uint8_t> device_list(const NetIbRelease& r, int32_t devices) {
  std::vector<uint8_t> out(r.list_bytes);
  std::memcpy(out.data(), &devices, sizeof devices);
  for (int32_t d = 1; d < devices && d < r.most_devices; ++d) {
    std::memcpy(out.data() + 4 + 4 * d, &d, sizeof d);
  }
  return out;
}

struct NetIbBench final : NetIbObserver {
  NetIbBench(const NetIbRelease& release, bool real_sends, uint32_t queue_pairs = 1)
      : connector{.emulated = 1, .real = 0, .channel = 2, .real_sends = real_sends},
        settings(make(release, queue_pairs)),
        peer(connector, settings, seen, *this) {}

  static NetIbSettings make(const NetIbRelease& release, uint32_t queue_pairs) {
    NetIbSettings s;
    s.queue_pairs = queue_pairs;
    s.version = {release.minor};
    s.local = {kNetIbEmulated};
    s.real_addresses = {kNetIbReal};
    s.mtu = 2048;
    s.sender.traffic_class = 32;
    return s;
  }
  void say(const std::vector<uint8_t>& bytes) { peer.on_bytes(Time(), bytes); }
  void say_hello() { say(hello()); }
  std::vector<uint8_t> heard() { return peer.take_output(); }
  std::vector<EndpointRequest> requests() {
    auto fresh = peer.take_requests();
    all_requests.insert(all_requests.end(), fresh.begin(), fresh.end());
    return fresh;
  }
  void answer(const EndpointReady& ready) { peer.on_endpoint(Time(), ready); }

  void on_connector_ready(Time, const NcclConnector& c) override {
    EXPECT_EQ(c, connector);
    log.push_back("ready");
  }
  void on_connector_failed(Time, const NcclConnector&, const std::string& why) override {
    log.push_back("failed: " + why);
  }
  void on_connector_closed(Time, const NcclConnector&) override { log.push_back("closed"); }

  NcclConnector connector;
  NetIbSettings settings;
  NetIbSeen seen;
  std::vector<std::string> log;
  std::vector<EndpointRequest> all_requests;
  NetIbPeer peer;
};

}  // namespace understudy
