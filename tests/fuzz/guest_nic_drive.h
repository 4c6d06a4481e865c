// A guest that says and shares anything, to its network device. Must hold whatever it is: nothing
// but the guest's memory is touched, and messages are answered or refused.
#pragma once

#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "dataplane/virtual_time/guest_nic.h"
#include "tests/fuzz/input.h"
#include "tests/virtual_time/guest_vhost.h"

namespace understudy {

class GuestNicDrive {
 public:
  GuestNicDrive() : path_("/tmp/understudy-nic" + std::to_string(getpid())) {
    unlink(path_.c_str());
    must(nic_.listen(path_).has_value());
    client_ = VhostClient(path_);
    unlink(path_.c_str());
    must(serve());
  }

  void run(std::span<const uint8_t> bytes) {
    FuzzInput in(bytes);
    if (in.byte() % 2 == 0) {  // most of what follows would find no rings
      client_.share(file_);
      for (const uint32_t queue : {0u, 1u}) client_.set_up(queue, rings_[queue]);
      for (int i = 0; i < 9; ++i) must(serve());
    }
    while (!in.done()) {
      if (!step(in)) return;
    }
  }

  /// How often something came of it.
  struct Reached {
    uint64_t taken = 0, delivered = 0, broken = 0, refused = 0;
  };
  Reached reached() const { return {taken_, delivered_, nic_.broken(), refused_}; }

 private:
  bool serve() {
    const auto served = nic_.serve([](GuestNic::Queue) { return Result<void>(); });
    must(served || !served.error().text.empty());
    if (!served) ++refused_;
    return served.has_value();
  }

  bool step(FuzzInput& in) {
    const unsigned kind = in.byte() % 32;
    if (kind == 0) return say(in);
    if (kind < 3) return say_well(in);
    if (kind < 5) {  // anything in its rings
      const uint64_t at = in.word() % (8 << 10);
      file_.write(at, in.take(in.byte() % 16));
    } else if (kind < 20) {
      offer(in);
    } else if (kind < 25) {
      std::vector<uint8_t> frame;
      uint16_t head = 0;
      if (!nic_.take_frame(frame, head)) return true;
      must(!frame.empty() && frame.size() <= 9018);
      heads_.push_back(head);
      ++taken_;
    } else if (kind < 29) {
      if (nic_.deliver(std::vector<uint8_t>(in.word() % 9019, in.byte()))) ++delivered_;
    } else if (!heads_.empty()) {
      nic_.give_back(heads_.back());
      heads_.pop_back();
    }
    static_cast<void>(nic_.wants_interrupt(GuestNic::kReceive));
    return true;
  }
  void offer(FuzzInput& in) {
    const uint32_t number = in.byte() % 2;
    const auto index = static_cast<uint16_t>(in.byte() % 64);
    const auto flags = static_cast<uint16_t>(in.byte() % 8);
    rings_[number].describe(index, GuestFile::kGuest + in.word() % (17 << 10), in.word() >> 20,
                            flags, static_cast<uint16_t>(in.byte() % 66));
    rings_[number].offer(index);
  }

  /// Any message, as long as it says.
  bool say(FuzzInput& in) {
    const uint32_t code = in.byte(), flags = in.byte();
    const auto payload = in.take(in.byte());
    return say(code, flags, {payload.begin(), payload.end()}, in.byte() % 4 == 0);
  }
  /// One that the device knows, with numbers that are nearly right.
  bool say_well(FuzzInput& in) {
    static constexpr std::array<Vhost, 8> kCodes{
        Vhost::kSetMemTable,  Vhost::kSetVringNum,    Vhost::kSetVringAddr, Vhost::kSetVringBase,
        Vhost::kGetVringBase, Vhost::kSetVringEnable, Vhost::kGetConfig,    Vhost::kVringKick};
    const Vhost code = kCodes[in.byte() % kCodes.size()];
    const auto address = [&] { return GuestFile::kUser + in.word() % (24 << 10) / 16 * 16; };
    std::vector<uint8_t> payload =
        packed(uint32_t{in.byte()} % 17 / 8, uint32_t{1} << in.byte() % 18);
    if (code == Vhost::kSetVringAddr) {
      payload = packed(uint32_t{in.byte()} % 2, uint32_t{0}, address(), address(), address(),
                       uint64_t{0});
    } else if (code == Vhost::kSetMemTable) {
      payload =
          packed(uint32_t{1}, uint32_t{0}, GuestFile::kGuest, uint64_t{in.word() % (24 << 10)},
                 GuestFile::kUser, uint64_t{in.byte()} * 128);
    }
    return say(static_cast<uint32_t>(code), 1 + in.byte() % 2 * 8, payload,
               code == Vhost::kSetMemTable);
  }
  bool say(uint32_t code, uint32_t flags, const std::vector<uint8_t>& payload, bool with_file) {
    std::vector<uint8_t> bytes = packed(code, flags, static_cast<uint32_t>(payload.size()));
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    if (with_file) {
      client_.send_bytes(bytes, {file_.fd()});
    } else {
      client_.send_bytes(bytes);
    }
    if (!serve()) return false;
    while (!client_.silent()) must(client_.receive().flags == 5);
    return true;
  }

  const std::string path_;
  GuestFile file_{16 << 10};
  std::array<GuestRing, 2> rings_{GuestRing{file_, 0, 64}, GuestRing{file_, 4096, 64}};
  GuestNic nic_{MacAddress{}};
  VhostClient client_;
  std::vector<uint16_t> heads_;
  uint64_t taken_ = 0, delivered_ = 0, refused_ = 0;
};

}  // namespace understudy
