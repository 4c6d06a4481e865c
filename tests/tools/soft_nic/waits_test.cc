// Who waits for frames on a soft NIC's port: the port tells of frames as long as somebody does.
#include <gtest/gtest.h>

#include <memory>

#include "tests/tools/soft_nic/dead_end.h"
#include "tools/soft_nic/device/nic.h"

namespace understudy::soft_nic {
namespace {

/// Tells of frames, or is silent.
class TellingPort final : public DeadEnd {
 public:
  bool begin_wait() override {
    tells = true;
    return !has_frames;
  }
  void end_wait() override { tells = false; }

  bool tells = false, has_frames = false;
};

class SoftNicWaits : public testing::Test {
 protected:
  SoftNicWaits() {
    auto port = std::make_unique<TellingPort>();
    port_ = port.get();
    nic_ = std::make_unique<Nic>(bare_interface({IpAddress::v4(0x0a080001)}), 256, Nic::kQueuePairs,
                                 std::move(port), [] { return Time::zero(); });
  }
  std::unique_ptr<Nic> nic_;
  TellingPort* port_ = nullptr;
};

TEST_F(SoftNicWaits, ThePortTellsUntilTheLastWaitEnds) {
  EXPECT_TRUE(nic_->begin_wait());
  EXPECT_TRUE(nic_->begin_wait());
  nic_->end_wait();
  EXPECT_TRUE(port_->tells);
  nic_->end_wait();
  EXPECT_FALSE(port_->tells);
}

TEST_F(SoftNicWaits, WhoFindsFramesDoesNotSilenceThePortForOthers) {
  EXPECT_TRUE(nic_->begin_wait());
  port_->has_frames = true;
  EXPECT_FALSE(nic_->begin_wait());
  EXPECT_TRUE(port_->tells);
  nic_->end_wait();
  EXPECT_FALSE(port_->tells);
  EXPECT_FALSE(nic_->begin_wait());
  EXPECT_FALSE(port_->tells);
}

}  // namespace
}  // namespace understudy::soft_nic
