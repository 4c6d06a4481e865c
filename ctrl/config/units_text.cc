#include "ctrl/config/units_text.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "ctrl/config/suggest.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

struct Unit {
  std::string_view name;
  uint64_t factor;
};

constexpr Unit kRateUnits[] = {{"bit/s", 1},
                               {"kbit/s", 1'000},
                               {"Mbit/s", 1'000'000},
                               {"Gbit/s", 1'000'000'000},
                               {"Tbit/s", 1'000'000'000'000}};
constexpr Unit kTimeUnits[] = {
    {"ps", 1}, {"ns", 1'000}, {"us", 1'000'000}, {"ms", 1'000'000'000}, {"s", 1'000'000'000'000}};
constexpr Unit kSizeUnits[] = {{"B", 1},
                               {"KB", 1'000},
                               {"MB", 1'000'000},
                               {"GB", 1'000'000'000},
                               {"KiB", uint64_t{1} << 10},
                               {"MiB", uint64_t{1} << 20},
                               {"GiB", uint64_t{1} << 30}};

/// A kind of quantity: how messages call it, its units, what its smallest step is called, and the
/// largest value. The limits lie beyond any use and keep sums and products of values in 64 bits.
struct Quantity {
  std::string_view what;
  std::span<const Unit> units;
  std::string_view step;
  uint64_t most;
  std::string_view most_text;
};

constexpr Quantity kRate = {"a rate (or \"unlimited\")", kRateUnits, "bit/s", 1'000'000'000'000'000,
                            "1000Tbit/s"};
constexpr Quantity kMemoryRate = {"a rate (or \"unlimited\")", kRateUnits, "bit/s",
                                  1'000'000'000'000'000'000, "1000000Tbit/s"};
constexpr Quantity kDuration = {"a duration", kTimeUnits, "ps", 86'400'000'000'000'000, "86400s"};
constexpr Quantity kSize = {"a size", kSizeUnits, "byte", uint64_t{1} << 40, "1024GiB"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string expected_text(const Quantity& q) {
  std::string text = "expected " + std::string(q.what) + ": a number and one of ";
  for (size_t i = 0; i < q.units.size(); ++i) {
    if (i > 0) text += ", ";
    text += q.units[i].name;
  }
  return text;
}

tl::unexpected<Error> wrong(const Quantity& q, const std::string& why) {
  return fail(expected_text(q) + "; " + why);
}

/// The exact value in the quantity's smallest step, or what is wrong with the text.
Result<uint64_t> parse_quantity(std::string_view text, const Quantity& q) {
  if (text.size() > 1 && text[0] == '-' && (is_digit(text[1]) || text[1] == '.')) {
    return wrong(q, "it must not be negative");
  }
  constexpr size_t kMostDigits = 25;  // 10^25 * the largest factor (10^12) fits 128 bits
  unsigned __int128 digits = 0;
  unsigned __int128 scale = 1;
  size_t count = 0;
  size_t at = 0;
  bool point = false;
  for (; at < text.size() && (is_digit(text[at]) || (text[at] == '.' && !point)); ++at) {
    if (text[at] == '.') {
      if (count == 0) break;
      point = true;
      continue;
    }
    if (++count > kMostDigits) return wrong(q, "the number has too many digits");
    digits = digits * 10 + static_cast<unsigned>(text[at] - '0');
    if (point) scale *= 10;
  }
  if (count == 0 || text[at - 1] == '.') return wrong(q, "there is no number in front");
  if (at < text.size() && text[at] == ' ') ++at;
  const std::string_view name = text.substr(at);
  if (name.empty()) return wrong(q, "the unit is missing");
  std::vector<std::string_view> known;
  for (const Unit& unit : q.units) {
    if (unit.name != name) {
      known.push_back(unit.name);
      continue;
    }
    const unsigned __int128 scaled = digits * unit.factor;
    if (scaled % scale != 0) return wrong(q, "finer than 1 " + std::string(q.step));
    const unsigned __int128 value = scaled / scale;
    if (value > q.most) return wrong(q, "the most is " + std::string(q.most_text));
    return static_cast<uint64_t>(value);
  }
  return wrong(q, "unknown unit \"" + std::string(name) + "\"" + suggest(name, known));
}

Result<Rate> rate_up_to(std::string_view text, const Quantity& q) {
  if (text == "unlimited") return Rate::unlimited();
  const uint64_t bps = TRY(parse_quantity(text, q));
  if (bps == 0) return fail("a rate must be above zero");
  return Rate::bits_per_second(bps);
}

}  // namespace

Result<Rate> parse_rate(std::string_view text) { return rate_up_to(text, kRate); }

Result<Rate> parse_memory_rate(std::string_view text) { return rate_up_to(text, kMemoryRate); }

Result<Duration> parse_duration(std::string_view text) {
  const Result<uint64_t> ps = parse_quantity(text, kDuration);
  if (!ps) return tl::unexpected(ps.error());
  return Duration::ps(static_cast<int64_t>(*ps));
}

std::string exact_text(Duration duration) {
  const auto ps = static_cast<uint64_t>(duration.ps());
  const Unit* unit = std::end(kTimeUnits) - 1;
  while (ps % unit->factor != 0) --unit;
  return std::to_string(ps / unit->factor) + std::string(unit->name);
}

Result<uint64_t> parse_size(std::string_view text) { return parse_quantity(text, kSize); }

Result<uint64_t> parse_bytes(std::string_view text) {
  const bool bare = !text.empty() && std::ranges::all_of(text, is_digit);
  return parse_size(bare ? std::string(text) + "B" : std::string(text));
}

}  // namespace understudy
