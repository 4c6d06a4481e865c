// Rates, durations and sizes as people write them: "100Gbit/s", "2.5us", "4MiB". Exact integer
// arithmetic throughout; a value finer than the unit's resolution is an error, not rounded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dataplane/base/result.h"
#include "dataplane/base/units.h"

namespace understudy {

/// "unlimited", or a number and one of bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s (decimal). Zero is an
/// error: Rate's zero means unlimited. Errors say what was expected.
Result<Rate> parse_rate(std::string_view text);

/// The same of a GPU's memory, which is faster than any link: up to 1000000Tbit/s.
Result<Rate> parse_memory_rate(std::string_view text);

/// A number and one of ps, ns, us, ms, s; never negative.
Result<Duration> parse_duration(std::string_view text);

/// What parse_duration() reads as `duration`, which is not negative: "2s", "1500us".
std::string exact_text(Duration duration);

/// A number of bytes and one of B, KB, MB, GB (decimal), KiB, MiB, GiB (binary).
Result<uint64_t> parse_size(std::string_view text);
/// The same, or a bare number of bytes, as tables have them.
Result<uint64_t> parse_bytes(std::string_view text);

}  // namespace understudy
