#include "dataplane/base/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace understudy {
namespace {

namespace fs = std::filesystem;

/// A folder of its own for each test.
class OutputFile : public testing::Test {
 protected:
  OutputFile() {
    std::string name = (fs::temp_directory_path() / "output_file_XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~OutputFile() override { fs::remove_all(folder_); }

  std::string path(const char* name) const { return folder_ / name; }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }
  static void put(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  static std::string text_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path folder_;
};

/// No file may have more than so many bytes: what a full disk does to one that is written.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit little{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &little);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
  sighandler_t handler_{};
};

TEST_F(OutputFile, ReplacesAFileAndKeepsItsMode) {
  const std::string name = path("report.json");
  put(name, "the old one, which is longer");
  fs::permissions(name, fs::perms(0640));
  const auto written = replace_file(name, "new");
  ASSERT_TRUE(written) << written.error().text;
  EXPECT_EQ(text_of(name), "new");
  EXPECT_EQ(fs::status(name).permissions(), fs::perms(0640));
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputFile, ANewFileHasTheModeOfTheUmask) {
  const mode_t before = umask(027);
  ASSERT_TRUE(replace_file(path("replaced"), "x"));
  ASSERT_TRUE(open_growing(path("growing")));
  umask(before);
  EXPECT_EQ(fs::status(path("replaced")).permissions(), fs::perms(0640));
  EXPECT_EQ(fs::status(path("growing")).permissions(), fs::perms(0640));
}

TEST_F(OutputFile, WhatCannotBeWrittenWholeLeavesTheOldOne) {
  const std::string name = path("report.json");
  put(name, "old");
  const FullDisk full(4096);
  const auto written = replace_file(name, std::string(1 << 20, 'x'));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().text, name + ": File too large");
  EXPECT_EQ(text_of(name), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputFile, WithoutCommitNothingChanges) {
  const std::string name = path("timeline.json");
  put(name, "old");
  {
    auto file = ReplacedFile::create(name);
    ASSERT_TRUE(file) << file.error().text;
    file->write("half");
    EXPECT_EQ(files(), 2u);
  }
  EXPECT_EQ(text_of(name), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputFile, ADraftIsNotWhatSomebodyHasPlanted) {
  const std::string name = path("report.json"), victim = path("victim");
  put(victim, "precious");
  fs::create_symlink(victim, name + ".part");
  ASSERT_TRUE(replace_file(name, "new"));
  EXPECT_EQ(text_of(victim), "precious");
  EXPECT_TRUE(fs::is_symlink(name + ".part"));
}

TEST_F(OutputFile, OnesOwnLinkIsFollowedAndStays) {
  const std::string link = path("latest.json"), target = path("run7.json");
  put(target, "old");
  fs::create_symlink(target, link);
  ASSERT_TRUE(replace_file(link, "new"));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(text_of(target), "new");
  ASSERT_TRUE(open_growing(link));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(text_of(target), "");
}

TEST_F(OutputFile, ALinkToNothingIsAnError) {
  fs::create_symlink(path("nothing"), path("link"));
  for (const auto& error : {replace_file(path("link"), "x"), check_growing(path("link"))}) {
    ASSERT_FALSE(error);
    EXPECT_NE(error.error().text.find("a symbolic link to what is not there"), std::string::npos);
  }
  EXPECT_FALSE(fs::exists(path("nothing")));
}

TEST_F(OutputFile, WhatOthersOwnInASharedFolderIsLeftAlone) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a file of another user";
  fs::permissions(folder_, fs::perms(01777));
  constexpr uid_t kOther = 12345;
  ASSERT_EQ(chown(folder_.c_str(), 54321, 54321), 0);
  const std::string victim = path("victim"), link = path("link"), theirs = path("theirs");
  put(victim, "precious");
  fs::create_symlink(victim, link);
  ASSERT_EQ(lchown(link.c_str(), kOther, kOther), 0);
  put(theirs, "theirs");
  ASSERT_EQ(chown(theirs.c_str(), kOther, kOther), 0);
  for (const std::string& name : {link, theirs}) {
    for (const auto& error : {replace_file(name, "x"), check_growing(name)}) {
      ASSERT_FALSE(error);
      EXPECT_NE(error.error().text.find("belongs to another user"), std::string::npos);
    }
    EXPECT_FALSE(open_growing(name));
  }
  EXPECT_EQ(text_of(victim), "precious");
  EXPECT_EQ(text_of(theirs), "theirs");
}

TEST_F(OutputFile, ADeviceStaysADevice) {
  ASSERT_TRUE(replace_file("/dev/null", "x"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  ASSERT_TRUE(open_growing("/dev/null"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  const auto full = replace_file("/dev/full", "x");
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().text, "/dev/full: No space left on device");
}

TEST_F(OutputFile, ADescriptorIsWrittenToAsItIs) {
  const std::string name = path("stdout");
  const UniqueFd out(open(name.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600));
  ASSERT_EQ(write(out.get(), "table\n", 6), 6);
  ASSERT_TRUE(replace_file("/dev/fd/" + std::to_string(out.get()), ""));
  ASSERT_EQ(write(out.get(), "more\n", 5), 5);
  EXPECT_EQ(text_of(name), "table\nmore\n");
  int both[2];
  ASSERT_EQ(pipe(both), 0);
  const UniqueFd reader(both[0]), writer(both[1]);
  const auto piped = replace_file("/proc/self/fd/" + std::to_string(writer.get()), "x");
  ASSERT_TRUE(piped) << piped.error().text;
  char got = 0;
  EXPECT_EQ(read(reader.get(), &got, 1), 1);
  EXPECT_EQ(got, 'x');
}

TEST_F(OutputFile, APipeIsWrittenTo) {
  const std::string name = path("pipe");
  ASSERT_EQ(mkfifo(name.c_str(), 0600), 0);
  const UniqueFd reader(open(name.c_str(), O_RDONLY | O_NONBLOCK));
  ASSERT_TRUE(replace_file(name, "hello"));
  char text[6] = "";
  EXPECT_EQ(read(reader.get(), text, sizeof text), 5);
  EXPECT_STREQ(text, "hello");
  EXPECT_TRUE(fs::is_fifo(name));
}

TEST_F(OutputFile, APipeThatNobodyReadsIsAnError) {
  const std::string name = path("pipe");
  ASSERT_EQ(mkfifo(name.c_str(), 0600), 0);
  const auto opened = open_growing(name, std::chrono::milliseconds(0));
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().text, name + ": is a pipe, and nobody has opened it to read for 0 s");
}

TEST_F(OutputFile, WhatIsNoFileIsNamed) {
  const auto folder = replace_file(folder_, "x");
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().text, folder_.string() + ": is a folder");
  EXPECT_FALSE(check_growing(folder_));
  EXPECT_FALSE(check_replaceable(path("no/such")));
  EXPECT_FALSE(replace_file("", "x"));
}

TEST_F(OutputFile, ChecksMakeNothing) {
  EXPECT_TRUE(check_growing(path("a")));
  EXPECT_TRUE(check_replaceable(path("b")));
  EXPECT_EQ(files(), 0u);
}

TEST_F(OutputFile, AGrowingFileBeginsEmptyAndCanBeReadBack) {
  const std::string name = path("out.csv");
  put(name, "old");
  auto opened = open_growing(name);
  ASSERT_TRUE(opened) << opened.error().text;
  EXPECT_EQ(text_of(name), "");
  EXPECT_EQ(fcntl(opened->get(), F_GETFL) & O_ACCMODE, O_RDWR);
}

}  // namespace
}  // namespace understudy
