// What the device says about itself.
#include "tests/tools/soft_nic/rig.h"

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

TEST_F(SoftNicDevice, WhatItOffersItHasRoomFor) {
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(a().context, &device), 0);
  for (const int most :
       {device.max_qp, device.max_qp_wr, device.max_sge, device.max_cq, device.max_cqe,
        device.max_mr, device.max_pd, device.max_qp_rd_atom, device.max_qp_init_rd_atom,
        device.max_ah, device.max_srq, device.max_srq_wr, device.max_srq_sge}) {
    EXPECT_GT(most, 0);
  }
  // And has none of what it refuses.
  EXPECT_EQ(device.max_mw + device.max_mcast_grp + device.max_raw_ethy_qp + device.max_fmr, 0);
}

}  // namespace
}  // namespace understudy::soft_nic
