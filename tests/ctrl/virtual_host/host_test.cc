// The host of all emulated addresses and its machines: listeners, calls, how they end, and frames
// that are not for it.
#include "ctrl/virtual_host/virtual_host.h"

#include <gtest/gtest.h>

#include <set>

#include "dataplane/wire/build.h"
#include "tests/rigs/virtual_hosts.h"

namespace understudy {
namespace {

IpAddress ip(const char* text) { return IpAddress::parse(text).value(); }

class VirtualHostTest : public testing::Test {
 protected:
  using Memory = TalkingPeer::Memory;
  VirtualHost& host() { return *hosts_.hosts[1]; }
  VirtualHost& real() { return *hosts_.hosts[0]; }

  PeerHost::PeerFactory talking(std::string text, size_t wanted = 0) {
    return [this, text, wanted] { return talker(text, wanted); };
  }
  std::unique_ptr<Peer> talker(const std::string& text, size_t wanted = 0) {
    memories_.push_back(std::make_shared<Memory>());
    return std::make_unique<TalkingPeer>(text, wanted, memories_.back());
  }
  /// The real side calls an address of ours.
  ConnectionId dial(const SocketAddress& to, const std::string& text, size_t wanted) {
    const auto id = real().call(hosts_.address(0), to, talker(text, wanted));
    EXPECT_TRUE(id.has_value());
    return id.value_or(0);
  }

