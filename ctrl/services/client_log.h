// What is remembered and said of the clients of services. Anybody may connect or be refused any
// number of times, so both are bounded: the first clients stand in the report one by one, and of
// the lines about them one a second is left once there are many.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "ctrl/report/run_report.h"
#include "dataplane/base/units.h"

namespace understudy {

class ClientLog {
 public:
  static constexpr size_t kMostClients = 10'000;  ///< written down; others are counted
  static constexpr uint64_t kMostLines = 100;     ///< said one by one
  static constexpr Duration kSummaryEvery = Duration::s(1);

  explicit ClientLog(std::function<void(const std::string&)> say) : say_(std::move(say)) {}

  void ended(RunReport& report, const ServiceReport& client);
  /// A line about a client, or one more that is not said.
  void line(const std::string& text);
  /// Says how many lines were not, at most once in kSummaryEvery.
  void poll(Time now);
  /// The run is over: what poll() has yet to say.
  void finish();

 private:
  std::function<void(const std::string&)> say_;
  uint64_t lines_ = 0;
  uint64_t unsaid_ = 0;  ///< since the last summary
  Time next_summary_;
};

}  // namespace understudy
