#include "tools/soft_nic/device/ways.h"

namespace understudy::soft_nic {

namespace {

constexpr unsigned kPriorityShift = 13;

/// The service level; without one the class selector of the traffic class (RFC 2474, 4.2.2).
unsigned priority_of(const ibv_ah_attr& vector) {
  return vector.sl != 0 ? vector.sl & 7U : vector.grh.traffic_class >> 5U;
}

}  // namespace

IpAddress destination_of(const ibv_ah_attr& vector) {
  return IpAddress::v6_bytes(vector.grh.dgid.raw);
}

bool is_way(const Interface& interface, const ibv_ah_attr& vector) {
  if (vector.is_global == 0 || vector.port_num != 1) return false;
  if (vector.grh.sgid_index >= interface.addresses.size()) return false;
  const IpAddress to = destination_of(vector);
  const IpAddress& from = interface.addresses[vector.grh.sgid_index].address;
  return !to.is_unset() && from.is_v4() == to.is_v4();
}

RoceAddressing way_of(const Interface& interface, const IpAddress& from, const IpAddress& to,
                      const MacAddress& mac) {
  RoceAddressing way;
  way.src_mac = interface.mac;
  way.dst_mac = mac;
  way.src = from;
  way.dst = to;
  way.vlan_tci = interface.vlan;
  return way;
}

RoceAddressing way_of(const Interface& interface, const ibv_ah_attr& vector,
                      const MacAddress& mac) {
  const IpAddress& from = interface.addresses[vector.grh.sgid_index].address;
  RoceAddressing way = way_of(interface, from, destination_of(vector), mac);
  way.traffic_class = vector.grh.traffic_class;
  if (vector.grh.hop_limit > 1) way.ttl = vector.grh.hop_limit;
  if (way.vlan_tci) {
    *way.vlan_tci = static_cast<uint16_t>(*way.vlan_tci | priority_of(vector) << kPriorityShift);
  }
  return way;
}

}  // namespace understudy::soft_nic
