// The vhost socket of a port: when it appears, what it offers, what is in its way.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "dataplane/port/dpdk_port.h"
#include "tests/port/eal.h"

namespace understudy {
namespace {

namespace fs = std::filesystem;

const auto* const eal = ::testing::AddGlobalTestEnvironment(new EalEnvironment(2));

class VhostTest : public ::testing::Test {
 protected:
  VhostTest() {
    std::string pattern = ::testing::TempDir() + "us_vhost_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/a.sock";
  }
  ~VhostTest() override { fs::remove_all(folder_); }

  static auto open(const std::string& path) {
    return DpdkPort::open({"gpu", "net_vhost0,iface=" + path + ",queues=1"});
  }
  static std::string open_error(const std::string& path) {
    const auto port = open(path);
    return port ? "" : port.error().text;
  }

  std::string folder_, path_;
};

int unix_socket(const std::string& path, bool listening) {
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (listening) {
    EXPECT_EQ(bind(fd, generic, sizeof address), 0);
    EXPECT_EQ(listen(fd, 1), 0);
  } else {
    EXPECT_EQ(connect(fd, generic, sizeof address), 0) << std::strerror(errno);
  }
  return fd;
}

/// The feature bits that the port offers to a guest: vhost-user request 1.
uint64_t offered_features(const std::string& path) {
  struct Message {
    uint32_t request, flags, size;
    uint64_t features;
  } __attribute__((packed));
  const int fd = unix_socket(path, false);
  const timeval limit{10, 0};
  EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
  const Message ask{1, 1, 0, 0};
  EXPECT_EQ(send(fd, &ask, 12, 0), 12);
  Message answer{};
  EXPECT_EQ(recv(fd, &answer, sizeof answer, MSG_WAITALL), 20);
  close(fd);
  return answer.features;
}

TEST_F(VhostTest, OffersWhatGuestsCanUseAndNothingElse) {
  auto port = open(path_);
  ASSERT_TRUE(port) << port.error().text;
  EXPECT_FALSE((*port)->link_up());
  const uint64_t features = offered_features(path_);
  for (const unsigned bit : {15u, 28u, 32u}) {  // merged receive buffers, indirect, version 1
    EXPECT_TRUE(features >> bit & 1) << bit;
  }
  for (const unsigned bit : {0u,  1u,  2u,  6u,  7u,  8u,  9u,  10u, 11u, 12u,
                             13u, 14u, 17u, 18u, 19u, 20u, 21u, 22u, 23u, 34u}) {
    EXPECT_FALSE(features >> bit & 1) << bit;
  }
}

TEST_F(VhostTest, SocketLivesAsLongAsThePort) {
  auto port = open(path_);
  ASSERT_TRUE(port) << port.error().text;
  EXPECT_TRUE(fs::is_socket(path_));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
  port->reset();
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(VhostTest, ASocketLeftBehindIsReplaced) {
  close(unix_socket(path_, true));  // as a killed run leaves it
  close(unix_socket(path_ + ".new", true));
  auto port = open(path_);
  ASSERT_TRUE(port) << port.error().text;
  EXPECT_NE(offered_features(path_), 0U);
}

TEST_F(VhostTest, FramesWithoutAGuestAreDroppedAndCounted) {
  auto port = open(path_);
  ASSERT_TRUE(port) << port.error().text;
  for (int turn = 0; turn < 3; ++turn) {
    uint8_t* out = (*port)->tx().reserve(60);
    ASSERT_NE(out, nullptr);
    std::memset(out, 0, 60);
    (*port)->tx().commit(60, Time::zero());
    (*port)->flush(Time::zero());
  }
  EXPECT_EQ((*port)->counters().tx_link_down, 3U);
  EXPECT_EQ((*port)->counters().tx_frames, 0U);
}

TEST_F(VhostTest, ErrorsNamePathAndWhatToDo) {
  const auto expect = [](const std::string& error, const std::string& part) {
    EXPECT_NE(error.find("port \"gpu\": vhost socket /"), std::string::npos) << error;
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  expect(open_error(folder_ + "/none/a.sock"), "no directory " + folder_ + "/none; create it");
  expect(open_error("/" + std::string(110, 'x')), "path is too long");
  std::ofstream(folder_ + "/file") << "x";
  expect(open_error(folder_ + "/file"), "is a file that is no socket");
  const int fd = unix_socket(path_, true);
  expect(open_error(path_), "another program listens there");
  EXPECT_TRUE(fs::is_socket(path_));  // and was left alone
  close(fd);
  if (geteuid() != 0) {  // root may write everywhere
    fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
    expect(open_error(folder_ + "/b.sock"), "no permission to create a file in " + folder_);
    fs::permissions(folder_, fs::perms::owner_all);
  }
}

}  // namespace
}  // namespace understudy
