// What a service may be, in one table: a new kind is a value and a line here.
#pragma once

#include <array>
#include <string_view>
#include <utility>

namespace understudy {

/// Which client program's handshake a service expects.
enum class ServiceKind {
  kAuto,
  kPingpong,
  kUdPingpong,
  kWriteBw,
  kWriteLat,
  kSendBw,
  kSendLat,
  kReadBw,
  kReadLat,
  kAtomicBw,
  kAtomicLat,
  kRping,
  kUcmatose
};

/// As a configuration, a report and messages write them.
inline constexpr std::array kServiceKinds =
    std::to_array<std::pair<std::string_view, ServiceKind>>({
        {"auto", ServiceKind::kAuto},
        {"pingpong", ServiceKind::kPingpong},
        {"ud_pingpong", ServiceKind::kUdPingpong},
        {"write_bw", ServiceKind::kWriteBw},
        {"write_lat", ServiceKind::kWriteLat},
        {"send_bw", ServiceKind::kSendBw},
        {"send_lat", ServiceKind::kSendLat},
        {"read_bw", ServiceKind::kReadBw},
        {"read_lat", ServiceKind::kReadLat},
        {"atomic_bw", ServiceKind::kAtomicBw},
        {"atomic_lat", ServiceKind::kAtomicLat},
        {"rping", ServiceKind::kRping},
        {"ucmatose", ServiceKind::kUcmatose},
    });

/// Clients of these find the service by RDMA-CM only: nothing listens by TCP.
inline constexpr std::array kOnlyByCm = {ServiceKind::kRping, ServiceKind::kUcmatose};

}  // namespace understudy
