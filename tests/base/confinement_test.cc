#include "dataplane/base/confinement.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <new>
#include <string>
#include <vector>

namespace understudy {
namespace {

constexpr int kGood = 0, kNotConfined = 77;

/// What becomes of a confined process that does this: waitpid()'s status.
int confined(const std::function<int()>& what, Further further = Further::kNothing) {
  const pid_t child = fork();
  if (child == 0) _exit(confine(further).empty() ? what() : kNotConfined);
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

class Confinement : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_confine()) GTEST_SKIP() << "without libseccomp, or sanitized";
  }
};

#define EXPECT_GOOD(...)                    \
  const int status = confined(__VA_ARGS__); \
  EXPECT_TRUE(WIFEXITED(status));           \
  EXPECT_EQ(WEXITSTATUS(status), kGood)

#define EXPECT_KILLED(...)                    \
  do {                                        \
    const int status = confined(__VA_ARGS__); \
    EXPECT_TRUE(WIFSIGNALED(status));         \
    EXPECT_EQ(WTERMSIG(status), SIGSYS);      \
  } while (false)

TEST_F(Confinement, FilesThatAreOpenAreReadAndWritten) {
  static int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  ASSERT_EQ(write(pipe_ends[1], "a", 1), 1);
  EXPECT_GOOD([] {
    char byte = 0;
    if (read(pipe_ends[0], &byte, 1) != 1 || byte != 'a') return 1;
    return write(pipe_ends[1], "b", 1) == 1 && close(pipe_ends[1]) == 0 ? kGood : 2;
  });
  char byte = 0;
  EXPECT_EQ(read(pipe_ends[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'b');
}

TEST_F(Confinement, MemoryIsToBeHad) {
  EXPECT_GOOD([] {
    std::vector<std::vector<char>> all;
    for (size_t bytes = 16; bytes <= size_t{64} << 20; bytes *= 4) all.emplace_back(bytes, 'x');
    for (const auto& part : all) {
      if (part.back() != 'x') return 1;
    }
    return kGood;
  });
}

TEST_F(Confinement, NoFurtherFile) {
  EXPECT_GOOD([] {
    const char* const path = "/dev/null";
    if (open(path, O_RDONLY) != -1 || errno != EPERM) return 1;
    if (open(path, O_WRONLY) != -1 || errno != EPERM) return 2;
    if (unlink("/tmp/understudy-none") != -1 || errno != EPERM) return 3;
    if (rename("/tmp/understudy-none", "/tmp/understudy-other") != -1 || errno != EPERM) return 4;
    return std::ifstream("/proc/self/status").is_open() ? 5 : kGood;
  });
}

TEST_F(Confinement, FurtherFilesAreReadOnlyWhereTheyAreNeeded) {
  const int status = confined(
      [] {
        const int file = open("/dev/null", O_RDONLY);
        if (file < 0) return 1;
        if (open("/dev/null", O_WRONLY) != -1 || errno != EPERM) return 2;
        if (open("/dev/null", O_RDWR) != -1 || errno != EPERM) return 3;
        if (open("/tmp/understudy-none", O_RDONLY | O_CREAT, 0600) != -1 || errno != EPERM)
          return 4;
        return kGood;
      },
      Further::kFilesToRead);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kGood) << status;
}

TEST_F(Confinement, PacketsComeWhereTheyAreNeeded) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
  ASSERT_EQ(write(ends[1], "b", 1), 1);
  const int status = confined(
      [&] {
        char byte = 0;
        if (recv(ends[0], &byte, 1, 0) != 1 || byte != 'b') return 1;
        int error = 0;
        socklen_t bytes = sizeof error;
        return getsockopt(ends[0], SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 ? kGood : 2;
      },
      Further::kPackets);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kGood) << status;
}

TEST_F(Confinement, NoMemoryToExecute) {
  EXPECT_GOOD([] {
    constexpr size_t kPage = 4096;
    constexpr int kAll = PROT_READ | PROT_WRITE | PROT_EXEC, kOwn = MAP_PRIVATE | MAP_ANONYMOUS;
    if (mmap(nullptr, kPage, kAll, kOwn, -1, 0) != MAP_FAILED) return 1;
    void* const page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, kOwn, -1, 0);
    if (page == MAP_FAILED) return 2;
    return mprotect(page, kPage, PROT_READ | PROT_EXEC) == -1 && errno == EPERM ? kGood : 3;
  });
}

TEST_F(Confinement, NoOtherProgramProcessOrSocket) {
  EXPECT_KILLED([] { return execl("/bin/true", "true", nullptr) == 0 ? 1 : 2; });
  EXPECT_KILLED([] {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    return 1;
  });
  EXPECT_KILLED([] {
    pid_t child = 0;
    char name[] = "true";
    char* words[] = {name, nullptr};
    return posix_spawnp(&child, name, nullptr, nullptr, words, environ) == 0 ? 1 : 2;
  });
  EXPECT_KILLED([] { return socket(AF_INET, SOCK_STREAM, 0) >= 0 ? 1 : 2; });
  EXPECT_KILLED([] { return socket(AF_UNIX, SOCK_STREAM, 0) >= 0 ? 1 : 2; });
  EXPECT_KILLED([] { return ptrace(PTRACE_TRACEME, 0, 0, 0) == 0 ? 1 : 2; });
  EXPECT_KILLED([] { return kill(getppid(), 0) == 0 ? 1 : 2; });
}

TEST_F(Confinement, AFailedAssertionStillAborts) {
  const int status = confined([] {
    abort();
    return 1;
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGABRT);
}

}  // namespace
}  // namespace understudy
