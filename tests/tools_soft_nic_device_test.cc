// What the device says about itself.
#include "tests/soft_nic_rig.h"

// Headers before rdma-core 62 do not have it.
extern "C" int ibv_query_port_speed(ibv_context* context, uint32_t port, uint64_t* speed);

namespace understudy::soft_nic {
namespace {

using SoftNicDevice = SoftNicRig;

TEST_F(SoftNicDevice, APortWhoseInterfaceSaysNoSpeedHasTenGigabits) {
  uint64_t speed = 0;
  EXPECT_EQ(ibv_query_port_speed(a().context, 1, &speed), 0);
  EXPECT_EQ(speed, 100U);  // times 100 Mbit/s
  EXPECT_EQ(ibv_query_port_speed(a().context, 2, &speed), EINVAL);
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(a().context, 1, &port), 0);
  EXPECT_EQ(port.active_width, 1);  // one lane ...
  EXPECT_EQ(port.active_speed, 4);  // ... of 10 Gbit/s
}

}  // namespace
}  // namespace understudy::soft_nic
