// Pictures are drawn by other programs, which are given a program of their own to run.
#pragma once

#include <string>
#include <vector>

#include "dataplane/base/result.h"

namespace understudy {

struct DrawingProgram {
  std::string name;     ///< found in PATH: "gnuplot"
  std::string what;     ///< what it draws, for messages: "plots"
  std::string package;  ///< of Debian
};

/// Error: it is not in PATH, so that it cannot be run later.
Result<void> find_program(const DrawingProgram& program);

/// Runs it with these arguments and, last, the path of a temporary file that holds `script`. Its
/// messages go where ours go. Errors: it is missing or fails, the temporary file cannot be written.
Result<void> draw_with(const DrawingProgram& program, std::vector<std::string> arguments,
                       const std::string& script);

/// Replaces the file. Error: it cannot be written.
Result<void> write_text(const std::string& file, const std::string& text);

}  // namespace understudy
