#include "ctrl/run/control_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "dataplane/base/unique_fd.h"

namespace understudy {
namespace {

namespace fs = std::filesystem;

class ControlSocketTest : public testing::Test {
 protected:
  ControlSocketTest() {
    std::string name = (fs::temp_directory_path() / "control_XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~ControlSocketTest() override { fs::remove_all(folder_); }

  void expect_refused(const std::string& why) const {
    const auto socket = ControlSocket::open(path());
    ASSERT_FALSE(socket);
    EXPECT_EQ(socket.error().text, "control socket \"" + path() + "\": " + why);
  }
  std::string path() const { return folder_ / "control.sock"; }
  /// Served as long as it is open.
  UniqueFd bind_socket(int kind) const {
    UniqueFd fd(socket(AF_UNIX, kind, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path().c_str(), sizeof address.sun_path - 1);
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return fd;
  }

  fs::path folder_;
};

TEST_F(ControlSocketTest, AFileStaysWhereItIs) {
  std::ofstream(path()) << "precious";
  expect_refused("a file that is no socket is there; take another name");
  EXPECT_EQ(fs::file_size(path()), 8u);
}

TEST_F(ControlSocketTest, ALinkStaysWhereItIs) {
  fs::create_symlink("/dev/null", path());
  expect_refused("a file that is no socket is there; take another name");
  EXPECT_TRUE(fs::is_symlink(path()));
}

TEST_F(ControlSocketTest, AnotherRunKeepsItsSocket) {
  const auto other = ControlSocket::open(path());
  ASSERT_TRUE(other) << other.error().text;
  expect_refused("another run answers there");
  EXPECT_TRUE(fs::is_socket(path()));
}

TEST_F(ControlSocketTest, WhatAKilledRunLeftBehindIsTakenOver) {
  (void)bind_socket(SOCK_DGRAM);
  const auto socket = ControlSocket::open(path());
  EXPECT_TRUE(socket) << socket.error().text;
}

TEST_F(ControlSocketTest, AnotherProgramsSocketStays) {
  const UniqueFd theirs = bind_socket(SOCK_STREAM);
  ASSERT_EQ(listen(theirs.get(), 1), 0);
  expect_refused("a socket is there, and is not answered: Protocol wrong type for socket");
  EXPECT_TRUE(fs::is_socket(path()));
}

}  // namespace
}  // namespace understudy
