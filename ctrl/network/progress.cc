#include "ctrl/network/progress.h"

#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

constexpr std::chrono::seconds kBetweenLines(1);

}  // namespace

Progress::Progress(const std::function<void(const std::string&)>& say)
    : say_(say), start_(Clock::now()), next_(start_ + kBetweenLines) {}

void Progress::line(std::string text, double done) {
  next_ = Clock::now() + kBetweenLines;
  if (done > 0) {
    text += format_text(", about %.0f s left", seconds() / done * (1 - done));
  }
  say_(text);
}

}  // namespace understudy
