#include "tools/roce_check/findings.h"

namespace understudy {

const CheckInfo& check_info(Check check) {
  static constexpr std::array<CheckInfo, kChecks> kInfo = {{
      {"parse", "A1 A3", "every RoCEv2 packet parses"},
      {"icrc", "A2", "every ICRC is right"},
      {"order", "A4 A5", "PSNs in order, gaps closed by retransmission"},
      {"opcodes", "A4", "opcode sequence inside messages"},
      {"lengths", "A4", "packets of path MTU, RETH lengths equal the payload"},
      {"acks", "A4 A5", "ACKs, NAKs and MSNs legal, NAKs obeyed"},
      {"reads", "A4", "READ and ATOMIC responses belong to a request"},
      {"acknowledged", "A5", "every request acknowledged in the end"},
      {"complete", "A10", "the capture lacks nothing"},
      {"rate", "-", "emulated queues kept their configured rate"},
      {"collective", "-", "each step carried the bytes of the model"},
  }};
  return kInfo[static_cast<size_t>(check)];
}

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kHolds:
      return "holds";
    case Verdict::kFails:
      return "FAILS";
    case Verdict::kNotChecked:
      return "not checked";
  }
  return "?";
}

void Findings::add(Check check, uint64_t frame, std::string text) {
  Entry& entry = of(check);
  entry.made = true;
  if (++entry.count > kExamples) return;
  if (frame != 0) text = "frame " + std::to_string(frame) + ": " + text;
  entry.examples.push_back(std::move(text));
}

Verdict Findings::verdict(Check check) const {
  const Entry& entry = of(check);
  if (entry.count != 0) return Verdict::kFails;
  return entry.made ? Verdict::kHolds : Verdict::kNotChecked;
}

bool Findings::hold() const {
  for (const Entry& entry : entries_) {
    if (entry.count != 0) return false;
  }
  return true;
}

}  // namespace understudy
