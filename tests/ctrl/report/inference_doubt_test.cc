// When what was inferred is not known well enough for a verdict.
#include "ctrl/report/inference_doubt.h"

#include <gtest/gtest.h>

namespace understudy {
namespace {

InferenceReport found_of(bool second_is_unique) {
  InferenceReport found;
  found.operations.resize(3);
  for (InferredReport& o : found.operations) {
    o.unique = true;
    o.right = true;
  }
  found.operations[1].operation = "all_gather ring simple of 1048576 B";
  found.operations[1].unique = second_is_unique;
  if (!second_is_unique) {
    found.operations[1].confidence = 0.9995;
    found.operations[1].explanations = 2;
    found.operations[1].other = "reduce_scatter ring simple of 1048576 B";
  }
  return found;
}

TEST(InferenceDoubt, OperationsThatNothingElseExplainsAreJudged) {
  EXPECT_EQ(inference_doubt(found_of(true)), "");
  EXPECT_EQ(inference_doubt({}), "");
}

TEST(InferenceDoubt, AnOperationThatMayHaveBeenAnotherIsNamed) {
  const std::string doubt = inference_doubt(found_of(false));
  EXPECT_NE(doubt.find("1 of 3 inferred operations"), std::string::npos) << doubt;
  EXPECT_NE(doubt.find("operation 1, taken for all_gather ring simple of 1048576 B"),
            std::string::npos)
      << doubt;
}

TEST(InferenceDoubt, SaysHowSureItIsAndWhatElseItMayHaveBeen) {
  const InferenceReport found = found_of(false);
  EXPECT_EQ(certainty_text(found.operations[1]),
            "taken for all_gather ring simple of 1048576 B, confidence 0.99; 2 operations explain "
            "it, the likeliest other one is reduce_scatter ring simple of 1048576 B");
  EXPECT_NE(inference_doubt(found).find(certainty_text(found.operations[1])), std::string::npos);
  InferredReport endless;
  endless.operation = "all_reduce ring simple of 8 B";
  endless.confidence = 0.25;
  endless.explanations.reset();
  EXPECT_EQ(certainty_text(endless),
            "taken for all_reduce ring simple of 8 B, confidence 0.25; endlessly many operations "
            "explain it");
}

TEST(InferenceDoubt, WhatAFeedToldIsKnown) {
  InferenceReport found = found_of(false);
  found.fed = true;
  EXPECT_EQ(inference_doubt(found), "");
}

}  // namespace
}  // namespace understudy
