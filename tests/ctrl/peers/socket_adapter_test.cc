// The epoll adapter with real sockets on the loopback device and machines that are simple to judge.
#include "ctrl/peers/socket_adapter.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "ctrl/peers/services/service_peer.h"
#include "tests/ctrl/peers/recording.h"

namespace understudy {
namespace {

/// Asks for a queue pair whose remote QPN is the first byte; says "ok" when it has it. "big" makes
/// it answer eight megabytes and finish.
class TestPeer : public Peer {
 public:
  void on_bytes(Time, std::span<const uint8_t> bytes) override {
    if (bytes[0] == 'b') {
      output_.assign(8 << 20, 'x');
      finished_ = true;
      return;
    }
    for (const uint8_t byte : bytes) {
      EndpointRequest request;
      request.remote_qpn = byte;
      requests_.push_back(request);
    }
  }
  void on_endpoint(Time, const EndpointReady& ready) override {
    output_.push_back(static_cast<uint8_t>(ready.qpn));
  }
  void on_closed(Time) override {
    finished_ = true;
    failure_ = "left";
  }
};

class SocketAdapterTest : public testing::Test {
 protected:
  SocketAdapterTest() {
    SocketAdapter::Callbacks callbacks;
    callbacks.now = [] { return Time(); };
    callbacks.endpoint = [this](NodeId node, ConnectionId id, const EndpointRequest& wish) {
      on_wish_(node, id, wish);
    };
    callbacks.start = [this](const EndpointStart& start) { started_.push_back(start.qpn); };
    callbacks.ended = [this](const EndedConnection& ended) { ended_.push_back(ended); };
    callbacks.listen = [](const IpAddress&, uint16_t port) { return loopback(port, true); };
    callbacks.listen_at = [](const IpAddress&, uint16_t port) { return loopback(port, true); };
    callbacks.connect = [](const IpAddress&, const IpAddress&, uint16_t port) {
      return loopback(port, false);
    };
    adapter_ = std::make_unique<SocketAdapter>(SocketAdapter::create(callbacks).value());
  }

  /// A socket that listens on a port of the loopback address, or is connecting to it.
  static Result<int> loopback(uint16_t port, bool listens) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const auto* at = reinterpret_cast<const sockaddr*>(&address);
    const bool good = listens ? bind(fd, at, sizeof address) == 0 && listen(fd, 16) == 0
                              : connect(fd, at, sizeof address) == 0 || errno == EINPROGRESS;
    if (good) return fd;
    close(fd);
    return fail("no socket");
  }
  static uint16_t free_port() {
    const UniqueFd listener(loopback(0, true).value());
    sockaddr_in address{};
    socklen_t size = sizeof address;
    getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.sin_port);
  }
  /// Listens on a port of the loopback address for `node`.
  void listen_for(NodeId node, SocketAdapter::PeerFactory factory) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
    ASSERT_EQ(listen(fd, 16), 0);
    ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
    addresses_[node] = address;
    ASSERT_TRUE(
        adapter_->add_listener(fd, node, [factory](const AcceptedConnection&) { return factory(); })
            .has_value());
  }
  UniqueFd dial(NodeId node) {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto* address = reinterpret_cast<const sockaddr*>(&addresses_[node]);
    EXPECT_EQ(connect(fd.get(), address, sizeof(sockaddr_in)), 0);
    return fd;
  }
  static void say(const UniqueFd& fd, const std::string& text) {
    ASSERT_EQ(send(fd.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }
  /// Polls until `done`; false after ten seconds.
  template <typename Done>
  bool poll_until(Done done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      adapter_->poll(1);
    }
    return true;
  }
  /// What has come for the client so far, without waiting.
  static std::string heard(const UniqueFd& fd) {
    std::string text(1 << 16, 0);
    const ssize_t got = recv(fd.get(), text.data(), text.size(), MSG_DONTWAIT);
    text.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return text;
  }

  /// Dials and says what the recorded client said, waiting for an answer of the size it expects.
  void play(NodeId node, const std::string& recording) {
    const UniqueFd client = dial(node);
    for (const RecordedWrite& write : load_recording(recording)) {
      if (!write.from_client) continue;
      say(client, std::string(write.bytes.begin(), write.bytes.end()));
      if (write.bytes.size() == 5) return;  // "done" has no answer
      size_t got = 0;
      ASSERT_TRUE(poll_until([&] { return (got += heard(client).size()) >= write.bytes.size(); }));
      EXPECT_EQ(got, write.bytes.size());
    }
  }

  struct Wish {
    NodeId node;
    ConnectionId id;
    Qpn qpn;
  };
  std::vector<Wish> wishes_;
  std::function<void(NodeId, ConnectionId, const EndpointRequest&)> on_wish_ =
      [this](NodeId node, ConnectionId id, const EndpointRequest& wish) {
        wishes_.push_back({node, id, wish.remote_qpn});
      };
  std::vector<Qpn> started_;
  std::vector<EndedConnection> ended_;
  std::map<NodeId, sockaddr_in> addresses_;
  std::unique_ptr<SocketAdapter> adapter_;
};

