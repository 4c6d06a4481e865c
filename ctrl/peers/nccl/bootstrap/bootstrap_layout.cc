#include "ctrl/peers/nccl/bootstrap/bootstrap_layout.h"

#include <bit>

namespace understudy {
namespace {

using OneSidedForm::kGinAtOnce;
using OneSidedForm::kMeshes;
using OneSidedForm::kRings;
using enum RingOrder;
using enum SyncForm;

// clang-format off
constexpr BootstrapLayout kBootstrapLayouts[] = {
  // releases          minor check-in       answer early  first              ring         header peerInfo      allGatherInfo                      sync          reg    split  one magic  one-sided
  {"2.18",             18,   64, 8, 36,     28,  false, {28, 28, 0},    kInTurn,     false,  64, 0, 0,     1192, 28, 168, 32, 0,    kNone,        false, false, true},
  {"2.19",             19,   64, 8, 36,     28,  false, {28, 28, 0},    kInTurn,     false,  64, 0, 0,     1192, 28, 168, 32, 0,    kFlagSameTag, false, false, true},
  {"2.20",             20,   64, 8, 36,     28,  false, {28, 28, 8},    kInTurn,     false,  96, 60, 0,    1196, 28, 168, 32, 0,    kFlagSameTag, false, false, true},
  {"2.21",             21,   64, 8, 36,     28,  false, {28, 28, 8},    kConcurrent, false,  96, 60, 0,    1220, 32, 192, 32, 0,    kFlag,        false, false, true},
  {"2.22",             22,   64, 8, 36,     28,  false, {28, 28, 8},    kConcurrent, false,  104, 60, 0,   1228, 32, 192, 32, 0,    kFlag,        false, false, true},
  {"2.23",             23,   172, 16, 44,   128, true,  {64, 0, 0},     kConcurrent, true,   104, 60, 100, 1260, 32, 224, 32, 0,    kEmpty,       false, true,  false},
  {"2.24",             24,   172, 16, 44,   128, true,  {104, 0, 0},    kConcurrent, true,   104, 60, 100, 1260, 32, 224, 32, 0,    kEmpty,       true,  true,  false},
  {"2.25",             25,   172, 16, 44,   128, true,  {104, 0, 0},    kConcurrent, true,   104, 60, 100, 2284, 32, 224, 64, 0,    kEmpty,       true,  true,  false},
  {"2.26",             26,   172, 16, 44,   128, true,  {120, 0, 0},    kConcurrent, true,   104, 60, 100, 2284, 32, 224, 64, 0,    kEmpty,       true,  true,  false},
  {"2.27",             27,   172, 16, 44,   128, true,  {120, 0, 0},    kConcurrent, true,   120, 72, 112, 2288, 32, 224, 64, 2284, kEmpty,       true,  true,  false},
  {"2.28",             28,   172, 16, 44,   128, true,  {120, 0, 0},    kBothWays,   true,   120, 72, 112, 2292, 32, 228, 64, 2288, kEmpty,       true,  true,  false, kGinAtOnce},
  {"2.29.2 to 2.29.3", 29,   176, 20, 48,   128, true,  {120, 0, 0},    kBothWays,   true,   120, 72, 112, 2300, 32, 228, 64, 2288, kEmpty,       true,  true,  false},
  {"2.29.7",           29,   176, 20, 48,   128, true,  {120, 0, 0},    kBothWays,   true,   128, 72, 112, 2300, 32, 228, 64, 2288, kEmpty,       true,  true,  false, kRings},
  {"2.30.3 to 2.30.4", 30,   176, 20, 48,   128, true,  {120, 0, 0},    kBothWays,   true,   128, 72, 112, 2320, 32, 228, 64, 2288, kEmpty,       true,  true,  false},
  {"2.30.7",           30,   176, 20, 48,   128, true,  {120, 0, 0},    kBothWays,   true,   144, 88, 128, 2320, 32, 228, 64, 2288, kEmpty,       true,  true,  false, kMeshes},
  {"2.31",             31,   176, 20, 48,   128, true,  {120, 0, 0},    kBothWays,   true,   144, 88, 128, 2320, 32, 228, 64, 2288, kEmpty,       true,  true,  false, kMeshes},
};
// clang-format on

template <typename Fits>
std::string releases_that(Fits fits) {
  std::string text;
  uint32_t minors = 0;
  const BootstrapLayout *first = nullptr, *last = nullptr;
  const auto flush = [&] {
    if (first == nullptr) return;
    if (!text.empty()) text += ", ";
    text += first == last
                ? std::string(first->releases)
                : "2." + std::to_string(first->minor) + " to 2." + std::to_string(last->minor);
    first = nullptr;
  };
  for (const BootstrapLayout& row : kBootstrapLayouts) {
    if (!fits(row)) {
      flush();
      continue;
    }
    if (first == nullptr) first = &row;
    minors |= uint32_t{1} << row.minor;
    last = &row;
  }
  flush();
  if (text.empty()) return "; no known release has that";
  text = "; NCCL " + text + " has that: set nccl ";
  if (std::has_single_bit(minors)) {
    return text + "= \"2." + std::to_string(std::countr_zero(minors)) + "\" in the [job]";
  }
  return text + "in the [job] to the one that the real ranks run";
}

}  // namespace

std::span<const BootstrapLayout> bootstrap_layouts() { return kBootstrapLayouts; }

std::vector<const BootstrapLayout*> layouts_of(NcclVersion version) {
  std::vector<const BootstrapLayout*> rows;
  for (const BootstrapLayout& row : kBootstrapLayouts) {
    if (row.minor == version.minor) rows.push_back(&row);
  }
  return rows;
}

std::string releases_with(uint32_t size, uint32_t BootstrapLayout::*member) {
  return releases_that([&](const BootstrapLayout& row) { return row.*member == size; });
}

std::string releases_with_first(uint32_t size) {
  return releases_that([&](const BootstrapLayout& row) { return row.first[0] == size; });
}

}  // namespace understudy
