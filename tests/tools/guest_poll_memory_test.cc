// Programs that look at their memory until another node has written there: the test is that node,
// which writes when the program waits for frames.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>

#include "tools/rigs/guest_poll/frames.h"
#include "tools/rigs/guest_poll/watched_memory.h"

namespace {
std::function<void()> frame_comes;
int waits = 0;
}  // namespace

namespace guest_poll {

bool wait_for_frame() {
  ++waits;
  if (waits > 100) return false;  // it would wait for ever
  frame_comes();
  return true;
}

namespace {

class WatchedMemory : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("GUEST_POLL_MEMORY", "1", 1); }
  void SetUp() override {
#if !defined(__x86_64__)
    GTEST_SKIP() << "not done on this processor";
#endif
    page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const int file = memfd_create("memory", MFD_CLOEXEC);
    ASSERT_EQ(ftruncate(file, static_cast<off_t>(2 * page)), 0);
    memory = map(file);
    theirs = map(file);
    close(file);
    ASSERT_TRUE(memory != nullptr && theirs != nullptr);
    waits = 0;
    frame_comes = [] {};
  }
  void TearDown() override {
    for (const char& name : names) forget(&name);
    if (memory != nullptr) munmap(memory, 2 * page);
    if (theirs != nullptr) munmap(theirs, 2 * page);
  }
  uint8_t* map(int file) const {
    void* const got = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return got == MAP_FAILED ? nullptr : static_cast<uint8_t*>(got);
  }
  uint8_t read(size_t at) const { return *static_cast<volatile uint8_t*>(memory + at); }

  size_t page = 0;
  uint8_t* memory = nullptr;
  uint8_t* theirs = nullptr;  ///< the same for the other node, which is never closed
  char names[17] = {};        ///< of regions
};

TEST_F(WatchedMemory, ALookWaitsUntilTheDataCome) {
  watch(&names[0], memory, 64);
  look_again();
  frame_comes = [&] {
    if (waits == 3) theirs[63] = 7;
  };
  EXPECT_EQ(read(63), 7);
  EXPECT_EQ(waits, 3);
  EXPECT_EQ(read(63), 7);  // the page is open until something else is done
  EXPECT_EQ(waits, 3);
  theirs[63] = 8;
  look_again();
  EXPECT_EQ(read(63), 8);  // it is there already
  EXPECT_EQ(waits, 3);
  look_again();
  EXPECT_EQ(read(64), 0);  // nobody else writes there
  EXPECT_EQ(waits, 3);
}

TEST_F(WatchedMemory, ARegionIsForgottenAndNoOtherOfItsMemory) {
  watch(&names[0], memory, 64);
  watch(&names[1], memory, 64);
  watch(&names[2], memory + page, 64);
  look_again();
  forget(&names[1]);
  forget(&names[3]);  // was never watched
  frame_comes = [&] { theirs[0] = theirs[page] = 5; };
  EXPECT_EQ(read(0), 5);
  EXPECT_EQ(waits, 1);
  look_again();
  forget(&names[0]);
  EXPECT_EQ(read(0), 5);
  EXPECT_EQ(waits, 1);
  EXPECT_EQ(read(page), 5);
  look_again();
  frame_comes = [&] { theirs[page] = 6; };
  EXPECT_EQ(read(page), 6);
  EXPECT_EQ(waits, 2);
}

TEST_F(WatchedMemory, WhatALookHasSeenIsSeenInAllRegionsOfThatMemory) {
  watch(&names[0], memory, 64);
  watch(&names[1], memory, 64);
  look_again();
  frame_comes = [&] { ++theirs[0]; };
  EXPECT_EQ(read(0), 1);
  look_again();
  forget(&names[0]);
  EXPECT_EQ(read(0), 2);
  EXPECT_EQ(waits, 2);
}

TEST_F(WatchedMemory, ItSaysWhichRegionIsOneTooMany) {
  testing::internal::CaptureStderr();
  for (const char& name : names) watch(&name, memory, 64);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("guest_poll: 64 bytes at "), 0u) << said;
  EXPECT_NE(said.find("are not watched: there are 16 regions already"), std::string::npos) << said;
  EXPECT_EQ(said.find('\n'), said.size() - 1) << said;
  forget(&names[0]);
  watch(&names[16], memory + page, 64);  // now there is room
  look_again();
  frame_comes = [&] { theirs[page] = 1; };
  EXPECT_EQ(read(page), 1);
  EXPECT_EQ(waits, 1);
}

}  // namespace
}  // namespace guest_poll
