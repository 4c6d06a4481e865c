// Device strings and what this machine says about them, without DPDK.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>

#include "dataplane/port/dpdk_device.h"
#include "dataplane/port/runtime_folder.h"
#include "dataplane/runtime/huge_pages.h"

namespace understudy {
namespace {

std::string parse_error(const std::string& text) {
  const auto device = parse_dpdk_device("gpu", text);
  return device ? "" : device.error().text;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(DpdkDevice, ReadsVirtualDevices) {
  const auto device = parse_dpdk_device("gpu", "net_vhost12,iface=/run/x.sock,queues=1");
  ASSERT_TRUE(device);
  EXPECT_FALSE(device->pci);
  EXPECT_EQ(device->name, "net_vhost12");
  EXPECT_EQ(device->driver, "net_vhost");
  EXPECT_EQ(device->args, "iface=/run/x.sock,queues=1");
  EXPECT_EQ(device->arg("iface"), "/run/x.sock");
  EXPECT_EQ(device->arg("queues"), "1");
  EXPECT_EQ(device->arg("face"), "");
  for (const char* name : {"net_tap7", "net_af_packet0", "net_memif1", "net_ring0", "net_pcap3"}) {
    EXPECT_TRUE(parse_dpdk_device("gpu", name)) << name;
  }
}

TEST(DpdkDevice, ReadsPciAddresses) {
  for (const char* text : {"0000:3B:00.1", "3b:00.1"}) {
    const auto device = parse_dpdk_device("gpu", text);
    ASSERT_TRUE(device) << text;
    EXPECT_TRUE(device->pci);
    EXPECT_EQ(device->name, "0000:3b:00.1");
    EXPECT_EQ(device->with_args(), "0000:3b:00.1");
  }
  const auto device = parse_dpdk_device("gpu", "3b:00.1,tx_pp=500,tx_skew=10");
  ASSERT_TRUE(device);
  EXPECT_EQ(device->with_args(), "0000:3b:00.1,tx_pp=500,tx_skew=10");
}

TEST(DpdkDevice, ErrorsNamePortAndDevice) {
  for (const char* text : {"", "eth0", "net_tap", "net_vhostX,iface=/a", "net_foo0", "3b:00",
                           "0000:3g:00.0", "net_tap0x"}) {
    const std::string error = parse_error(text);
    EXPECT_TRUE(contains(error, "port \"gpu\"")) << text << ": " << error;
    EXPECT_TRUE(contains(error, '"' + std::string(text) + '"')) << text << ": " << error;
  }
  EXPECT_TRUE(contains(parse_error("net_vhost0,queues=1"), "names no socket"));
  EXPECT_TRUE(contains(parse_error("eth0"), "net_vhost0"));  // what would be right
}

/// The variable has another value while this lives.
class WithVariable {
 public:
  WithVariable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  }
  ~WithVariable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  WithVariable(const WithVariable&) = delete;
  WithVariable& operator=(const WithVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST(DpdkDevice, ASocketWithoutAFolderLiesInTheUsersOwn) {
  const auto socket = [] {
    const auto device = parse_dpdk_device("gpu", "net_vhost0,queues=1,iface=gpu.sock,client=0");
    return device ? device->args : device.error().text;
  };
  const std::string own = "/tmp/understudy-" + std::to_string(geteuid());
  {
    const WithVariable given("XDG_RUNTIME_DIR", "/run/user/7");
    EXPECT_EQ(socket(), "queues=1,iface=/run/user/7/gpu.sock,client=0");
  }
  {
    const WithVariable relative("XDG_RUNTIME_DIR", "run");
    EXPECT_EQ(socket(), "queues=1,iface=" + own + "/gpu.sock,client=0");
  }
  const WithVariable none("XDG_RUNTIME_DIR", nullptr);
  EXPECT_EQ(socket(), "queues=1,iface=" + own + "/gpu.sock,client=0");
  EXPECT_EQ(parse_dpdk_device("gpu", "net_vhost0,iface=./x")->arg("iface"), "./x");
}

TEST(DpdkDevice, TheFolderForSocketsIsNobodyElses) {
  std::string folder = testing::TempDir() + "understudy-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string run = folder + "/run";
  const WithVariable given("XDG_RUNTIME_DIR", run.c_str());
  ASSERT_TRUE(make_runtime_folder());
  struct stat made {};
  ASSERT_EQ(stat(run.c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 07777, 0700u);
  EXPECT_TRUE(make_runtime_folder());
  const auto why = [] {
    const auto again = make_runtime_folder();
    return again ? "" : again.error().text;
  };
  ASSERT_EQ(chmod(run.c_str(), 0770), 0);
  EXPECT_TRUE(contains(why(), "others may write to it")) << why();
  ASSERT_EQ(rmdir(run.c_str()), 0);
  ASSERT_EQ(symlink(folder.c_str(), run.c_str()), 0);
  EXPECT_TRUE(contains(why(), "is no folder")) << why();
  ASSERT_EQ(unlink(run.c_str()), 0);
  ASSERT_EQ(rmdir(folder.c_str()), 0);
  EXPECT_TRUE(contains(why(), "No such file")) << why();
}

TEST(DpdkDevice, MissingCardIsNamed) {
  const auto device = parse_dpdk_device("gpu", "ffff:ff:1f.7");
  ASSERT_TRUE(device);
  const auto checked = check_dpdk_device("gpu", *device);
  ASSERT_FALSE(checked);
  EXPECT_TRUE(contains(checked.error().text, "port \"gpu\": no such device ffff:ff:1f.7"))
      << checked.error().text;
}

/// What check_dpdk_device() says to a user without any capability.
std::string check_unprivileged(const std::string& text) {
  std::array<int, 2> ends;
  if (pipe(ends.data()) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    const bool dropped = geteuid() != 0 || setresuid(65534, 65534, 65534) == 0;
    const auto checked = check_dpdk_device("gpu", *parse_dpdk_device("gpu", text));
    const std::string out = !dropped ? "still root" : checked ? "" : checked.error().text;
    _exit(write(ends[1], out.data(), out.size()) == static_cast<ssize_t>(out.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::array<char, 1024> buffer;
  const ssize_t n = read(ends[0], buffer.data(), buffer.size());
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return n < 0 ? "no answer" : std::string(buffer.data(), static_cast<size_t>(n));
}

TEST(DpdkDevice, MissingPermissionSaysWhatToDo) {
  const std::string tap = check_unprivileged("net_tap0,iface=us0");
  EXPECT_TRUE(contains(tap, "port \"gpu\"") && contains(tap, "net_tap0") &&
              contains(tap, "run as root"))
      << tap;
  const std::string raw = check_unprivileged("net_af_packet0,iface=eth0");
  EXPECT_TRUE(contains(raw, "no permission") && contains(raw, "run as root")) << raw;
  EXPECT_EQ(check_unprivileged("net_vhost0,iface=/tmp/x"), "");
}

TEST(HugePages, VirtualDevicesDoWithout) {
  constexpr uint64_t kNeed = uint64_t{112} << 20;
  EXPECT_EQ(choose_huge_pages({0, 0}, kNeed, "").value(), false);
  EXPECT_EQ(choose_huge_pages({0, EPERM}, kNeed, "").value(), false);
  EXPECT_EQ(choose_huge_pages({kNeed - 1, 0}, kNeed, "").value(), false);
  EXPECT_EQ(choose_huge_pages({kNeed, 0}, kNeed, "").value(), true);
}

TEST(HugePages, CardsNeedThem) {
  constexpr uint64_t kNeed = uint64_t{112} << 20;
  const std::string card = "port \"gpu\": device 0000:3b:00.0";
  EXPECT_EQ(choose_huge_pages({kNeed, 0}, kNeed, card).value(), true);

  const auto forbidden = choose_huge_pages({0, EPERM}, kNeed, card);
  ASSERT_FALSE(forbidden);
  EXPECT_TRUE(contains(forbidden.error().text, card + " needs 112 MB of huge pages, and this user"))
      << forbidden.error().text;
  EXPECT_TRUE(contains(forbidden.error().text, "run as root")) << forbidden.error().text;

  const auto few = choose_huge_pages({uint64_t{2} << 20, 0}, kNeed, card);
  ASSERT_FALSE(few);
  EXPECT_TRUE(contains(few.error().text, "but 2 MB are free; reserve")) << few.error().text;
}

TEST(OrdinaryMemory, MustBeThere) {
  constexpr uint64_t kMegabyte = uint64_t{1} << 20, kNeed = 112 * kMegabyte;
  EXPECT_TRUE(check_ordinary_memory({kNeed}, kNeed));
  const auto little = check_ordinary_memory({64 * kMegabyte, "the control group /job"}, kNeed);
  ASSERT_FALSE(little);
  EXPECT_EQ(
      little.error().text,
      "buffers of the ports need 112 MB of memory, and the control group /job has 64 MB left");
}

}  // namespace
}  // namespace understudy
