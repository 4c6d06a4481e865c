#include "ctrl/session/progress.h"

#include <cstdio>

namespace understudy {
namespace {

constexpr std::chrono::seconds kBetweenLines(1);

}  // namespace

Progress::Progress(const std::function<void(const std::string&)>& say)
    : say_(say), start_(Clock::now()), next_(start_ + kBetweenLines) {}

void Progress::line(std::string text, double done) {
  next_ = Clock::now() + kBetweenLines;
  if (done > 0) {
    char left[40];
    std::snprintf(left, sizeof(left), ", about %.0f s left", seconds() / done * (1 - done));
    text += left;
  }
  say_(text);
}

}  // namespace understudy
