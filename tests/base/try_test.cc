// TRY: values come out, errors go on, nothing is done twice or left behind.
#include "dataplane/base/try.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "dataplane/base/result.h"

namespace understudy {
namespace {

Result<int> number(int value) {
  if (value < 0) return fail("file.toml:7: " + std::to_string(value) + " is below zero");
  return value;
}

Result<std::string> doubled(int value, int& calls) {
  const int n = TRY((++calls, number(value)));
  return std::to_string(2 * n);
}

TEST(Try, GivesTheValueAndEvaluatesOnce) {
  int calls = 0;
  EXPECT_EQ(doubled(21, calls).value(), "42");
  EXPECT_EQ(calls, 1);
}

TEST(Try, HandsTheErrorOnAsItIs) {
  int calls = 0;
  const auto result = doubled(-3, calls);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().text, "file.toml:7: -3 is below zero");
  EXPECT_EQ(calls, 1);
}

Result<void> above_zero(int value) {
  TRY(number(value));
  return {};
}

Result<int> sum(int a, int b) {
  TRY(above_zero(a));
  TRY(above_zero(b));
  return TRY(number(a)) + TRY(number(b));
}

TEST(Try, TakesResultsWithoutAValue) {
  EXPECT_EQ(sum(1, 2).value(), 3);
  EXPECT_FALSE(sum(-1, 2));
  EXPECT_EQ(sum(1, -2).error().text, "file.toml:7: -2 is below zero");
}

Result<std::unique_ptr<int>> made(int value) { return std::make_unique<int>(TRY(number(value))); }

TEST(Try, MovesWhatCannotBeCopied) {
  const auto through = [](int value) -> Result<int> {
    const std::unique_ptr<int> own = TRY(made(value));
    return *own;
  };
  EXPECT_EQ(through(5).value(), 5);
  EXPECT_FALSE(through(-5));
}

TEST(Try, LeavesTheInnermostFunction) {
  int reached = 0;
  const auto inner = [&](int value) -> Result<void> {
    TRY(number(value));
    ++reached;
    return {};
  };
  EXPECT_FALSE(inner(-1));
  EXPECT_TRUE(inner(1));
  EXPECT_EQ(reached, 1);
}

TEST(Try, DestroysWhatTheFunctionHad) {
  const auto kept = std::make_shared<int>(0);
  const auto f = [&](int value) -> Result<long> {
    const std::shared_ptr<int> copy = kept;
    TRY(number(value));
    return copy.use_count();
  };
  EXPECT_EQ(f(1).value(), 2);
  EXPECT_FALSE(f(-1));
  EXPECT_EQ(kept.use_count(), 1);
}

TEST(Try, TakesArgumentsWithCommas) {
  const auto f = []() -> Result<size_t> {
    const auto map = TRY(Result<std::map<int, int>>(std::map<int, int>{{1, 2}, {3, 4}}));
    return map.size();
  };
  EXPECT_EQ(f().value(), 2);
}

}  // namespace
}  // namespace understudy
