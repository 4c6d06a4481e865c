// What was examined, what was found, and the first examples of it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
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

/// What a finding rests on: who doubts it looks there first.
enum class Basis : uint8_t {
  kFrame,          ///< the frame's own bytes
  kConnection,     ///< what the capture shows of this connection, or of these two addresses
  kWholeCapture,   ///< that the capture lacks nothing: a packet that is missing would explain it
  kExchange,       ///< what RDMA-CM's messages say
  kConfiguration,  ///< the configuration that was given
};
const char* basis_text(Basis basis);

/// A note is unusual, or of a kind of endpoint, and no reason that a capture does not hold.
enum class Severity : uint8_t { kViolation, kNote };
const char* severity_name(Severity severity);

struct Finding {
  Rule rule = Rule::kComplete;
  Stamp stamp;
  std::string text;  ///< names the flow and the PSN
  Basis basis = Basis::kFrame;
  Severity severity = Severity::kViolation;
  /// Rule, frame and time, then the text.
  std::string line() const;
};

enum class Verdict : uint8_t { kHolds, kFails, kNotChecked };
const char* verdict_name(Verdict verdict);

class Findings {
 public:
  static constexpr size_t kExamples = 5;  ///< of each rule that are kept; all are counted
  static constexpr size_t kNotes = 1000;  ///< of each check

  /// A situation in which the rule could be broken.
  void examined(Rule rule, uint64_t times = 1) { of(rule).examined += times; }
  /// A violation. `basis`: where it is another one than the rule's.
  void add(Rule rule, Stamp stamp, std::string text, std::optional<Basis> basis = {});
  /// What is no violation, but worth a word: of severity "note".
  void remark(Rule rule, Stamp stamp, std::string text, std::optional<Basis> basis = {});
  /// A violation, unless packets are missing from the capture: settle() decides. `until`: the last
  /// time at which one could have come that explains it, where that is not the stamp's.
  void add_if_gapless(Rule rule, Stamp stamp, std::string text, std::optional<Time> until = {});
  /// So many more of which nobody needs an example.
  void add_if_gapless(Rule rule, uint64_t times) { of(suspicions_, rule).count += times; }
  /// Suspicions of what was before this time stay such: the capture may lack what explains them.
  void set_whole_from(Time at) { whole_from_ = at; }
  /// How many there are that settle() will decide.
  uint64_t suspicions() const;
  /// All packets have been seen. `gapless`: the capture lacks none.
  void settle(bool gapless);
  /// What was found against the rule is no fault here: its examples become notes.
  void excuse(Rule rule);
  /// Says in the report what was measured, or why a check was not made. Of what is said often, as
  /// of things that happen while a capture goes on, the first kNotes are kept and all are counted.
  void note(Check check, std::string text);

  uint64_t examined_times(Rule rule) const { return of(rule).examined; }
  uint64_t count(Rule rule) const { return of(rule).count; }
  uint64_t count(Check check) const;
  Verdict verdict(Rule rule) const;
  Verdict verdict(Check check) const;
  /// The kept examples of violations, rule by rule, and those of remarks.
  std::vector<Finding> examples(Check check) const { return of_check(entries_, check); }
  std::vector<Finding> remarks(Check check) const { return of_check(remarks_, check); }
  /// All that were made.
  uint64_t remark_count(Check check) const { return sum_of(remarks_, check); }
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
  using Entries = std::array<Entry, kRules>;
  static void put(Entry& entry, Finding finding);
  static std::vector<Finding> of_check(const Entries& entries, Check check);
  static uint64_t sum_of(const Entries& entries, Check check);
  static Entry& of(Entries& entries, Rule rule) { return entries[static_cast<size_t>(rule)]; }
  Entry& of(Rule rule) { return of(entries_, rule); }
  const Entry& of(Rule rule) const { return entries_[static_cast<size_t>(rule)]; }

  Entries entries_;
  Entries suspicions_;
  Entries remarks_;
  std::array<std::vector<std::string>, kChecks> notes_;
  std::array<uint64_t, kChecks> more_notes_{};  ///< that were not kept
  uint64_t undecided_ = 0;
  std::optional<Time> whole_from_;
  uint64_t early_ = 0;  ///< suspicions of what was before it
};

}  // namespace understudy