TEST_F(SocketAdapterTest, CallsItself) {
  const IpAddress loopback = IpAddress::v4(INADDR_LOOPBACK);
  AcceptedConnection came;
  const auto port = adapter_->listen(IpAddress::v4(0), 0, [&](const AcceptedConnection& accepted) {
    came = accepted;
    return std::make_unique<TestPeer>();
  });
  ASSERT_TRUE(port);
  const auto call = adapter_->call(loopback, {loopback, *port}, std::make_unique<TestPeer>());
  ASSERT_TRUE(call);
  ASSERT_TRUE(poll_until([&] { return came.id != 0; }));
  EXPECT_EQ(came.local, loopback);
  EXPECT_EQ(came.local_port, *port);
  EXPECT_EQ(adapter_->connection_count(), 2u);
  adapter_->drop(*call);
  ASSERT_TRUE(poll_until([&] { return !ended_.empty(); }));
  EXPECT_EQ(ended_.size(), 1u) << "one of a connection that was dropped";
  EXPECT_EQ(ended_[0].id, came.id);
  EXPECT_EQ(adapter_->connection_count(), 0u);
}

TEST_F(SocketAdapterTest, BothEndsBelongToTheirNodes) {
  const IpAddress loopback = IpAddress::v4(INADDR_LOOPBACK);
  const SocketAddress at{loopback, free_port()};
  ASSERT_TRUE(adapter_->listen_at(at, 6, [] { return std::make_unique<TestPeer>(); }));
  EXPECT_FALSE(adapter_->listen_at(at, 6, [] { return std::make_unique<TestPeer>(); }));
  const auto call = adapter_->call_for(5, loopback, at, std::make_unique<TestPeer>());
  ASSERT_TRUE(call);
  ASSERT_TRUE(poll_until([&] { return adapter_->connection_count() == 2; }));
  EXPECT_TRUE(adapter_->endpoint_refused(*call, "enough"));
  ASSERT_TRUE(poll_until([&] { return ended_.size() == 2; }));
  EXPECT_EQ(ended_[0].node, 5u);
  EXPECT_EQ(ended_[0].failure, "enough");
  EXPECT_TRUE(ended_[0].dialled);
  EXPECT_EQ(ended_[1].node, 6u);
  EXPECT_EQ(ended_[1].failure, "left");
}

TEST_F(SocketAdapterTest, SaysWhoRefusesACall) {
  const IpAddress loopback = IpAddress::v4(INADDR_LOOPBACK);
  const uint16_t free = free_port();
  const auto call = adapter_->call(loopback, {loopback, free}, std::make_unique<TestPeer>());
  ASSERT_TRUE(call);
  ASSERT_TRUE(poll_until([&] { return !ended_.empty(); }));
  EXPECT_EQ(ended_[0].id, *call);
  EXPECT_FALSE(ended_[0].connected);
  EXPECT_TRUE(ended_[0].refused);
  EXPECT_EQ(ended_[0].failure, "Connection refused");
}

TEST_F(SocketAdapterTest, SeveralConnectionsKeepApart) {
  for (const NodeId node : {3u, 4u}) listen_for(node, [] { return std::make_unique<TestPeer>(); });
  const UniqueFd a = dial(3), b = dial(4), c = dial(3);
  say(a, "A");
  say(b, "B");
  say(c, "CD");
  ASSERT_TRUE(poll_until([&] { return wishes_.size() == 4; }));
  EXPECT_EQ(adapter_->connection_count(), 3u);
  // Answered later and in another order than asked.
  for (size_t i = wishes_.size(); i-- > 0;) {
    EXPECT_EQ(wishes_[i].node, wishes_[i].qpn == 'B' ? 4u : 3u);
  }
  for (const Qpn qpn : {0x42u, 0x43u, 0x41u, 0x44u}) {  // B, C, A, D
    for (const Wish& wish : wishes_) {
      if (wish.qpn == qpn) {
        EXPECT_TRUE(adapter_->endpoint_ready(wish.id, {qpn + 32, {}, 0, 0}));
      }
    }
  }
  std::string from_a, from_b, from_c;
  EXPECT_TRUE(poll_until([&] {
    from_a += heard(a);
    from_b += heard(b);
    from_c += heard(c);
    return from_a.size() + from_b.size() + from_c.size() == 4;
  }));
  EXPECT_EQ(from_a + "," + from_b + "," + from_c, "a,b,cd");
  EXPECT_TRUE(ended_.empty());
}

