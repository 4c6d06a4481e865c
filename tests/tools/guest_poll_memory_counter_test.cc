// Which bytes of a program's text are taken for an instruction that reads the time stamp counter.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tools/rigs/guest_poll/reads_counter.h"

namespace guest_poll {
namespace {

using Bytes = std::vector<uint8_t>;

/// `code` in the middle of no-operations; how many places are taken for the instruction.
size_t found(const Bytes& code) {
  Bytes text(0x4000, 0x90);
  std::ranges::copy(code, text.begin() + 0x100);
  size_t count = 0;
  for (size_t at = 0; at + 2 <= text.size(); ++at) {
    count += reads_counter(text.data(), text.data() + at, text.data() + text.size()) ? 1 : 0;
  }
  return count;
}

const Bytes kTaken = {0x48, 0xc1, 0xe2, 0x20, 0x89, 0xc3, 0x48, 0x09, 0xd3};  // shl, mov, or

Bytes with(Bytes before, const Bytes& behind) {
  before.insert(before.end(), behind.begin(), behind.end());
  return before;
}

TEST(GuestPollCounter, WhatACompilerMakesOfItIsFound) {
  EXPECT_EQ(found(with({0x0f, 0x31}, kTaken)), 1u);
  // perftest's: behind a jump, whose distance ends before it.
  EXPECT_EQ(found(with({0xe9, 0xeb, 0xfc, 0xff, 0xff, 0x0f, 0x31}, kTaken)), 1u);
}

TEST(GuestPollCounter, TwoBytesAloneAreNot) { EXPECT_EQ(found({0x0f, 0x31, 0x90, 0x90}), 0u); }

TEST(GuestPollCounter, ADistanceIsNot) {
  EXPECT_EQ(found(with({0xe8, 0x0f, 0x31, 0x00, 0x00}, kTaken)), 0u);  // call
  EXPECT_EQ(found(with({0xe9, 0x00, 0x0f, 0x31, 0x00}, kTaken)), 1u);  // leads out of the text
  EXPECT_EQ(found(with({0x0f, 0x84, 0x0f, 0x31, 0x00, 0x00}, kTaken)), 0u);  // je
}

}  // namespace
}  // namespace guest_poll
