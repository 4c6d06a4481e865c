// From address vectors, as programs write them, to the headers of frames.
#pragma once

#include <infiniband/verbs.h>

#include "dataplane/wire/build.h"
#include "tools/soft_nic/port/interface.h"

namespace understudy::soft_nic {

/// Whether it is one of this device: global, as RoCE has no local routes, with a GID of ours of its
/// destination's family.
bool is_way(const Interface& interface, const ibv_ah_attr& vector);
/// Its destination.
IpAddress destination_of(const ibv_ah_attr& vector);
/// Of frames by a vector that is_way(), whose next hop has `mac`.
RoceAddressing way_of(const Interface& interface, const ibv_ah_attr& vector, const MacAddress& mac);
/// Of frames from one of our addresses to one of its family, of the lowest priority.
RoceAddressing way_of(const Interface& interface, const IpAddress& from, const IpAddress& to,
                      const MacAddress& mac);

}  // namespace understudy::soft_nic
