#include "tools/roce_check/findings/findings.h"

#include <algorithm>

#include "dataplane/base/text_format.h"

namespace understudy {

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

const char* severity_name(Severity severity) {
  return severity == Severity::kViolation ? "violation" : "note";
}

const char* basis_text(Basis basis) {
  switch (basis) {
    case Basis::kFrame:
      return "the frame alone";
    case Basis::kConnection:
      return "the packets between these two ends";
    case Basis::kWholeCapture:
      return "a capture that lacks nothing";
    case Basis::kExchange:
      return "the messages of RDMA-CM";
    case Basis::kConfiguration:
      return "the configuration";
  }
  return "?";
}

std::string Finding::line() const {
  std::string out;
  const std::string id = rule_info(rule).id;
  if (id != "-") out += id + " ";
  if (stamp.frame != 0) {
    out += format_text("frame %llu at %.9f s: ", static_cast<unsigned long long>(stamp.frame),
                       stamp.at.seconds());
  }
  return out + text;
}

void Findings::put(Entry& entry, Finding finding) {
  ++entry.count;
  if (entry.examples.size() < kExamples) entry.examples.push_back(std::move(finding));
}

void Findings::add(Rule rule, Stamp stamp, std::string text, std::optional<Basis> basis) {
  put(of(rule), {rule, stamp, std::move(text), basis.value_or(rule_info(rule).basis)});
}

void Findings::remark(Rule rule, Stamp stamp, std::string text, std::optional<Basis> basis) {
  put(remarks_[static_cast<size_t>(rule)],
      {rule, stamp, std::move(text), basis.value_or(rule_info(rule).basis), Severity::kNote});
}

void Findings::add_if_gapless(Rule rule, Stamp stamp, std::string text, std::optional<Time> until) {
  if (whole_from_ && until.value_or(stamp.at) < *whole_from_) {
    ++early_;
    return;
  }
  put(suspicions_[static_cast<size_t>(rule)], {rule, stamp, std::move(text), Basis::kWholeCapture});
}

void Findings::note(Check check, std::string text) {
  std::vector<std::string>& notes = notes_[static_cast<size_t>(check)];
  if (notes.size() < kNotes) return notes.push_back(std::move(text));
  ++more_notes_[static_cast<size_t>(check)];
}

uint64_t Findings::suspicions() const {
  uint64_t sum = 0;
  for (const Entry& suspicion : suspicions_) sum += suspicion.count;
  return sum;
}

void Findings::settle(bool gapless) {
  if (early_ != 0) {
    undecided_ += early_;
    note(Check::kComplete,
         std::to_string(early_) + " suspicions that packets from before the capture may explain");
    early_ = 0;
  }
  for (size_t i = 0; i < kChecks; ++i) {
    if (more_notes_[i] == 0) continue;
    notes_[i].push_back(std::to_string(more_notes_[i]) + " more notes");
    more_notes_[i] = 0;
  }
  for (size_t i = 0; i < kRules; ++i) {
    Entry& suspicion = suspicions_[i];
    if (suspicion.count == 0) continue;
    if (!gapless) {
      undecided_ += suspicion.count;
      const RuleInfo& info = rule_info(static_cast<Rule>(i));
      note(info.check, std::string(info.id) + ": " + std::to_string(suspicion.count) +
                           " suspicions that packets missing from the capture may explain");
    } else {
      Entry& entry = entries_[i];
      entry.count += suspicion.count;
      for (Finding& f : suspicion.examples) entry.examples.push_back(std::move(f));
      std::ranges::stable_sort(entry.examples, {}, [](const Finding& f) { return f.stamp.frame; });
      if (entry.examples.size() > kExamples) entry.examples.resize(kExamples);
    }
    suspicion = Entry{};
  }
}

void Findings::excuse(Rule rule) {
  Entry& entry = of(rule);
  for (const Finding& f : entry.examples) note(rule_info(rule).check, f.line());
  if (entry.count > entry.examples.size()) note(rule_info(rule).check, "...");
  entry.count = 0;
  entry.examples.clear();
}

uint64_t Findings::sum_of(const Entries& entries, Check check) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kRules; ++i) {
    if (rule_info(static_cast<Rule>(i)).check == check) sum += entries[i].count;
  }
  return sum;
}

uint64_t Findings::count(Check check) const { return sum_of(entries_, check); }

Verdict Findings::verdict(Rule rule) const {
  if (of(rule).count != 0) return Verdict::kFails;
  return of(rule).examined != 0 ? Verdict::kHolds : Verdict::kNotChecked;
}

Verdict Findings::verdict(Check check) const {
  Verdict out = Verdict::kNotChecked;
  for (size_t i = 0; i < kRules; ++i) {
    const auto rule = static_cast<Rule>(i);
    if (rule_info(rule).check != check) continue;
    const Verdict one = verdict(rule);
    if (one == Verdict::kFails) return one;
    if (one == Verdict::kHolds) out = one;
  }
  return out;
}

std::vector<Finding> Findings::of_check(const Entries& entries, Check check) {
  std::vector<Finding> out;
  for (size_t i = 0; i < kRules; ++i) {
    if (rule_info(static_cast<Rule>(i)).check != check) continue;
    out.insert(out.end(), entries[i].examples.begin(), entries[i].examples.end());
  }
  return out;
}

bool Findings::hold() const {
  return std::ranges::all_of(entries_, [](const Entry& entry) { return entry.count == 0; });
}

}  // namespace understudy
