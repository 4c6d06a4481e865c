#include "ctrl/report/inference_doubt.h"

#include <algorithm>

#include "ctrl/report/text.h"
#include "dataplane/base/text_format.h"

namespace understudy {

std::string certainty_text(const InferredReport& operation) {
  std::string text = "taken for " + operation.operation;
  if (operation.confidence == 1) return text + ", which nothing else explains";
  // Never as sure as 1.00 looks.
  text += ", confidence " + format_text("%.2f", std::min(operation.confidence, 0.99)) + "; " +
          (operation.explanations ? count_text(*operation.explanations, "operation")
                                  : std::string("endlessly many operations")) +
          (operation.explanations == 1 ? " explains it" : " explain it");
  if (!operation.other.empty()) text += ", the likeliest other one is " + operation.other;
  return text;
}

std::string inference_doubt(const InferenceReport& found) {
  if (found.fed) return "";
  const auto& all = found.operations;
  const auto open = std::ranges::count_if(all, [](const InferredReport& o) { return !o.unique; });
  if (open == 0) return "";
  const auto first = std::ranges::find(all, false, &InferredReport::unique);
  return "what came of " + std::to_string(open) + " of " +
         count_text(all.size(), "inferred operation") +
         " something else explains, too, first of operation " +
         std::to_string(first - all.begin()) + ", " + certainty_text(*first) +
         ": a profiler plugin tells (operations = \"fed\")";
}

std::string one_sided_text(const OneSidedReport& one_sided) {
  if (!one_sided.any()) return "";
  return count_text(one_sided.puts, "put") + " and " + count_text(one_sided.signals, "signal") +
         " of one-sided operations were answered at once: not timed";
}

std::string answered_text(const AnsweredReport& answered) {
  if (answered.messages == 0) return one_sided_text(answered.one_sided);
  return (answered.operations == 0 ? "" : count_text(answered.operations, "operation") + " in ") +
         count_text(answered.messages, "message") + " of " +
         count_text(answered.communicators, "communicator") +
         " that no [[job]] describes (child_of) were answered at once: not timed, and without "
         "right "
         "values";
}

}  // namespace understudy
