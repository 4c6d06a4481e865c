// net_ib's exchange byte by byte, for each release and both directions, and what real ranks should
// not say. The layouts are written down here once more, as they stand in docs/nccl 2.3.
#include "ctrl/peers/nccl/transport/net_ib_peer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/net_ib_drive.h"
#include "tests/rigs/net_ib_script.h"

namespace understudy {
namespace {

TEST(NetIb, ReceivesFromEveryRelease) {
  for (const NetIbRelease& release : kNetIbReleases) {
    SCOPED_TRACE(release.name);
    NetIbBench bench(release, true);
    bench.say_hello();
    EXPECT_TRUE(bench.peer.claimed());
    if (release.list_bytes > 0) {
      bench.say(device_list(release, 1));
      const auto list = bench.heard();
      EXPECT_EQ(list, device_list(release, 1));
    }
    EXPECT_TRUE(bench.heard().empty()) << "the real rank's metadata come first";
    ScriptedEnd real = ScriptedEnd::real();
    bench.say(metadata(release, real));
    ASSERT_EQ(bench.requests().size(), 1u);
    const EndpointRequest& request = bench.all_requests.back();
    EXPECT_EQ(request.behaviour, Behaviour::kNccl);
    EXPECT_FALSE(request.reserve);
    EXPECT_EQ(request.local, kNetIbEmulated);
    EXPECT_EQ(request.remote, kNetIbReal);
    EXPECT_EQ(request.remote_psn, Psn(0));
    EXPECT_EQ(request.local_psn, Psn(0));
    EXPECT_EQ(request.mtu, 2048u) << "the smaller one";
    EXPECT_EQ(request.sender.traffic_class, release.tc_at != 0 ? 106 : 32);
    ASSERT_TRUE(request.nccl.has_value());
    EXPECT_EQ(request.nccl->connector, bench.connector);
    EXPECT_EQ(request.nccl->remote_qpns, real.qpns);
    EXPECT_EQ(request.nccl->fifo_address, real.address);
    ASSERT_EQ(request.nccl->devices.size(), 1u);
    EXPECT_EQ(request.nccl->devices[0].gid, kNetIbReal);
    EXPECT_EQ(request.nccl->devices[0].rkey, real.rkey);
    EXPECT_EQ(request.nccl->local, std::vector{kNetIbEmulated});
    EXPECT_EQ(request.nccl->parts, 1u);

    bench.answer(
        {.qpn = 0x40, .psn = Psn(0), .address = 0x100000000, .rkey = 0x777, .qpns = {0x40}});
    const auto reply = bench.heard();
    ScriptedEnd ours = real;  // mirrored
    ours.qpns = {0x40};
    ours.gid = kNetIbEmulated;
    ours.mtu = 4;
    ours.rkey = 0x777;
    ours.address = 0x100000000;
    ours.ece = false;
    EXPECT_EQ(reply, metadata(release, ours));
    EXPECT_TRUE(bench.log.empty());
    bench.say({1, 0, 0, 0});
    EXPECT_EQ(bench.log, std::vector<std::string>{"ready"});
    EXPECT_TRUE(bench.peer.ready());
    EXPECT_EQ(bench.peer.waiting(), "");
    bench.peer.on_closed(Time());
    EXPECT_EQ(bench.log.back(), "closed");
    EXPECT_TRUE(bench.peer.finished());
    EXPECT_EQ(bench.peer.failure(), "");
  }
}

TEST(NetIb, SendsToEveryRelease) {
  for (const NetIbRelease& release : kNetIbReleases) {
    for (const bool seen : {false, true}) {
      SCOPED_TRACE(release.name);
      SCOPED_TRACE(seen);
      NetIbBench bench(release, false);
      ScriptedEnd earlier = ScriptedEnd::real();
      earlier.port = 3;
      if (seen) bench.seen = {&net_ib_layout(bench.settings.version), metadata(release, earlier)};
      bench.peer.on_connected(Time());
      std::vector<uint8_t> expected = hello();
      if (release.list_bytes > 0) append(expected, device_list(release, 1));
      EXPECT_EQ(bench.heard(), expected);
      if (release.list_bytes > 0) bench.say(device_list(release, 1));
      ASSERT_EQ(bench.requests().size(), 1u);
      EXPECT_TRUE(bench.all_requests.back().reserve);
      EXPECT_EQ(bench.all_requests.back().nccl->queue_pairs, 1u);
      bench.answer(
          {.qpn = 0x41, .psn = Psn(0), .address = 0x200000000, .rkey = 0x888, .qpns = {0x41}});
      ScriptedEnd ours;
      if (seen) ours = earlier;
      ours.qpns = {0x41};
      ours.gid = kNetIbEmulated;
      ours.mtu = 4;
      ours.rkey = 0x888;
      ours.address = 0x200000000;
      ours.ece = false;
      ours.tc = seen && release.tc_at != 0 ? earlier.tc : 32;
      const auto told = bench.heard();
      EXPECT_EQ(told, metadata(release, ours));

      ScriptedEnd real = ScriptedEnd::real();
      real.tc = ours.tc;  // echoed
      bench.say(metadata(release, real));
      ASSERT_EQ(bench.requests().size(), 1u);
      const EndpointRequest& request = bench.all_requests.back();
      EXPECT_FALSE(request.reserve);
      EXPECT_EQ(request.reserved, 0x41u);
      EXPECT_EQ(request.remote, kNetIbReal);
      EXPECT_EQ(request.remote_qpn, real.qpns[0]);
      EXPECT_EQ(request.mtu, 2048u);
      EXPECT_EQ(request.sender.traffic_class, release.tc_at != 0 ? ours.tc : 32);
      EXPECT_TRUE(bench.log.empty());
      EXPECT_TRUE(bench.heard().empty()) << "not before our queue pairs stand";
      bench.answer(
          {.qpn = 0x41, .psn = Psn(0), .address = 0x200000000, .rkey = 0x888, .qpns = {0x41}});
      EXPECT_EQ(bench.heard(), (std::vector<uint8_t>{1, 0, 0, 0}));
      EXPECT_EQ(bench.log, std::vector<std::string>{"ready"});
    }
  }
}

TEST(NetIb, TakesItByteByByte) {
  for (const NetIbRelease& release : kNetIbReleases) {
    NetIbBench bench(release, true);
    std::vector<uint8_t> all = hello();
    if (release.list_bytes > 0) append(all, device_list(release, 1));
    append(all, metadata(release, ScriptedEnd::real()));
    append(all, {1, 0, 0, 0});  // before we have answered
    for (const uint8_t byte : all) bench.say({byte});
    ASSERT_EQ(bench.requests().size(), 1u);
    bench.answer(
        {.qpn = 0x40, .psn = Psn(0), .address = 0x100000000, .rkey = 0x777, .qpns = {0x40}});
    EXPECT_EQ(bench.log, std::vector<std::string>{"ready"});
  }
}

TEST(NetIb, SeveralQueuePairs) {
  for (const NetIbRelease& release : kNetIbReleases) {
    SCOPED_TRACE(release.name);
    // Up to 2.23 nobody can read how many there are.
    NetIbBench bench(release, true, release.list_bytes > 0 ? 1 : 4);
    bench.say_hello();
    if (release.list_bytes > 0) bench.say(device_list(release, 1));
    ScriptedEnd real = ScriptedEnd::real();
    real.qpns = {0x101, 0x102, 0x103, 0x104};
    bench.say(metadata(release, real));
    ASSERT_EQ(bench.requests().size(), 1u);
    const NcclLinkRequest& link = *bench.all_requests.back().nccl;
    EXPECT_EQ(link.queue_pairs, 4u);
    EXPECT_EQ(link.remote_qpns, real.qpns);
    EXPECT_EQ(link.split, release.minor < 20) << "NCCL_IB_SPLIT_DATA_ON_QPS's default";
    const std::vector<Qpn> qpns = {0x40, 0x41, 0x42, 0x43};
    bench.answer({.qpn = 0x40, .psn = Psn(0), .address = 1, .rkey = 2, .qpns = qpns});
    ScriptedEnd ours = real;
    ours.qpns = qpns;
    ours.gid = kNetIbEmulated;
    ours.mtu = 4;
    ours.rkey = 2;
    ours.address = 1;
    ours.ece = false;
    (void)bench.heard();
    if (release.list_bytes == 0) continue;
    NetIbBench sender(release, false);
    sender.settings.queue_pairs = 4;
    sender.settings.split_data = true;
    NetIbPeer peer(sender.connector, sender.settings, sender.seen, sender);
    peer.on_connected(Time());
    peer.on_bytes(Time(), device_list(release, 1));
    ASSERT_EQ(peer.take_requests().front().nccl->queue_pairs, 4u);
    peer.on_endpoint(Time(), {.qpn = 0x40, .psn = Psn(0), .address = 1, .rkey = 2, .qpns = qpns});
    peer.on_bytes(Time(), metadata(release, real));
    const auto wanted = peer.take_requests();
    ASSERT_EQ(wanted.size(), 1u);
    EXPECT_TRUE(wanted[0].nccl->split);
    EXPECT_EQ(wanted[0].nccl->remote_qpns, real.qpns);
  }
}

/// Up to 2.23 NCCL sends what its stack had where it writes nothing (a GPU showed it of 2.22.3).
TEST(NetIb, WhatOldReleasesDoNotClear) {
  for (const NetIbRelease& release : kNetIbReleases) {
    if (release.list_bytes > 0) continue;
    SCOPED_TRACE(release.name);
    const ScriptedEnd real = ScriptedEnd::real();
    auto bytes = metadata(release, real);
    const size_t first = release.ndevs_at == 0 ? 8 : 0, stride = release.ndevs_at == 0 ? 4 : 24;
    for (size_t q = 1; q < kNetIbQueuePairs; ++q) {
      std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(first + q * stride), stride, 0xa7);
    }
    NetIbBench bench(release, true);
    bench.say_hello();
    bench.say(bytes);
    ASSERT_EQ(bench.requests().size(), 1u);
    EXPECT_EQ(bench.all_requests.back().nccl->remote_qpns, real.qpns);
    bench.answer({.qpn = 0x40, .psn = Psn(0), .address = 1, .rkey = 2, .qpns = {0x40}});
    const auto reply = bench.heard();
    EXPECT_EQ(std::ranges::count(reply, 0xa7), 0);
    EXPECT_TRUE(bench.log.empty() || bench.log.front() == "ready");
  }
}

TEST(NetIb, KnowsTheEarlyPatchesOf229) {
  NetIbRelease early = release_of(27);
  early.minor = 29;
  NetIbBench bench(early, true);
  bench.say_hello();
  bench.say(device_list(early, 1));
  (void)bench.heard();
  bench.say(metadata(early, ScriptedEnd::real()));
  ASSERT_EQ(bench.requests().size(), 1u);
  bench.answer({.qpn = 0x40, .psn = Psn(0), .address = 1, .rkey = 2, .qpns = {0x40}});
  EXPECT_EQ(bench.heard().size(), 3648u);
  // What we begin later has its size.
  bench.connector.real_sends = false;
  NetIbPeer peer(bench.connector, bench.settings, bench.seen, bench);
  peer.on_connected(Time());
  peer.on_bytes(Time(), device_list(early, 1));
  peer.on_endpoint(Time(), {.qpn = 0x41, .psn = Psn(0), .address = 1, .rkey = 2, .qpns = {0x41}});
  EXPECT_EQ(peer.take_output().size(), 12u + 20 + 3648);
}

TEST(NetIb, StrangersAreClosedAndTheListenerStays) {
  const NetIbRelease release = release_of(28);
  {
    NetIbBench bench(release, true);
    auto bytes = hello();
    bytes[0] ^= 1;
    bench.say(bytes);
    EXPECT_TRUE(bench.peer.finished());
    EXPECT_FALSE(bench.peer.claimed());
    EXPECT_NE(bench.peer.failure().find("magic"), std::string::npos);
    EXPECT_TRUE(bench.log.empty());
    EXPECT_TRUE(bench.heard().empty());
  }
  {
    NetIbBench bench(release, true);
    auto bytes = hello();
    bytes[8] = 3;
    bench.say(bytes);
    EXPECT_FALSE(bench.peer.claimed());
    EXPECT_NE(bench.peer.failure().find("type 3"), std::string::npos);
  }
  {
    NetIbBench bench(release, true);
    bench.peer.on_closed(Time());
    EXPECT_TRUE(bench.peer.finished());
    EXPECT_TRUE(bench.log.empty());
  }
}

struct Bad {
  const char* name;
  void (*spoil)(ScriptedEnd& end);
  const char* text;
};
const Bad kBad[] = {
    {"no devices", [](ScriptedEnd& e) { e.devices = 0; }, "devices is 0"},
    {"absurd devices", [](ScriptedEnd& e) { e.devices = -7; }, "devices is -7"},
    {"two devices",
     [](ScriptedEnd& e) {
       e.devices = 2;
       e.further = {{*IpAddress::parse("10.10.0.200"), 0x1008}};
     },
     "NCCL_IB_MERGE_NICS=0"},
    {"MTU 0", [](ScriptedEnd& e) { e.mtu = 0; }, "MTU is 0"},
    {"MTU 6", [](ScriptedEnd& e) { e.mtu = 6; }, "MTU is 6"},
    {"InfiniBand", [](ScriptedEnd& e) { e.link_layer = 1; }, "InfiniBand"},
    {"no link layer", [](ScriptedEnd& e) { e.link_layer = 0; }, "link layer is 0"},
    {"no queue pair", [](ScriptedEnd& e) { e.qpns = {}; }, "no queue pair"},
    {"a gap",
     [](ScriptedEnd& e) {
       e.qpns = {1, 0, 3};
     },
     "queue pair 2"},
    {"number of 25 bits", [](ScriptedEnd& e) { e.qpns = {1u << 24}; }, "16777216"},
    {"other GID", [](ScriptedEnd& e) { e.gid = *IpAddress::parse("fe80::1"); },
     "NCCL_IB_GID_INDEX"},
    {"no memory", [](ScriptedEnd& e) { e.address = 0; }, "no memory for credits"},
    {"no key", [](ScriptedEnd& e) { e.rkey = 0; }, "no memory for credits"},
    {"traffic class", [](ScriptedEnd& e) { e.tc = 256; }, "traffic class is 256"},
};

TEST(NetIb, WhatIsWrongIsNamed) {
  for (const NetIbRelease& release : kNetIbReleases) {
    for (const Bad& bad : kBad) {
      ScriptedEnd real = ScriptedEnd::real();
      bad.spoil(real);
      if (release.ndevs_at == 0 && real.devices != 1) continue;
      if (release.tc_at == 0 && real.tc > 255) continue;
      if (release.most_devices < real.devices) continue;
      // A queue pair that nobody may read.
      if (release.list_bytes == 0 && bad.text == std::string("queue pair 2")) continue;
      SCOPED_TRACE(std::string(release.name) + " " + bad.name);
      NetIbBench bench(release, true);
      bench.say_hello();
      if (release.list_bytes > 0) bench.say(device_list(release, 1));
      (void)bench.heard();
      bench.say(metadata(release, real));
      EXPECT_TRUE(bench.requests().empty());
      EXPECT_TRUE(bench.peer.finished());
      EXPECT_TRUE(bench.heard().empty());
      ASSERT_EQ(bench.log.size(), 1u);
      EXPECT_NE(bench.log[0].find(bad.text), std::string::npos) << bench.log[0];
    }
  }
}

TEST(NetIb, WrongListsAndWords) {
  for (const NetIbRelease& release : kNetIbReleases) {
    SCOPED_TRACE(release.name);
    for (const int32_t devices : {0, -1, 2, 9, 1 << 30}) {
      if (release.list_bytes == 0) break;
      for (const bool real_sends : {true, false}) {
        NetIbBench bench(release, real_sends);
        if (real_sends) bench.say_hello();
        if (!real_sends) bench.peer.on_connected(Time());
        bench.say(device_list(release, devices));
        ASSERT_EQ(bench.log.size(), 1u);
        EXPECT_NE(bench.log[0].find(std::to_string(devices)), std::string::npos) << bench.log[0];
      }
    }
    NetIbBench bench(release, true);
    bench.say_hello();
    if (release.list_bytes > 0) bench.say(device_list(release, 1));
    bench.say(metadata(release, ScriptedEnd::real()));
    (void)bench.requests();
    bench.answer({.qpn = 0x40, .psn = Psn(0), .address = 1, .rkey = 2, .qpns = {0x40}});
    bench.say({0, 0, 0, 0});
    ASSERT_EQ(bench.log.size(), 1u);
    EXPECT_NE(bench.log[0].find("word that it is ready is 0"), std::string::npos);
  }
}

TEST(NetIb, ARealRankThatVanishesAtEveryByte) {
  for (const NetIbRelease& release : kNetIbReleases) {
    std::vector<uint8_t> all = hello();
    if (release.list_bytes > 0) append(all, device_list(release, 1));
    append(all, metadata(release, ScriptedEnd::real()));
    for (size_t end = 0; end <= all.size(); ++end) {
      NetIbBench bench(release, true);
      bench.say({all.begin(), all.begin() + static_cast<std::ptrdiff_t>(end)});
      bench.peer.on_closed(Time());
      EXPECT_TRUE(bench.peer.finished());
      EXPECT_NE(bench.peer.failure(), "");
      EXPECT_EQ(bench.log.size(), end < 12 ? 0u : 1u);
    }
  }
}

TEST(NetIb, RefusedByTheDataplane) {
  NetIbBench bench(release_of(28), true);
  bench.say_hello();
  bench.say(device_list(release_of(28), 1));
  bench.say(metadata(release_of(28), ScriptedEnd::real()));
  bench.peer.on_refused(Time(), "no queue pair is left");
  EXPECT_EQ(bench.log, std::vector<std::string>{"failed: no queue pair is left"});
}

TEST(NetIb, WhoTalksTooMuchIsCutOff) {
  NetIbBench bench(release_of(28), true);
  bench.say_hello();
  bench.say(device_list(release_of(28), 1));
  bench.say(metadata(release_of(28), ScriptedEnd::real()));
  for (int i = 0; i < 10000 && !bench.peer.finished(); ++i) bench.say({1, 0, 0, 0});
  EXPECT_TRUE(bench.peer.finished());
}

TEST(NetIb, SaysWhatItWaitsFor) {
  NetIbBench bench(release_of(28), true);
  EXPECT_EQ(bench.peer.waiting(), "the real rank's magic (0 of 12 bytes)");
  bench.say_hello();
  EXPECT_EQ(bench.peer.waiting(), "the real rank's devices (0 of 20 bytes)");
  bench.say(device_list(release_of(28), 1));
  bench.say(std::vector<uint8_t>(120));
  EXPECT_EQ(bench.peer.waiting(), "the real rank's metadata (120 of 3648 bytes)");
}

TEST(NetIb, KeepsItsPromisesWhateverComes) {
  std::mt19937 random(6);
  for (int round = 0; round < 20000; ++round) {
    // The messages in their order as a rule, whole or damaged.
    std::vector<uint8_t> input = {static_cast<uint8_t>(random()), static_cast<uint8_t>(random())};
    if (input[1] % 2 == 1) input.push_back(14);  // dialled: it stands
    for (const uint8_t step : std::vector<uint8_t>{1, 2, 5, 3, 5, 4, 7}) {
      if (step == 1 && input[1] % 2 == 1) continue;
      const bool strange = random() % 8 == 0;
      input.push_back(strange ? static_cast<uint8_t>(random()) : step);
      for (unsigned i = 0; strange && i < random() % 12; ++i) {
        input.push_back(static_cast<uint8_t>(random()));
      }
    }
    drive_net_ib(input);
  }
}

}  // namespace
}  // namespace understudy
