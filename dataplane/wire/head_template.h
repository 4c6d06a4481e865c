// Packets of one queue pair and opcode that are equally long differ in their PSN and extension
// headers only: the headers before these, and the ICRC up to there, are made once.
#pragma once

#include <array>
#include <cstdint>

#include "dataplane/wire/build.h"

namespace understudy {

class HeadTemplate {
 public:
  /// For packets of `addressing` that are like this one.
  void set(const RoceAddressing& addressing, const RoceFields& fields, uint32_t payload_bytes);
  /// Whether it is for this packet, as far as packets of a queue pair differ from one another.
  bool fits(const RoceAddressing& addressing, const RoceFields& fields,
            uint32_t payload_bytes) const {
    return fields.opcode == opcode_ && payload_bytes == payload_bytes_ &&
           fields.solicited == solicited_ && addressing.traffic_class == traffic_class_ &&
           addressing.dst_mac == dst_mac_;
  }
  /// As begin_roce(); `crc` is the ICRC as far as it goes.
  uint8_t* begin(uint8_t* out, const RoceFields& fields, uint32_t& crc) const;

 private:
  /// With a VLAN tag and IPv6, up to the BTH's last word, which has the PSN.
  static constexpr size_t kMostBytes = 14 + 4 + 40 + 8 + 8;

  uint32_t bytes_ = 0, payload_bytes_ = 0;
  uint32_t crc_ = 0;
  Opcode opcode_ = Opcode::kAcknowledge;
  bool solicited_ = false;
  uint8_t traffic_class_ = 0;
  MacAddress dst_mac_;
  std::array<uint8_t, kMostBytes> frame_{};
};

}  // namespace understudy
