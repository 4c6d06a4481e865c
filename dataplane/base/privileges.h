// Linux capabilities: what a process may do beside what its user may. A program that has opened its devices needs none of
// them, and what comes to it from others cannot use what it no longer has.
#pragma once

#include <cstdint>
#include <string>

namespace understudy {

/// Bits of capability.h (capabilities(7)).
inline constexpr uint64_t kNoCapabilities = 0;
inline constexpr uint64_t kOverrideFileModes = uint64_t{1} << 1;  ///< CAP_DAC_OVERRIDE
inline constexpr uint64_t kBindLowPorts = uint64_t{1} << 10;      ///< CAP_NET_BIND_SERVICE

/// Gives up all capabilities of this process but `kept`, in all of its threads, for good: programs that it starts get no others
/// either. Without any it does nothing. An empty text, or which threads have kept theirs, and why.
std::string keep_capabilities(uint64_t kept);

}  // namespace understudy
