#include "dataplane/base/memory_left.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace understudy {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20, kGiB = kMiB << 10;

/// A machine with 8 GiB available, and what else a test says.
class MemoryLeftTest : public testing::Test {
 protected:
  void SetUp() override {
    write("meminfo", "MemTotal:       16777216 kB\nMemAvailable:    8388608 kB\n");
    write("cgroup", "");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& path, const std::string& text) {
    const auto file = folder_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void version_2(const std::string& group, const std::string& most, uint64_t used, uint64_t files) {
    write(group + "/memory.max", most + "\n");
    write(group + "/memory.current", std::to_string(used) + "\n");
    write(group + "/memory.stat", "anon 1\ninactive_file " + std::to_string(files) + "\n");
  }
  MemoryLeft left() const {
    return memory_left({folder_ / "meminfo", folder_ / "cgroup", folder_ / "sys"});
  }

 private:
  std::filesystem::path folder_ = testing::TempDir() + "memory_left_" + std::to_string(getpid());
};

TEST_F(MemoryLeftTest, OfAMachineWithoutLimits) {
  EXPECT_EQ(left().bytes, 8 * kGiB);
  EXPECT_EQ(left().of, "this machine");
  write("cgroup", "0::/\n");
  EXPECT_EQ(left().bytes, 8 * kGiB);
  version_2("sys/a", "max", kGiB, 0);
  write("cgroup", "0::/a\n");
  EXPECT_EQ(left().bytes, 8 * kGiB);
}

TEST_F(MemoryLeftTest, AGroupHasALimit) {
  write("cgroup", "0::/user.slice/job\n");
  version_2("sys/user.slice", "max", 3 * kGiB, 0);
  version_2("sys/user.slice/job", std::to_string(2 * kGiB), 768 * kMiB, 256 * kMiB);
  EXPECT_EQ(left().bytes, 2 * kGiB - 512 * kMiB);  // files of 256 MiB can be given up
  EXPECT_EQ(left().of, "the control group /user.slice/job");
  // What has been used beyond a limit that came later.
  version_2("sys/user.slice/job", std::to_string(kGiB), 3 * kGiB, 0);
  EXPECT_EQ(left().bytes, 0u);
}

TEST_F(MemoryLeftTest, GroupsAboveCountToo) {
  write("cgroup", "0::/pods/one\n");
  version_2("sys/pods", std::to_string(kGiB), 512 * kMiB, 0);
  version_2("sys/pods/one", std::to_string(4 * kGiB), kMiB, 0);
  EXPECT_EQ(left().bytes, 512 * kMiB);
  EXPECT_EQ(left().of, "the control group /pods");
  // In a container its own group is the root.
  write("cgroup", "0::/\n");
  version_2("sys", std::to_string(kGiB), 900 * kMiB, 0);
  EXPECT_EQ(left().bytes, 124 * kMiB);
  EXPECT_EQ(left().of, "the control group /");
}

TEST_F(MemoryLeftTest, GroupsOfVersion1AndBoth) {
  write("cgroup", "8:cpu,cpuacct:/a\n4:memory:/docker/0123\n0::/b\n");
  write("sys/memory/memory.limit_in_bytes", "1073741824\n");  // its folder is the mount's root
  write("sys/memory/memory.usage_in_bytes", "536870912\n");
  write("sys/memory/memory.stat", "inactive_file 5\ntotal_inactive_file 268435456\n");
  EXPECT_EQ(left().bytes, 768 * kMiB);
  EXPECT_EQ(left().of, "the control group /");
  version_2("sys/unified/b", std::to_string(kGiB), 512 * kMiB, 0);
  EXPECT_EQ(left().bytes, 512 * kMiB);
  EXPECT_EQ(left().of, "the control group /b");
}

TEST_F(MemoryLeftTest, NonsenseIsNoLimit) {
  write("cgroup", "nonsense\n:\n::\n0::relative\n0::/a\n");
  write("sys/a/memory.max", "much");
  write("sys/a/memory.current", "");
  EXPECT_EQ(left().bytes, 8 * kGiB);
}

TEST_F(MemoryLeftTest, TheAddressSpaceIsALimit) {
  const pid_t child = fork();
  if (child == 0) {
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const uint64_t used = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const rlimit limit{used + 64 * kMiB, RLIM_INFINITY};
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(1);
    const MemoryLeft now = left();
    if (now.bytes > 64 * kMiB || now.bytes < 32 * kMiB) _exit(2);
    _exit(now.of.find("RLIMIT_AS") != std::string::npos ? 0 : 3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace understudy
