// What programs are told about the device's file.
#include "tools/soft_nic/device/device_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace understudy::soft_nic {
namespace {

TEST(SoftNicDeviceFile, OnlyTheDevicesOwnPathIsMeant) {
  ibv_device device{};
  std::strcpy(device.dev_name, "understudy0");
  EXPECT_TRUE(is_device_file("/dev/infiniband/understudy0", &device));
  for (const char* other :
       {"/dev/infiniband/understudy01", "/dev/infiniband/understudy", "/dev/infiniband/uverbs0",
        "/dev/infiniband/", "/dev/infiniband", "dev/infiniband/understudy0", "understudy0", ""}) {
    EXPECT_FALSE(is_device_file(other, &device)) << other;
  }
  EXPECT_FALSE(is_device_file(nullptr, &device));
  EXPECT_FALSE(is_device_file("/dev/infiniband/understudy0", nullptr));
}

TEST(SoftNicDeviceFile, ItIsACharacterDeviceToReadAndWrite) {
  EXPECT_TRUE(S_ISCHR(device_file_status().st_mode));
  EXPECT_EQ(device_file_status().st_mode & 0777U, 0666U);
  EXPECT_EQ(device_file_access(F_OK), 0);
  EXPECT_EQ(device_file_access(R_OK | W_OK), 0);
  EXPECT_EQ(device_file_access(R_OK | X_OK), EACCES);
  EXPECT_EQ(device_file_access(8), EINVAL);
}

}  // namespace
}  // namespace understudy::soft_nic
