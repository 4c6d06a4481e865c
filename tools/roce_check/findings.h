// The checks, their verdicts, and the first examples of what was found against each.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace understudy {

enum class Check : uint8_t {
  kParse,         ///< every RoCEv2 packet parses
  kIcrc,          ///< every ICRC is right
  kOrder,         ///< PSNs come in order; a gap is closed by a retransmission
  kOpcodes,       ///< opcode sequence of each message
  kLengths,       ///< FIRST/MIDDLE are PMTU, RETH lengths equal the payload
  kAcks,          ///< ACKs and NAKs are legal and answer what was sent
  kReads,         ///< READ and ATOMIC responses belong to a request
  kAcknowledged,  ///< every request is acknowledged in the end
  kComplete,      ///< the capture lacks nothing
  kRate,          ///< each emulated queue kept its configured rate
  kCollective,    ///< each step of the collective carried what the model says
};
inline constexpr size_t kChecks = 11;

struct CheckInfo {
  const char* name;
  const char* rule;  ///< of the conformance list (rocev2)
  const char* text;
};
const CheckInfo& check_info(Check check);

enum class Verdict : uint8_t { kHolds, kFails, kNotChecked };
const char* verdict_name(Verdict verdict);

class Findings {
 public:
  static constexpr size_t kExamples = 5;

  /// Records a violation; `text` names flow and PSN, `frame` is its number, 0 for none.
  void add(Check check, uint64_t frame, std::string text);
  /// The check was made, whether or not anything is found.
  void checked(Check check) { of(check).made = true; }
  /// Says in the report what was measured, or why a check was not made.
  void note(Check check, std::string text) { of(check).notes.push_back(std::move(text)); }

  Verdict verdict(Check check) const;
  uint64_t count(Check check) const { return of(check).count; }
  const std::vector<std::string>& examples(Check check) const { return of(check).examples; }
  const std::vector<std::string>& notes(Check check) const { return of(check).notes; }
  /// No check failed.
  bool hold() const;

 private:
  struct Entry {
    bool made = false;
    uint64_t count = 0;
    std::vector<std::string> examples;
    std::vector<std::string> notes;
  };
  Entry& of(Check check) { return entries_[static_cast<size_t>(check)]; }
  const Entry& of(Check check) const { return entries_[static_cast<size_t>(check)]; }

  std::array<Entry, kChecks> entries_;
};

}  // namespace understudy
