// The process that owns the exception namespace: sets it up, then opens sockets in it on request.
#pragma once

#include "ctrl/host_namespace/host_namespace.h"

namespace understudy {

/// Runs in the forked child; never returns. First message on `channel`: the TAP's descriptor, or an
/// error text. Then one answer (socket or error text) to each request, "listen ADDRESS PORT" or
/// "connect FROM TO PORT", until the other end closes.
[[noreturn]] void run_namespace_helper(int channel, const HostNamespaceSpec& spec);

}  // namespace understudy
