// A run's folder goes with its owner, whoever removes it.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>

#include "ctrl/guest/scratch_folder.h"

namespace understudy {
namespace {

namespace fs = std::filesystem;

std::optional<ScratchFolder> folder_with_a_file() {
  auto made = ScratchFolder::create();
  EXPECT_TRUE(made) << made.error().text;
  fs::create_directory(made->name() + "/inner");
  std::ofstream(made->name() + "/inner/file") << "text";
  return std::move(*made);
}

TEST(ScratchFolder, GoesWithItsOwner) {
  auto folder = folder_with_a_file();
  const std::string name = folder->name();
  EXPECT_TRUE(fs::exists(name + "/inner/file"));
  folder.reset();
  EXPECT_FALSE(fs::exists(name));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a process is left";
}

TEST(ScratchFolder, ItsKeeperRemovesWhatTheOwnerCannot) {
  auto folder = folder_with_a_file();
  const std::string name = folder->name();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};  // no folder can be opened
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  folder.reset();
  setrlimit(RLIMIT_NOFILE, &before);
  while (waitpid(-1, nullptr, 0) < 0 && errno == EINTR) {
  }
  EXPECT_FALSE(fs::exists(name));
}

}  // namespace
}  // namespace understudy