TEST_F(SocketAdapterTest, AnswerFromWithinTheCallback) {
  listen_for(1, [] { return std::make_unique<TestPeer>(); });
  on_wish_ = [this](NodeId, ConnectionId id, const EndpointRequest& wish) {
    EXPECT_TRUE(adapter_->endpoint_ready(id, {wish.remote_qpn, {}, 0, 0}));
  };
  const UniqueFd client = dial(1);
  say(client, "xyz");
  std::string text;
  EXPECT_TRUE(poll_until([&] { return (text += heard(client)).size() == 3; }));
  EXPECT_EQ(text, "xyz");
}

TEST_F(SocketAdapterTest, ClientThatLeavesIsReportedAndItsAnswerGoesNowhere) {
  listen_for(1, [] { return std::make_unique<TestPeer>(); });
  {
    const UniqueFd client = dial(1);
    say(client, "q");
    ASSERT_TRUE(poll_until([&] { return wishes_.size() == 1; }));
  }
  ASSERT_TRUE(poll_until([&] { return ended_.size() == 1; }));
  EXPECT_EQ(ended_[0].node, 1u);
  EXPECT_EQ(ended_[0].id, wishes_[0].id);
  EXPECT_EQ(ended_[0].port, ntohs(addresses_[1].sin_port));
  EXPECT_EQ(ended_[0].client, *IpAddress::parse("127.0.0.1"));
  EXPECT_EQ(ended_[0].failure, "left");
  EXPECT_FALSE(ended_[0].keep_endpoints);
  EXPECT_EQ(adapter_->connection_count(), 0u);
  EXPECT_FALSE(adapter_->endpoint_ready(wishes_[0].id, {}));
}

TEST_F(SocketAdapterTest, RefusalEndsTheConnection) {
  listen_for(1, [] { return std::make_unique<TestPeer>(); });
  const UniqueFd client = dial(1);
  say(client, "q");
  ASSERT_TRUE(poll_until([&] { return wishes_.size() == 1; }));
  EXPECT_TRUE(adapter_->endpoint_refused(wishes_[0].id, "no such real node"));
  ASSERT_TRUE(poll_until([&] { return ended_.size() == 1; }));
  EXPECT_EQ(ended_[0].failure, "no such real node");
  char byte;
  EXPECT_EQ(recv(client.get(), &byte, 1, 0), 0);  // closed
}

TEST_F(SocketAdapterTest, OutputThatDoesNotFitIsSentAsTheClientReads) {
  listen_for(1, [] { return std::make_unique<TestPeer>(); });
  const UniqueFd client = dial(1);
  say(client, "big");
  for (int i = 0; i < 50; ++i) adapter_->poll(1);
  EXPECT_TRUE(ended_.empty());  // finished, but not all is out
  EXPECT_EQ(adapter_->connection_count(), 1u);
  size_t total = 0;
  EXPECT_TRUE(poll_until([&] {
    for (size_t got; (got = heard(client).size()) > 0;) total += got;
    return !ended_.empty();
  }));
  for (size_t got; (got = heard(client).size()) > 0;) total += got;
  EXPECT_EQ(total, size_t{8} << 20);
  EXPECT_EQ(ended_[0].failure, "");
}

TEST_F(SocketAdapterTest, RecordedClientsOfBothPrograms) {
  listen_for(8, [] { return std::make_unique<ServicePeer>(recorded_service(ServiceKind::kAuto)); });
  listen_for(
      9, [] { return std::make_unique<ServicePeer>(recorded_service(ServiceKind::kWriteLat)); });
  on_wish_ = [this](NodeId node, ConnectionId id, const EndpointRequest&) {
    EXPECT_TRUE(adapter_->endpoint_ready(id, {0x40000 + node, Psn(5), 0x1000, 7}));
  };
  play(8, "pingpong");
  play(8, "write_bw");
  EXPECT_TRUE(started_.empty());
  play(9, "write_lat");
  ASSERT_TRUE(poll_until([&] { return ended_.size() == 3; }));
  EXPECT_EQ(ended_[0].failure + ended_[1].failure + ended_[2].failure, "");
  EXPECT_TRUE(ended_[0].keep_endpoints);  // pingpong's test starts only now
  EXPECT_FALSE(ended_[1].keep_endpoints);
  EXPECT_EQ(started_, std::vector<Qpn>{0x40009});
}

}  // namespace
}  // namespace understudy
