// A port of the soft NIC for tests in which it talks to itself only.
#pragma once

#include "tools/soft_nic/port/frame_port.h"

namespace understudy::soft_nic {

/// Nobody is at the other end.
class DeadEnd : public FramePort {
 public:
  std::span<const std::span<const uint8_t>> receive() override { return {}; }
  uint8_t* reserve(uint32_t) override { return nullptr; }
  void commit(uint32_t) override {}
  void flush() override {}
  int wait_fd() const override { return -1; }
  bool kernel_answers() const override { return true; }
};

}  // namespace understudy::soft_nic
