// What a shard tells control without being asked, through rings of their own (notice_rings.h): datagrams
// for QP1, and what endpoints have to say.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "dataplane/base/address.h"
#include "dataplane/base/byte_ring.h"
#include "dataplane/base/ids.h"
#include "dataplane/base/units.h"

namespace understudy {

enum class NoticeKind : uint8_t {
  kMad,          ///< a datagram for QP1 of `local`; its bytes follow
  kEstablished,  ///< the first packet came to a queue pair that waited for it
  kDone,         ///< the endpoint has nothing more to do: its connection may be closed
};

/// Head of a record; `bytes` of contents follow it.
struct Notice {
  NoticeKind kind = NoticeKind::kMad;
  Qpn qpn = 0;  ///< of the emulated end
  Time at;      ///< modelled
  IpAddress local, remote;
  uint64_t number = 0;  ///< in the order of the shard
};

/// False when the ring is full: control is too slow, and hears nothing of it.
inline bool push_notice(ByteRing& ring, const Notice& notice, std::span<const uint8_t> bytes) {
  const auto size = static_cast<uint32_t>(sizeof notice + bytes.size());
  uint8_t* at = ring.reserve(size);
  if (at == nullptr) return false;
  std::memcpy(at, &notice, sizeof notice);
  if (!bytes.empty()) std::memcpy(at + sizeof notice, bytes.data(), bytes.size());
  ring.commit(size);
  return true;
}

/// Takes the oldest notice, if there is one: `take(notice, bytes)`.
template <typename Take>
bool pop_notice(ByteRing& ring, Take&& take) {
  const auto record = ring.front();
  if (record.data() == nullptr) return false;
  Notice notice;
  std::memcpy(&notice, record.data(), sizeof notice);
  take(notice, record.subspan(sizeof notice));
  ring.pop();
  return true;
}

}  // namespace understudy
