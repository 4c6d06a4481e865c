// When what was inferred is not known well enough for a verdict.
#include "ctrl/report/inference_doubt.h"

#include <gtest/gtest.h>

namespace understudy {
namespace {

InferenceReport found_of(bool second_is_unique) {
  InferenceReport found;
  found.operations.resize(3);
  for (InferredReport& o : found.operations) o.unique = o.right = true;
  found.operations[1].operation = "all_gather ring simple of 1048576 B";
  found.operations[1].unique = second_is_unique;
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

TEST(InferenceDoubt, WhatAFeedToldIsKnown) {
  InferenceReport found = found_of(false);
  found.fed = true;
  EXPECT_EQ(inference_doubt(found), "");
}

}  // namespace
}  // namespace understudy
