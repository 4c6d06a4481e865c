// The one device that a process sees: made of the settings when a program first asks for devices.
#pragma once

#include <infiniband/verbs.h>

#include "dataplane/base/result.h"

namespace understudy::soft_nic {

class Nic;

/// Null with errno set and a line on standard error when the settings name no usable interface.
ibv_device* the_device();
/// The same for those who may be called at any time: null until the_device() has made it.
const ibv_device* device_if_made();
/// Its NIC, with port and helper thread, made at the first call. Errors say what is missing.
Result<Nic*> the_nic();
/// Stable EUI-64 of the interface's MAC, as it stands in memory (big-endian).
__be64 device_guid();

}  // namespace understudy::soft_nic
