// What was examined, what was found, and the first examples of it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/base/units.h"
#include "tools/roce_check/findings/rules.h"

namespace understudy {

/// A place in the capture: the frame's number as tshark counts, 0 for none, and its time.
struct Stamp {
  uint64_t frame = 0;
  Time at;
};

struct Finding {
  Rule rule = Rule::kComplete;
  Stamp stamp;
  std::string text;  ///< names the flow and the PSN
  /// Rule, frame and time, then the text.
  std::string line() const;
};

enum class Verdict : uint8_t { kHolds, kFails, kNotChecked };
const char* verdict_name(Verdict verdict);

class Findings {
 public:
  static constexpr size_t kExamples = 5;  ///< of each rule that are kept; all are counted

  /// A situation in which the rule could be broken.
  void examined(Rule rule, uint64_t times = 1) { of(rule).examined += times; }
  /// A violation.
  void add(Rule rule, Stamp stamp, std::string text);
  /// A violation, unless packets are missing from the capture: settle() decides.
  void add_if_gapless(Rule rule, Stamp stamp, std::string text);
  /// All packets have been seen. `gapless`: the capture lacks none.
  void settle(bool gapless);
  /// What was found against the rule is no fault here: its examples become notes.
  void excuse(Rule rule);
  /// Says in the report what was measured, or why a check was not made.
  void note(Check check, std::string text) {
    notes_[static_cast<size_t>(check)].push_back(std::move(text));
  }

  uint64_t examined_times(Rule rule) const { return of(rule).examined; }
  uint64_t count(Rule rule) const { return of(rule).count; }
  uint64_t count(Check check) const;
  Verdict verdict(Rule rule) const;
  Verdict verdict(Check check) const;
  /// The kept examples, rule by rule.
  std::vector<Finding> examples(Check check) const;
  const std::vector<std::string>& notes(Check check) const {
    return notes_[static_cast<size_t>(check)];
  }
  /// Suspicions that the gaps of the capture may explain as well.
  uint64_t undecided() const { return undecided_; }
  /// Nothing was found.
  bool hold() const;

 private:
  struct Entry {
    uint64_t examined = 0;
    uint64_t count = 0;
    std::vector<Finding> examples;
  };
  Entry& of(Rule rule) { return entries_[static_cast<size_t>(rule)]; }
  const Entry& of(Rule rule) const { return entries_[static_cast<size_t>(rule)]; }

  std::array<Entry, kRules> entries_;
  std::array<Entry, kRules> suspicions_;
  std::array<std::vector<std::string>, kChecks> notes_;
  uint64_t undecided_ = 0;
};

}  // namespace understudy
