// The way of frames to the soft NIC's own address: a ring in memory.
#pragma once

#include <array>
#include <memory>

#include "tools/soft_nic/port/frame_port.h"

namespace understudy::soft_nic {

class LoopPort final : public FramePort {
 public:
  std::span<const std::span<const uint8_t>> receive() override {
    first_ += given_;  // what was given last time is done with
    given_ = 0;
    for (; given_ < kBurst && first_ + given_ < last_; ++given_) {
      frames_[given_] = {place(first_ + given_), sizes_[(first_ + given_) % kFrames]};
    }
    return {frames_.data(), given_};
  }
  uint8_t* reserve(uint32_t bytes) override {
    if (last_ - first_ == kFrames || bytes > kFrameBytes) return nullptr;
    if (!bytes_) bytes_.reset(new uint8_t[kFrames * kFrameBytes]);  // few programs need it
    return place(last_);
  }
  void commit(uint32_t bytes) override { sizes_[last_++ % kFrames] = bytes; }
  void flush() override {}
  int wait_fd() const override { return -1; }
  bool kernel_answers() const override { return false; }
  bool empty() const { return first_ + given_ == last_; }

 private:
  static constexpr size_t kFrames = 512, kBurst = 64;
  static constexpr uint32_t kFrameBytes = 9216;
  uint8_t* place(size_t i) { return bytes_.get() + i % kFrames * kFrameBytes; }

  std::unique_ptr<uint8_t[]> bytes_;
  std::array<uint32_t, kFrames> sizes_;
  std::array<std::span<const uint8_t>, kBurst> frames_;
  size_t first_ = 0, given_ = 0, last_ = 0;
};

}  // namespace understudy::soft_nic