  VirtualHosts hosts_;
  std::vector<std::shared_ptr<Memory>> memories_;
};

TEST_F(VirtualHostTest, ListensAtOneAddressForANode) {
  ASSERT_TRUE(host().listen_at({ip("10.9.2.7"), 5000}, 7, talking("seven")));
  ASSERT_TRUE(host().listen_at({ip("10.9.2.8"), 5000}, 8, talking("eight")));
  // The first prefix's own side has no route to others: this one knows 10.9.2.1 as real only.
  HostNamespaceSpec spec;
  spec.emulated = {IpPrefix{ip("10.9.1.0"), 24}};
  spec.real = {ip("10.9.2.7"), ip("10.9.2.8"), ip("10.9.2.9")};
  std::vector<std::vector<uint8_t>> frames;
  std::vector<EndedConnection> ended;
  PeerHost::Callbacks callbacks;
  callbacks.ended = [&](const EndedConnection& end) { ended.push_back(end); };
  VirtualHost caller(spec, 1, callbacks, [&](std::span<const uint8_t> frame) {
    frames.emplace_back(frame.begin(), frame.end());
  });
  for (const char* to : {"10.9.2.8", "10.9.2.9"}) {
    ASSERT_TRUE(caller.call(ip("10.9.1.1"), {ip(to), 5000}, talker("x", 5)));
  }
  EXPECT_EQ(frames.size(), 2u);
  for (const auto& frame : frames) host().on_frame(Time::zero(), frame);
  EXPECT_EQ(host().tcp_connections(), 1u);
  EXPECT_EQ(host().counters().resets_sent, 1u);
}

TEST_F(VirtualHostTest, NodeAndEndsOfAConnection) {
  AcceptedConnection came;
  ASSERT_TRUE(host().listen_at({hosts_.address(1), 5000}, 42, [&](const AcceptedConnection& a) {
    came = a;
    return talker("hello");
  }));
  const ConnectionId id = dial({hosts_.address(1), 5000}, "hi", 5);
  hosts_.run();
  EXPECT_EQ(memories_[0]->heard, "hello");
  EXPECT_EQ(memories_[1]->heard, "hi");
  EXPECT_EQ(came.local, hosts_.address(1));
  EXPECT_EQ(came.client, hosts_.address(0));
  EXPECT_EQ(came.local_port, 5000);
  EXPECT_GE(came.client_port, 32768);
  ASSERT_EQ(hosts_.ended[1].size(), 1u);
  EXPECT_EQ(hosts_.ended[1][0].node, 42u);
  EXPECT_EQ(hosts_.ended[1][0].id, came.id);
  EXPECT_EQ(hosts_.ended[1][0].port, 5000);
  EXPECT_EQ(hosts_.ended[1][0].client, hosts_.address(0));
  EXPECT_FALSE(hosts_.ended[1][0].dialled);
  ASSERT_EQ(hosts_.ended[0].size(), 1u);
  EXPECT_EQ(hosts_.ended[0][0].id, id);
  EXPECT_TRUE(hosts_.ended[0][0].dialled);
  EXPECT_TRUE(hosts_.ended[0][0].connected);
  EXPECT_EQ(host().connection_count(), 0u);
}

TEST_F(VirtualHostTest, ACallToAClosedPortIsRefusedAtOnce) {
  const ConnectionId id = dial({hosts_.address(1), 99}, "hi", 5);
  hosts_.run();
  EXPECT_EQ(hosts_.now, Time::zero() + VirtualHosts::kLatency * 2);
  ASSERT_EQ(hosts_.ended[0].size(), 1u);
  EXPECT_EQ(hosts_.ended[0][0].id, id);
  EXPECT_FALSE(hosts_.ended[0][0].connected);
  EXPECT_TRUE(hosts_.ended[0][0].refused);
  EXPECT_EQ(hosts_.ended[0][0].failure, "Connection refused");
  EXPECT_EQ(real().tcp_connections(), 0u);
}

TEST_F(VirtualHostTest, ACallThatNoMachineTakesIsClosed) {
  ASSERT_TRUE(host().listen(IpAddress::v4(0), 5000,
                            [](const AcceptedConnection&) { return std::unique_ptr<Peer>(); }));
  dial({hosts_.address(1), 5000}, "", 5);
  hosts_.run();
  EXPECT_TRUE(memories_[0]->closed);
  EXPECT_EQ(host().connection_count(), 0u);
  EXPECT_TRUE(hosts_.ended[1].empty());
}

TEST_F(VirtualHostTest, PortsAndAddresses) {
  const IpAddress any = IpAddress::v4(0);
  const auto acceptor = [](const AcceptedConnection&) { return std::unique_ptr<Peer>(); };
  const auto first = host().listen(any, 0, acceptor), second = host().listen(any, 0, acceptor);
  ASSERT_TRUE(first && second);
  EXPECT_NE(*first, *second);
  EXPECT_FALSE(host().listen(any, *first, acceptor).has_value());
  EXPECT_EQ(host().listen(IpAddress(), *first, acceptor), *first) << "the other family's is free";
  EXPECT_FALSE(host().listen_at({hosts_.address(1), *first}, 1, acceptor).has_value());
  ASSERT_TRUE(host().listen_at({hosts_.address(1), 5000}, 1, acceptor));
  EXPECT_FALSE(host().listen(any, 5000, acceptor).has_value());
  const auto real = host().listen_at({hosts_.address(0), 5000}, 1, acceptor);
  ASSERT_FALSE(real);
  EXPECT_EQ(real.error().text, "listen 10.9.1.1:5000: it is no emulated node's address");
  const auto call = [&](const char* from, const char* to) {
    const auto id = host().call(ip(from), {ip(to), 1}, talker(""));
    return id ? "" : id.error().text;
  };
  EXPECT_EQ(call("10.9.2.5", "10.9.1.1"), "");
  EXPECT_EQ(call("10.9.1.1", "10.9.1.1"),
            "connect 10.9.1.1 to 10.9.1.1:1: 10.9.1.1 is no emulated node's address");
  EXPECT_EQ(call("10.9.2.5", "10.8.0.1"), "connect 10.9.2.5 to 10.8.0.1:1: Network is unreachable");
}

TEST_F(VirtualHostTest, CallsHavePortsOfTheirOwn) {
  std::set<uint16_t> ports;
  ASSERT_TRUE(host().listen(IpAddress::v4(0), 5000, [&](const AcceptedConnection& a) {
    ports.insert(a.client_port);
    return talker("");
  }));
  for (int i = 0; i < 1000; ++i) dial({hosts_.address(1), 5000}, "x", 1);
  hosts_.run();
  EXPECT_EQ(ports.size(), 1000u);
  EXPECT_EQ(host().connection_count(), 1000u);
}

TEST_F(VirtualHostTest, EmulatedNodesReachOneAnotherWithin) {
  ASSERT_TRUE(host().listen_at({ip("10.9.2.7"), 5000}, 7, talking("hello")));
  ASSERT_TRUE(host().call_for(8, ip("10.9.2.8"), {ip("10.9.2.7"), 5000}, talker("hi", 5)));
  ASSERT_TRUE(host().call_for(8, ip("10.9.2.8"), {ip("10.9.2.7"), 5001}, talker("hi", 5)));
  hosts_.run();
  EXPECT_EQ(hosts_.sent, 0u);
  EXPECT_EQ(memories_[0]->heard, "hello");
  EXPECT_EQ(memories_[2]->heard, "hi");
  ASSERT_EQ(hosts_.ended[1].size(), 3u);
  EXPECT_EQ(hosts_.ended[1][0].failure, "Connection refused");
}

TEST_F(VirtualHostTest, ADroppedConnectionIsClosedAndNotReported) {
  ASSERT_TRUE(host().listen(IpAddress::v4(0), 5000,
                            [&](const AcceptedConnection&) { return talker("hello"); }));
  const ConnectionId id = dial({hosts_.address(1), 5000}, "hi", 100);
  hosts_.run();
  EXPECT_EQ(memories_[0]->heard, "hello");
  real().drop(id);
  hosts_.run();
  EXPECT_TRUE(memories_[1]->closed);
  EXPECT_TRUE(hosts_.ended[0].empty());
  EXPECT_EQ(hosts_.ended[1].size(), 1u);
  EXPECT_FALSE(real().endpoint_ready(id, {}));
  hosts_.outlast();
  EXPECT_EQ(real().tcp_connections(), 0u);
}

/// Answers what it asked the data plane for.
class AskingPeer final : public Peer {
 public:
  void on_bytes(Time, std::span<const uint8_t> bytes) override {
    for (const uint8_t byte : bytes) {
      EndpointRequest request;
      request.remote_qpn = byte;
      requests_.push_back(request);
    }
  }
  void on_endpoint(Time, const EndpointReady& ready) override {
    output_.push_back(static_cast<uint8_t>(ready.qpn));
  }
  void on_closed(Time) override { finished_ = true; }
};

TEST(VirtualHostMachines, RequestsAreAnsweredAtOnceOrLater) {
  VirtualHosts hosts;
  struct Asked {
    NodeId node;
    ConnectionId id;
    Qpn qpn;
  };
  std::vector<Asked> asked;
  HostNamespaceSpec spec;
  spec.emulated = {IpPrefix{hosts.address(1), 24}};
  spec.real = {hosts.address(0)};
  PeerHost* answering = nullptr;
  std::vector<std::vector<uint8_t>> frames;
  std::vector<EndedConnection> ended;
  PeerHost::Callbacks callbacks;
  callbacks.endpoint = [&](NodeId node, ConnectionId id, const EndpointRequest& request) {
    if (answering != nullptr) {
      EXPECT_TRUE(answering->endpoint_ready(id, {request.remote_qpn, {}, 0, 0}));
    } else {
      asked.push_back({node, id, request.remote_qpn});
    }
  };
  callbacks.start = [](const EndpointStart&) {};
  callbacks.ended = [&](const EndedConnection& end) { ended.push_back(end); };
  VirtualHost host(spec, 3, callbacks, [&](std::span<const uint8_t> frame) {
    hosts.hosts[0]->on_frame(hosts.now, frame);
  });
  // The real side's frames go to this host in place of the other one.
  hosts.keep_frames = true;
  const auto carry = [&] {
    while (!hosts.frames.empty()) {
      for (const auto& frame : std::exchange(hosts.frames, {})) host.on_frame(hosts.now, frame);
    }
  };
  ASSERT_TRUE(
      host.listen_at({hosts.address(1), 5000}, 9, [] { return std::make_unique<AskingPeer>(); }));
  auto memory = std::make_shared<TalkingPeer::Memory>();
  ASSERT_TRUE(hosts.hosts[0]->call(hosts.address(0), {hosts.address(1), 5000},
                                   std::make_unique<TalkingPeer>("xy", 100, memory)));
  carry();
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(asked[0].node, 9u);
  EXPECT_EQ(memory->heard, "");
  EXPECT_TRUE(host.endpoint_ready(asked[0].id, {asked[0].qpn, {}, 0, 0}));
  carry();
  EXPECT_EQ(memory->heard, "x");
  EXPECT_TRUE(host.endpoint_refused(asked[1].id, "no room"));
  carry();
  host.on_time(hosts.now);
  EXPECT_TRUE(memory->closed);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].failure, "no room");
  EXPECT_FALSE(host.endpoint_ready(asked[1].id, {}));

