// A set-up of one-sided connections without sockets: who listens, calls and registers is noted, and a
// real rank's messages are what a test says (docs/nccl 3.16).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "ctrl/peers/nccl/bootstrap/bytes.h"
#include "ctrl/peers/nccl/transport/one_sided.h"

namespace understudy::one_sided_rig {

using Bytes = std::vector<uint8_t>;
using Use = NcclHost::OneSidedUse;

inline const SocketAddress kReal{IpAddress::v4(0x0a090001), 4000},
    kMesh{IpAddress::v4(0x0a090001), 4001};

inline testing::AssertionResult says(const std::string& text, const std::string& words) {
  if (text.find(words) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << words << "\" is not in \"" << text << "\"";
}

inline Bytes handle(const SocketAddress& at) {
  Bytes bytes(128);
  put_nccl_address(bytes, 0, at);
  put_nccl_u64(bytes, 32, kNcclNetMagic);
  return bytes;
}

class Host final : public NcclHost, public OneSidedUser {
 public:
  Result<SocketAddress> listen(uint32_t, ListenerId) override { return kReal; }
  ListenerId new_listener() override { return 1; }
  void stop_listening(ListenerId) override {}
  void dial(uint32_t, const SocketAddress&, StreamId) override {}
  StreamId new_stream() override { return 1; }
  void send(StreamId, std::span<const uint8_t>) override {}
  void close(StreamId) override {}
  Result<SocketAddress> expect(const NcclConnector& connector) override {
    expected.push_back(connector);
    return SocketAddress{IpAddress::v4(0x0a090100 + connector.emulated), next_port_++};
  }
  Result<void> expect_behind(const NcclConnector& connector, const NcclConnector& before) override {
    behind.emplace_back(connector, before);
    return {};
  }
  void connect(const NcclConnector& connector, const SocketAddress& at, uint64_t) override {
    called.emplace_back(connector, at);
  }
  void disconnect(const NcclConnector& connector) override { gone.push_back(connector); }
  void relay(const NcclConnector&, std::span<const uint8_t> bytes) override {
    relayed.emplace_back(bytes.begin(), bytes.end());
  }
  Result<MemoryKey> expose(const OneSidedMemory& memory) override {
    memories.push_back(memory);
    return MemoryKey{uint64_t{memory.emulated} << 32 | memory.registration, memory.emulated + 7};
  }
  void exposed(const OneSidedMemory&, const MemoryKey& real) override { reals.push_back(real); }
  void say(const std::string&) override {}
  void one_sided_failed(const std::string& why) override {
    if (failure.empty()) failure = why;
  }

  std::vector<NcclConnector> expected;
  std::vector<std::pair<NcclConnector, SocketAddress>> called;
  std::vector<Bytes> relayed;
  std::vector<OneSidedMemory> memories;
  std::vector<MemoryKey> reals;
  std::string failure;
  std::vector<NcclConnector> gone;
  std::vector<std::pair<NcclConnector, NcclConnector>> behind;  ///< with whom it waits for

 private:
  uint16_t next_port_ = 9000;
};

/// Four ranks, of which number 1 is real.
struct OneSidedRig {
  static constexpr uint32_t kRanks = 4, kTheReal = 1;
  explicit OneSidedRig(uint32_t also_real = kTheReal) {
    for (uint32_t r = 0; r < kRanks; ++r) {
      members.push_back({r, r == kTheReal || r == also_real, r, 0, 1, r});
    }
  }
  const BootstrapLayout& layout(uint32_t minor) { return *layouts_of({minor}).back(); }
  void gather(OneSided::Gather expected, const Bytes& slice, uint32_t minor = 30) {
    const auto kind = set_up.next(layout(minor), static_cast<uint32_t>(slice.size()));
    EXPECT_EQ(kind, expected);
    handles.clear();
    if (kind == OneSided::Gather::kHandles) {
      for (uint32_t r = 0; r < kRanks; ++r) {
        if (r == kTheReal) continue;
        set_up.append_handle(r, handles.emplace_back());
      }
    }
    if (kind == OneSided::Gather::kNone) {
      set_up.look_at_other(layout(minor), kTheReal, slice);
    } else {
      set_up.came(kind, kTheReal, slice);
    }
  }
  static Bytes segments(uint64_t bytes) {
    Bytes slice(16);
    put_nccl_u32(slice, 0, 1);
    put_nccl_u64(slice, 8, bytes);
    return slice;
  }
  /// Up to the ring.
  void begin() {
    gather(OneSided::Gather::kSegments, segments(1 << 20));
    gather(OneSided::Gather::kCount, {1, 0, 0, 0});
    gather(OneSided::Gather::kHandles, handle(kReal));
    for (const NcclConnector& c : host.expected) EXPECT_TRUE(set_up.ready(c));
    for (const auto& [c, at] : host.called) EXPECT_TRUE(set_up.ready(c));
  }
  void all_stand() {
    for (const NcclConnector& c : host.expected) set_up.ready(c);
    for (const auto& [c, at] : host.called) set_up.ready(c);
  }
  NcclConnector in() const { return host.expected.front(); }
  /// An all-gather over the ring: ours come back, as the real rank hands them on.
  void ring(const Bytes& own) {
    host.relayed.clear();
    set_up.relayed(in(), own);
    const std::vector<Bytes> ours = host.relayed;
    for (size_t i = 0; i + 1 < ours.size(); ++i) set_up.relayed(in(), ours[i]);
  }

  std::vector<NcclMember> members;
  Host host;
  OneSided set_up{0, members, host, host};
  std::vector<Bytes> handles;
};

}  // namespace understudy::one_sided_rig
