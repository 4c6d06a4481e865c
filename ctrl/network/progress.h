// How far a long run is and how long it may still take, once a second of real time.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace understudy {

class Progress {
 public:
  /// `say` outlives this and may be empty: nothing is said then.
  explicit Progress(const std::function<void(const std::string&)>& say);

  /// Whether it is time for another line.
  bool due() const { return say_ && Clock::now() >= next_; }
  /// Real seconds since the start.
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  /// One line, with the remaining time behind it. `done`: share of the work.
  void line(std::string text, double done);

 private:
  using Clock = std::chrono::steady_clock;
  const std::function<void(const std::string&)>& say_;
  Clock::time_point start_, next_;
};

}  // namespace understudy