  answering = &host;
  memory = std::make_shared<TalkingPeer::Memory>();
  ASSERT_TRUE(hosts.hosts[0]->call(hosts.address(0), {hosts.address(1), 5000},
                                   std::make_unique<TalkingPeer>("abc", 3, memory)));
  carry();
  EXPECT_EQ(memory->heard, "abc");
}

/// Frames for the host, one at a time.
class HostileFrames : public VirtualHostTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(host().listen(IpAddress::v4(0), 5000,
                              [&](const AcceptedConnection&) { return talker("hello"); }));
  }
  void come(const TcpFlow& from, uint8_t flags, uint32_t seq, uint32_t ack,
            std::string_view text = "") {
    TcpSegment segment;
    segment.seq = seq;
    segment.ack = ack;
    segment.flags = flags;
    segment.window = 65535;
    segment.payload = {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
    host().on_frame(Time::zero(), build_tcp(from, segment));
  }
  const TcpFlow good_{{hosts_.address(0), 40000}, {hosts_.address(1), 5000}};
};

TEST_F(HostileFrames, AreDroppedAndCounted) {
  come({{ip("10.9.1.1"), 1}, {ip("10.7.0.1"), 5000}}, kTcpSyn, 0, 0);
  come({{ip("10.9.2.3"), 1}, {ip("10.9.2.4"), 5000}}, kTcpSyn, 0, 0);  // as if it were ours
  come({{ip("10.9.2.4"), 5000}, {ip("10.9.2.4"), 5000}}, kTcpSyn, 0, 0);
  EXPECT_EQ(host().counters().other_addresses, 3u);
  const std::vector<uint8_t> runt(20);
  host().on_frame(Time::zero(), runt);
  auto udp = build_tcp(good_, TcpSegment{});
  udp[23] = 17;
  udp[25] = static_cast<uint8_t>(udp[25] - 11);  // the header's checksum, to match
  host().on_frame(Time::zero(), udp);
  auto damaged = build_tcp(good_, TcpSegment{});
  damaged.back() ^= 1;
  host().on_frame(Time::zero(), damaged);
  EXPECT_EQ(host().counters().bad_checksums, 1u);
  EXPECT_EQ(host().counters().malformed + host().counters().other_frames, 2u);
  EXPECT_EQ(host().tcp_connections(), 0u);
  EXPECT_EQ(hosts_.sent, 0u);
}

