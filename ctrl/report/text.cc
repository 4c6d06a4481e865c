#include "ctrl/report/text.h"

#include <array>
#include <cmath>

#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

std::string fixed(double value, int decimals) { return format_text("%.*f", decimals, value); }

}  // namespace

std::string duration_text(Duration d) {
  struct Unit {
    double ps;
    const char* name;
  };
  static constexpr std::array<Unit, 5> kUnits = {
      {{1e12, "s"}, {1e9, "ms"}, {1e6, "us"}, {1e3, "ns"}, {1, "ps"}}};
  if (d == Duration()) return "0 s";
  const double ps = static_cast<double>(d.ps());
  size_t i = 0;
  // 0.99995 of a unit would be written as 1.000 of it.
  while (i + 1 < kUnits.size() && std::abs(ps) < kUnits[i].ps * 0.99995) ++i;
  const double value = ps / kUnits[i].ps;
  const double size = std::abs(value);
  const int decimals = kUnits[i].ps == 1 ? 0 : size < 9.9995 ? 3 : size < 99.995 ? 2 : 1;
  return fixed(value, decimals) + " " + kUnits[i].name;
}

std::string size_text(uint64_t bytes) {
  static constexpr std::array<const char*, 4> kUnits = {"B", "KiB", "MiB", "GiB"};
  size_t i = 0;
  for (; i + 1 < kUnits.size() && bytes != 0 && bytes % 1024 == 0; ++i) bytes /= 1024;
  return std::to_string(bytes) + " " + kUnits[i];
}

std::string count_text(uint64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string decimal_text(double value, int decimals) {
  std::string text = fixed(value, decimals);
  if (decimals == 0) return text;
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace understudy
