// A process that starts gnuplot for one that no longer may (dataplane/base/confinement.h). It is made before, and waits for one
// program of gnuplot's.
#pragma once

#include <string>
#include <utility>

#include "dataplane/base/result.h"

namespace understudy {

class DrawingChild {
 public:
  /// Error: there cannot be another process.
  static Result<DrawingChild> start();
  DrawingChild(DrawingChild&& other) noexcept
      : scripts_(std::exchange(other.scripts_, -1)), answers_(std::exchange(other.answers_, -1)) {}
  DrawingChild& operator=(DrawingChild&&) = delete;
  /// What was told to draw nothing ends with its maker.
  ~DrawingChild();

  /// Once only. Error: why gnuplot has not drawn, as draw_with() says it.
  Result<void> draw(const std::string& script);

 private:
  DrawingChild(int scripts, int answers) : scripts_(scripts), answers_(answers) {}

  int scripts_;  ///< written here, read by the child
  int answers_;  ///< the other way: empty, or an error's text
};

}  // namespace understudy