TEST_F(HostileFrames, SegmentsThatNobodyHasAreReset) {
  come(good_, kTcpAck, 5, 6);
  come(good_, kTcpFin | kTcpAck, 5, 6);
  come(good_, kTcpSyn | kTcpAck, 5, 6);
  come(good_, kTcpRst, 5, 6);
  EXPECT_EQ(host().counters().resets_sent, 3u);
  EXPECT_EQ(host().tcp_connections(), 0u);
}

TEST_F(HostileFrames, HalfOpenCallsGoByThemselves) {
  for (uint16_t port = 1; port <= 3000; ++port) {
    come({{hosts_.address(0), port}, {hosts_.address(1), 5000}}, kTcpSyn, port, 0);
  }
  EXPECT_EQ(host().tcp_connections(), 3000u);
  EXPECT_EQ(host().connection_count(), 0u);
  Time now;
  while (!host().deadline().is_never()) {
    now = host().deadline();
    host().on_time(now);
  }
  EXPECT_EQ(host().tcp_connections(), 0u);
  EXPECT_LT(now, Time::zero() + Duration::s(70));
}

TEST_F(HostileFrames, PortsOfAnEndedConnectionAreUsedAgain) {
  hosts_.keep_frames = true;
  const auto answer = [&] {
    TcpFlow flow;
    TcpSegment segment;
    EXPECT_EQ(parse_tcp(hosts_.frames.back(), flow, segment), TcpFrameKind::kTcp);
    return segment;
  };
  uint32_t seq = 1000;
  for (int round = 0; round < 3; ++round) {
    come(good_, kTcpSyn, seq, 0);
    const uint32_t theirs = answer().seq + 1;
    EXPECT_TRUE(answer().has(kTcpSyn));
    come(good_, kTcpAck, seq + 1, theirs);
    const ConnectionId id = host().connection_count();
    EXPECT_EQ(id, 1u);
    come(good_, kTcpAck, seq + 1, theirs, "x");
    host().drop(static_cast<ConnectionId>(round + 1));
    come(good_, kTcpAck | kTcpFin, seq + 2, theirs + 6);
    EXPECT_EQ(host().tcp_connections(), 1u) << "it is in TIME_WAIT";
    come(good_, kTcpSyn, seq, 0);  // an old one
    EXPECT_FALSE(answer().has(kTcpSyn));
    seq += 5000;
  }
}

}  // namespace
}  // namespace understudy
