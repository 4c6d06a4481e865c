// net_ib's exchange where NCCL has made one device of several NICs: merged devices, and the queue pairs
// of port failover. The layouts are written down in tests/rigs/net_ib_script.h.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "ctrl/peers/nccl/transport/net_ib_peer.h"
#include "tests/rigs/net_ib_script.h"

namespace understudy {
namespace {

const IpAddress kSecondReal = *IpAddress::parse("10.10.0.200");
const IpAddress kSecondEmulated = *IpAddress::parse("10.10.0.2");

/// A NIC of two ports that NCCL took for one device, against as many or one of ours.
TEST(NetIb, MergedDevices) {
  for (const NetIbRelease& release : kNetIbReleases) {
    if (release.most_devices < 2) continue;
    for (const int real_devices : {1, 2}) {
      for (const int own : {1, 2}) {
        for (const bool real_sends : {true, false}) {
          SCOPED_TRACE(testing::Message() << release.name << ", " << real_devices << " real, "
                                          << own << (real_sends ? " receive" : " send"));
          NetIbBench bench(release, real_sends);
          bench.settings.queue_pairs = 2;
          if (own == 2) bench.settings.local.push_back(kSecondEmulated);
          if (real_devices == 2) bench.settings.real_addresses = {kSecondReal, kNetIbReal};
          // Without the list, ends go by what they have themselves (2.20 to 2.23).
          const bool told = release.list_bytes != 0;
          const int devices = told ? own : std::min(own, real_devices);
          const auto number = static_cast<size_t>(2 * std::max(real_devices, devices));
          ScriptedEnd real = ScriptedEnd::real();
          real.devices = real_devices;
          if (real_devices == 2) real.further = {{kSecondReal, 0x1009}};
          real.qpns.clear();
          std::vector<Qpn> qpns;
          for (size_t q = 0; q < number; ++q) {
            real.qpns.push_back(static_cast<Qpn>(0x200 + q));
            qpns.push_back(static_cast<Qpn>(0x40 + q));
          }
          const EndpointReady ready{
              .qpn = 0x40, .psn = Psn(0), .address = 0x100000000, .rkey = 0x777, .qpns = qpns};
          ScriptedEnd ours = real_sends ? real : ScriptedEnd();
          ours.qpns = qpns;
          ours.gid = kNetIbEmulated;
          ours.devices = devices;
          ours.further.clear();
          if (devices == 2) ours.further = {{kSecondEmulated, 0x777}};
          ours.mtu = 4;
          ours.rkey = 0x777;
          ours.address = 0x100000000;
          ours.ece = false;
          if (!real_sends) ours.tc = release.tc_at != 0 ? 32 : 0;
          NetIbPeer peer(bench.connector, bench.settings, bench.seen, bench);
          EndpointRequest request;
          if (real_sends) {
            peer.on_bytes(Time(), hello());
            if (told) peer.on_bytes(Time(), device_list(release, real_devices));
            EXPECT_EQ(peer.take_output(),
                      told ? device_list(release, devices) : std::vector<uint8_t>());
            peer.on_bytes(Time(), metadata(release, real));
            auto wanted = peer.take_requests();
            ASSERT_EQ(wanted.size(), 1u) << peer.failure();
            request = wanted[0];
            peer.on_endpoint(Time(), ready);
            EXPECT_EQ(peer.take_output(), metadata(release, ours));
          } else {
            peer.on_connected(Time());
            auto expected = hello();
            if (told) append(expected, device_list(release, devices));
            EXPECT_EQ(peer.take_output(), expected);
            if (told) peer.on_bytes(Time(), device_list(release, real_devices));
            auto wanted = peer.take_requests();
            ASSERT_EQ(wanted.size(), 1u) << peer.failure();
            EXPECT_EQ(wanted[0].nccl->queue_pairs, number);
            peer.on_endpoint(Time(), ready);
            EXPECT_EQ(peer.take_output(), metadata(release, ours));
            peer.on_bytes(Time(), metadata(release, real));
            wanted = peer.take_requests();
            ASSERT_EQ(wanted.size(), 1u) << peer.failure();
            request = wanted[0];
          }
          const NcclLinkRequest& link = *request.nccl;
          EXPECT_EQ(link.parts, static_cast<uint32_t>(std::max(real_devices, devices)));
          EXPECT_EQ(link.queue_pairs, number);
          EXPECT_EQ(link.local.size(), static_cast<size_t>(devices));
          ASSERT_EQ(link.devices.size(), static_cast<size_t>(real_devices));
          EXPECT_EQ(link.devices[0].gid, kNetIbReal);
          EXPECT_EQ(link.devices.back().rkey, real_devices == 2 ? 0x1009u : 0x1007u);
          for (size_t q = 0; q < number; ++q) {
            EXPECT_EQ(link.remote_device[q], q % static_cast<size_t>(real_devices));
          }
        }
      }
    }
  }
}

/// Both sides of the exchange with port failover on (docs/nccl 3.15).
TEST(NetIb, QueuePairsOfPortFailover) {
  for (const uint32_t minor : {29u, 30u}) {
    for (const bool recovery : {false, true}) {
      for (const bool real_sends : {false, true}) {
        if (recovery && minor == 29) continue;
        SCOPED_TRACE(testing::Message() << "2." << minor << (recovery ? " with recovery" : "")
                                        << (real_sends ? " receive" : " send"));
        const NetIbRelease release = release_of(minor);
        NetIbBench bench(release, real_sends);
        bench.settings.local.push_back(kSecondEmulated);
        bench.settings.real_addresses.push_back(kSecondReal);
        bench.settings.failover = true;
        bench.settings.recovery = recovery;
        ScriptedEnd real = ScriptedEnd::real();
        real.devices = 2;
        real.further = {{kSecondReal, 0x1009}};
        real.qpns = {0x201, 0x202};
        real.probing = {0x211, 0x212};
        if (recovery) real.recovery = {0x221, 0x222};
        EndpointReady ready{.qpn = 0x40,
                            .psn = Psn(0),
                            .address = 0x100000000,
                            .rkey = 0x777,
                            .qpns = {0x40, 0x41}};
        ready.probing = {0x50, 0x51};
        if (recovery) ready.recovery = {0x60, 0x61};
        ScriptedEnd ours = real_sends ? real : ScriptedEnd();
        ours.qpns = ready.qpns;
        ours.probing = ready.probing;
        ours.recovery = ready.recovery;
        ours.gid = kNetIbEmulated;
        ours.devices = 2;
        ours.further = {{kSecondEmulated, 0x777}};
        ours.mtu = 4;
        ours.rkey = 0x777;
        ours.address = 0x100000000;
        ours.ece = false;
        if (!real_sends) ours.tc = 32;
        NetIbPeer peer(bench.connector, bench.settings, bench.seen, bench);
        EndpointRequest request;
        if (real_sends) {
          peer.on_bytes(Time(), hello());
          peer.on_bytes(Time(), device_list(release, 2));
          peer.take_output();
          peer.on_bytes(Time(), metadata(release, real));
          auto wanted = peer.take_requests();
          ASSERT_EQ(wanted.size(), 1u) << peer.failure();
          request = wanted[0];
          peer.on_endpoint(Time(), ready);
          EXPECT_EQ(peer.take_output(), metadata(release, ours));
        } else {
          peer.on_connected(Time());
          peer.on_bytes(Time(), device_list(release, 2));
          peer.take_output();
          auto wanted = peer.take_requests();
          ASSERT_EQ(wanted.size(), 1u) << peer.failure();
          ASSERT_TRUE(wanted[0].nccl->failover.has_value());
          EXPECT_EQ(wanted[0].nccl->failover->probing, 2u);
          peer.on_endpoint(Time(), ready);
          EXPECT_EQ(peer.take_output(), metadata(release, ours));
          peer.on_bytes(Time(), metadata(release, real));
          wanted = peer.take_requests();
          ASSERT_EQ(wanted.size(), 1u) << peer.failure();
          request = wanted[0];
        }
        ASSERT_TRUE(request.nccl->failover.has_value());
        EXPECT_EQ(request.nccl->failover->remote_probing, real.probing);
        EXPECT_EQ(request.nccl->failover->remote_recovery, real.recovery);
        EXPECT_EQ(request.nccl->failover->recovery, recovery ? 2u : 0u);
      }
    }
  }
}

/// Who has it on and who has not are named, with the variable.
TEST(NetIb, PortFailoverThatOneSideHas) {
  const NetIbRelease release = release_of(30);
  const auto failure = [&](bool here, bool recovery, auto spoil) {
    NetIbBench bench(release, true);
    bench.settings.failover = here;
    bench.settings.recovery = recovery;
    NetIbPeer peer(bench.connector, bench.settings, bench.seen, bench);
    peer.on_bytes(Time(), hello());
    peer.on_bytes(Time(), device_list(release, 1));
    ScriptedEnd real = ScriptedEnd::real();
    spoil(real);
    peer.on_bytes(Time(), metadata(release, real));
    EXPECT_TRUE(peer.take_requests().empty());
    return peer.failure();
  };
  const auto says = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  const auto has = [](ScriptedEnd& e) { e.probing = {0x211}; };
  says(failure(false, false, has), "real rank has NCCL_IB_RESILIENCY_PORT_FAILOVER on");
  says(failure(true, false, [](ScriptedEnd&) {}),
       "real rank has NCCL_IB_RESILIENCY_PORT_FAILOVER off");
  says(failure(true, true, has), "real rank has NCCL_IB_RESILIENCY_PORT_RECOVERY off");
  says(failure(true, false,
               [](ScriptedEnd& e) {
                 e.probing = {0x211};
                 e.recovery = {0x221};
               }),
       "real rank has NCCL_IB_RESILIENCY_PORT_RECOVERY on");
  says(failure(true, false,
               [](ScriptedEnd& e) {
                 e.probing = {0x211, 0x212};
               }),
       "2 queue pairs for probes");
  says(failure(true, false, [](ScriptedEnd& e) { e.probing = {0x2000000}; }), "port failover");
}

TEST(NetIb, MergedDevicesThatAreWrong) {
  const NetIbRelease release = release_of(28);
  const auto failure = [&](auto spoil, int list = 2) {
    NetIbBench bench(release, true);
    bench.settings.real_addresses.push_back(kSecondReal);
    NetIbPeer peer(bench.connector, bench.settings, bench.seen, bench);
    peer.on_bytes(Time(), hello());
    peer.on_bytes(Time(), device_list(release, list));
    ScriptedEnd real = ScriptedEnd::real();
    real.devices = 2;
    real.qpns = {1, 2};
    real.further = {{kSecondReal, 0x1009}};
    spoil(real);
    peer.on_bytes(Time(), metadata(release, real));
    EXPECT_TRUE(peer.take_requests().empty());
    return peer.failure();
  };
  const auto says = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  says(failure([](ScriptedEnd&) {}, 1), "leave merged_nics out");
  says(failure([](ScriptedEnd&) {}, 3), "set merged_nics = 3");
  says(failure([](ScriptedEnd& e) { e.further[0].gid = kNetIbReal; }), "two devices");
  says(failure([](ScriptedEnd& e) { e.further[0].gid = kSecondEmulated; }), "NCCL_IB_GID_INDEX");
  says(failure([](ScriptedEnd& e) { e.further[0].rkey = 0; }), "no memory for credits");
  says(failure([](ScriptedEnd& e) {
         e.further.push_back({});
         e.qpns.push_back(3);
       }),
       "is on device 2 of 2");
}

/// Of a node with several ranks, each with its own.
TEST(NetIb, TellsTheNumbersOfItsDevicesAndNamesAnotherRanksNic) {
  const NetIbRelease release = release_of(28);
  NetIbBench bench(release, true);
  bench.settings.local.push_back(kSecondEmulated);
  bench.settings.first_device = 2;
  bench.settings.real_node = {kNetIbReal, kSecondReal};
  bench.settings.real_addresses = {kSecondReal};
  NetIbPeer peer(bench.connector, bench.settings, bench.seen, bench);
  peer.on_bytes(Time(), hello());
  peer.on_bytes(Time(), device_list(release, 1));
  std::vector<uint8_t> list(release.list_bytes);
  for (const auto& [at, value] : {std::pair{size_t{0}, 2}, {size_t{4}, 2}, {size_t{8}, 3}}) {
    list[at] = static_cast<uint8_t>(value);
  }
  EXPECT_EQ(peer.take_output(), list);
  peer.on_bytes(Time(), metadata(release, ScriptedEnd::real()));
  EXPECT_NE(peer.failure().find("NCCL took another NIC of its node"), std::string::npos)
      << peer.failure();
  EXPECT_NE(peer.failure().find(kNetIbReal.text()), std::string::npos) << peer.failure();
  EXPECT_NE(peer.failure().find(kSecondReal.text()), std::string::npos) << peer.failure();
}

}  // namespace
}  // namespace understudy
