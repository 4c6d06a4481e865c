#include "dataplane/base/privileges.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace understudy {
namespace {

/// What all threads of this process together may use.
uint64_t permitted() {
  uint64_t all = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(thread.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("CapPrm:")) all |= std::strtoull(line.c_str() + 7, nullptr, 16);
    }
  }
  return all;
}

constexpr int kGood = 0, kNothingToLose = 77;

/// In a process of its own: capabilities do not come back. Its status.
int status_of(int (*what)()) {
  const pid_t child = fork();
  if (child == 0) {
    // Any user has all of them in a user namespace of his own.
    if (permitted() == 0) (void)unshare(CLONE_NEWUSER);
    _exit(permitted() == 0 ? kNothingToLose : what());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Privileges, AllThreadsGiveThemUp) {
  const int status = status_of([] {
    std::atomic<bool> over{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      });
    }
    const bool had = (permitted() & kBindLowPorts) != 0;
    const std::string why = keep_capabilities(kBindLowPorts);
    const bool left = (permitted() & ~kBindLowPorts) != 0 || (permitted() & kBindLowPorts) == 0;
    // Again, with none; and a program that this one starts has none.
    const bool none = keep_capabilities(kNoCapabilities).empty() && permitted() == 0;
    const int program = std::system("grep -q '^CapEff:.0*$' /proc/self/status");
    over = true;
    for (std::thread& thread : threads) thread.join();
    if (!had || !why.empty() || left || !none) return 1;
    return program == 0 ? kGood : 2;
  });
  if (status == kNothingToLose)
    GTEST_SKIP() << "no capability to lose: not root, no user namespaces";
  EXPECT_EQ(status, kGood);
}

TEST(Privileges, WithoutAnyThereIsNothingToDo) {
  EXPECT_EQ(status_of([] {
              return keep_capabilities(kNoCapabilities).empty() &&
                             keep_capabilities(kOverrideFileModes).empty() && permitted() == 0
                         ? kGood
                         : 1;
            }) % kNothingToLose,
            kGood);
}

}  // namespace
}  // namespace understudy
