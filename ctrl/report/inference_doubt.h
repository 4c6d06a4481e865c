// Whether operations are known well enough to judge a run by them: inferred ones, and those of
// communicators that no job describes.
#pragma once

#include <string>

#include "ctrl/report/run_report.h"

namespace understudy {

/// Why nobody can say that inferred operations were those of the real ranks: something else explains
/// what came of some, too, so that one may have been another, or two. Empty: each is the only one,
/// or a feed told them.
std::string inference_doubt(const InferenceReport& found);

/// "taken for all_gather ring simple of 64 B, confidence 0.50; 2 operations explain it, the likeliest
/// other one is reduce_scatter ring simple of 64 B".
std::string certainty_text(const InferredReport& operation);

/// What went over communicators that no job describes, as a sentence; empty: nothing.
std::string answered_text(const AnsweredReport& answered);
/// The same of one-sided operations alone.
std::string one_sided_text(const OneSidedReport& one_sided);

}  // namespace understudy
