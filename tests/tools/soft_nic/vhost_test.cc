// The soft NIC's vhost-user port against DPDK's net_vhost, as the emulator has it.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dataplane/port/dpdk_port.h"
#include "tests/port/eal.h"
#include "tools/soft_nic/port/vhost_port.h"

/// DPDK's library is not instrumented: the thread sanitizer does not see its locks.
extern "C" const char* __tsan_default_suppressions() { return "race:librte_vhost"; }

namespace understudy::soft_nic {
namespace {

namespace fs = std::filesystem;

const auto* const eal = ::testing::AddGlobalTestEnvironment(new EalEnvironment(1));

using Bytes = std::vector<uint8_t>;

constexpr uint32_t kLongest = 4214;

Bytes frame_of(size_t bytes, size_t seed) {
  Bytes frame(bytes);
  for (size_t i = 0; i < bytes; ++i) frame[i] = static_cast<uint8_t>(i * 7 + seed);
  return frame;
}

class SoftNicVhost : public ::testing::Test {
 protected:
  SoftNicVhost() {
    std::string pattern = ::testing::TempDir() + "us_soft_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/a.sock";
  }
  ~SoftNicVhost() override { fs::remove_all(folder_); }

  void start() {
    auto port = DpdkPort::open({"gpu", "net_vhost0,iface=" + path_ + ",queues=1"});
    ASSERT_TRUE(port) << port.error().text;
    dpdk_ = std::move(*port);
  }
  /// The device's own thread takes its time to see a guest.
  void wait_for_link(bool up) {
    for (int i = 0; i < 10000 && dpdk_->link_up() != up; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_EQ(dpdk_->link_up(), up);
  }
  void connect() {
    start();
    auto port = VhostPort::open(path_, kLongest);
    ASSERT_TRUE(port) << port.error().text;
    soft_ = std::move(*port);
    wait_for_link(true);
  }
  std::string open_error() {
    const auto port = VhostPort::open(path_, kLongest);
    return port ? "" : port.error().text;
  }

  bool send(const Bytes& frame) {
    uint8_t* out = soft_->reserve(static_cast<uint32_t>(frame.size()));
    if (out == nullptr) return false;
    std::copy(frame.begin(), frame.end(), out);
    soft_->commit(static_cast<uint32_t>(frame.size()));
    return true;
  }
  void emulator_sends(const Bytes& frame) {
    uint8_t* out = dpdk_->tx().reserve(static_cast<uint32_t>(frame.size()));
    ASSERT_NE(out, nullptr);
    std::copy(frame.begin(), frame.end(), out);
    dpdk_->tx().commit(static_cast<uint32_t>(frame.size()), Time::zero());
    dpdk_->flush(Time::zero());
  }
  template <typename Port>
  static std::vector<Bytes> frames_of(const Port& frames) {
    std::vector<Bytes> all;
    for (const auto frame : frames) all.emplace_back(frame.begin(), frame.end());
    return all;
  }
  std::vector<Bytes> emulator_receives() {
    std::vector<Bytes> all;
    for (auto some = frames_of(dpdk_->rx()); !some.empty(); some = frames_of(dpdk_->rx())) {
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }
  std::vector<Bytes> receive() { return frames_of(soft_->receive()); }

  std::string folder_, path_;
  std::unique_ptr<DpdkPort> dpdk_;
  std::unique_ptr<VhostPort> soft_;
};

TEST_F(SoftNicVhost, FramesOfAnySizeGoBothWays) {
  connect();
  for (const size_t bytes : {60U, 61U, 1514U, 4150U, kLongest}) {
    const Bytes out = frame_of(bytes, bytes), in = frame_of(bytes, bytes + 1);
    ASSERT_TRUE(send(out));
    EXPECT_TRUE(emulator_receives().empty());  // not before the flush
    soft_->flush();
    EXPECT_EQ(emulator_receives(), std::vector<Bytes>{out});
    emulator_sends(in);
    EXPECT_EQ(receive(), std::vector<Bytes>{in});
    EXPECT_TRUE(receive().empty());
  }
  EXPECT_EQ(soft_->reserve(kLongest + 1), nullptr);
}

TEST_F(SoftNicVhost, RingsComeRoundInOrder) {
  connect();
  size_t sent = 0, seen = 0;
  for (int turn = 0; turn < 200; ++turn) {
    for (size_t i = 0; i < 20; ++i) {
      emulator_sends(frame_of(100 + sent % 50, sent));
      ASSERT_TRUE(send(frame_of(200 + sent % 50, sent)));
      ++sent;
    }
    soft_->flush();
    std::vector<Bytes> in;
    for (auto some = receive(); !some.empty(); some = receive()) {
      in.insert(in.end(), some.begin(), some.end());
    }
    const std::vector<Bytes> out = emulator_receives();
    ASSERT_EQ(in.size(), 20U);
    ASSERT_EQ(out.size(), 20U);
    for (size_t i = 0; i < 20; ++i, ++seen) {
      EXPECT_EQ(in[i], frame_of(100 + seen % 50, seen));
      EXPECT_EQ(out[i], frame_of(200 + seen % 50, seen));
    }
  }
}

TEST_F(SoftNicVhost, AFullPortTakesMoreOnceTheOtherEndHasRead) {
  connect();
  size_t sent = 0;
  while (send(frame_of(60, sent))) ++sent;
  EXPECT_EQ(sent, 256U);
  EXPECT_EQ(emulator_receives().size(), sent);  // who is refused need not flush
  EXPECT_TRUE(send(frame_of(60, sent)));
  soft_->flush();
  EXPECT_EQ(emulator_receives(), std::vector<Bytes>{frame_of(60, sent)});
}

TEST_F(SoftNicVhost, WhoWaitsIsWoken) {
  connect();
  pollfd fd{soft_->wait_fd(), POLLIN, 0};
  emulator_sends(frame_of(60, 1));
  EXPECT_EQ(poll(&fd, 1, 0), 0);  // who polls is left alone
  EXPECT_FALSE(soft_->begin_wait());
  soft_->end_wait();
  EXPECT_EQ(receive().size(), 1U);
  EXPECT_TRUE(receive().empty());
  EXPECT_TRUE(soft_->begin_wait());
  EXPECT_EQ(poll(&fd, 1, 0), 0);
  emulator_sends(frame_of(60, 2));
  EXPECT_EQ(poll(&fd, 1, 10'000), 1);
  soft_->end_wait();
  EXPECT_EQ(poll(&fd, 1, 0), 0);
  EXPECT_EQ(receive().size(), 1U);
}

TEST_F(SoftNicVhost, ProgramsComeAndGo) {
  connect();
  EXPECT_NE(open_error().find("another program uses it"), std::string::npos) << open_error();
  for (size_t i = 0; i < 3; ++i) {
    soft_.reset();
    wait_for_link(false);
    auto port = VhostPort::open(path_, kLongest);
    ASSERT_TRUE(port) << port.error().text;
    soft_ = std::move(*port);
    wait_for_link(true);
    ASSERT_TRUE(send(frame_of(60, i)));
    soft_->flush();
    EXPECT_EQ(emulator_receives(), std::vector<Bytes>{frame_of(60, i)});
    emulator_sends(frame_of(61, i));
    EXPECT_EQ(receive(), std::vector<Bytes>{frame_of(61, i)});
  }
}

TEST_F(SoftNicVhost, AnEmulatorThatEndsIsAPulledPlug) {
  connect();
  dpdk_.reset();
  size_t sent = 0;
  // Here, in one process, the device's thread keeps the connection until its next look at it.
  for (int i = 0; i < 10000 && sent < 1000; ++i) {
    EXPECT_TRUE(soft_->begin_wait());
    soft_->end_wait();
    while (sent < 1000 && send(frame_of(60, sent))) ++sent;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(sent, 1000U);
  soft_->flush();
  EXPECT_TRUE(receive().empty());
}

TEST_F(SoftNicVhost, ErrorsSayWhatToDo) {
  EXPECT_NE(open_error().find("vhost socket " + path_), std::string::npos);
  EXPECT_NE(open_error().find("start `understudy run`"), std::string::npos) << open_error();
  path_ = "/" + std::string(120, 'x');
  EXPECT_NE(open_error().find("too long"), std::string::npos);
}

/// A server that says something else than vhost-user.
TEST_F(SoftNicVhost, AnotherServerIsNoCase) {
  const UniqueFd listener(socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path_.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  std::thread server([&] {
    const UniqueFd peer(accept(listener.get(), nullptr, nullptr));
    std::array<char, 64> bytes;
    EXPECT_GT(recv(peer.get(), bytes.data(), bytes.size(), 0), 0);
    EXPECT_EQ(::send(peer.get(), "220 mail here, who is it?\r\n", 27, 0), 27);
  });
  EXPECT_NE(open_error().find("no answer as vhost-user has it"), std::string::npos);
  server.join();
}

}  // namespace
}  // namespace understudy::soft_nic
