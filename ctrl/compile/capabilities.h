// What goes with what: one table of features and real sides, from which configurations are refused,
// documentation is printed and tests are made.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ctrl/compile/features.h"

namespace understudy {

enum class RunClock : uint8_t {
  kVirtual,  ///< simulate
  kReal,     ///< run
};

struct Cell {
  enum class Answer : uint8_t {
    kYes,
    kNo,
    kAbsent,  ///< there is no such thing
  };
  Answer answer = Answer::kYes;
  std::string_view why;  ///< of kNo, and of kAbsent that can be asked for all the same
};

struct Capability {
  std::string_view feature;
  /// Nothing if it is not asked for with this real side. The first place.
  Found (*find)(const Asked& asked, RealSide side);
  std::array<Cell, kRealSides> cells;  ///< by RealSide

  const Cell& cell(RealSide side) const { return cells[static_cast<size_t>(side)]; }
};

std::span<const Capability> capabilities();
std::string_view name_of(RealSide side);

/// The real sides that the configuration's run has; none if `run` has no port to run on.
std::vector<RealSide> real_sides(const Config& config, RunClock clock);

/// Why such a run cannot be, with file and line, and the table's reason; empty if it can.
std::string why_not(const Asked& asked, RunClock clock);

/// The table as Markdown, reasons below it.
std::string capabilities_text();

}  // namespace understudy
