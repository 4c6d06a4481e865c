// Making the namespace what it has to be: the new network namespace itself, its TAP, sysctls,
// addresses, routes and neighbours. Every function acts on the calling process' namespace.
#pragma once

#include <string>

#include "ctrl/host_namespace/host_namespace.h"
#include "dataplane/base/result.h"
#include "dataplane/base/unique_fd.h"

namespace understudy {

/// Moves this process (of one thread) into a new network namespace; into a new user namespace as
/// well where it lacks the right otherwise.
Result<void> enter_new_namespace();

/// Creates the TAP and gives its non-blocking descriptor.
Result<UniqueFd> open_tap();

/// Kernel settings, addresses and routes of the namespace.
Result<void> configure_namespace(const HostNamespaceSpec& spec);

/// The commands for `ip -batch` that configure_namespace runs.
std::string namespace_commands(const HostNamespaceSpec& spec);

}  // namespace understudy
