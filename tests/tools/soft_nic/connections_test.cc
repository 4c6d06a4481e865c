// RDMA-CM from several threads of a program, in real time: connections of a process with itself are
// made and ended while others are, events are taken by whoever comes first, and calls that wait get
// theirs. Made for the thread sanitizer.
#include "tools/soft_nic/rdma_cm/connections.h"
#include "tests/tools/soft_nic/dead_end.h"
#include "tools/soft_nic/base/monotonic.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "tools/soft_nic/device/context.h"
#include "tools/soft_nic/device/driver.h"

namespace understudy::soft_nic {
namespace {

class SoftNicConnections : public testing::Test {
 protected:
  static constexpr uint32_t kAddress = 0x0a080001;
  static Interface interface() {
    Interface made;
    made.addresses = {{IpAddress::v4(kAddress), 32}, {own_v6(), 128}};
    made.mtu = 4200;
    return made;
  }
  static IpAddress own_v6() { return *IpAddress::parse("fd00:8::1"); }
  /// Any IPv6 address, or one.
  static sockaddr_in6 v6_address(const IpAddress& address) {
    sockaddr_in6 at{};
    at.sin6_family = AF_INET6;
    std::memcpy(at.sin6_addr.s6_addr, address.data(), sizeof at.sin6_addr);
    at.sin6_port = htons(own_port());
    return at;
  }
  /// To a listener at the IPv6 address.
  static bool connects_by_v6(rdma_cm_id* id) {
    sockaddr_in6 at = v6_address(own_v6());
    EXPECT_EQ(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&at), 1000), 0);
    EXPECT_EQ(rdma_resolve_route(id, 1000), 0);
    EXPECT_TRUE(make_qp(id));
    return rdma_connect(id, nullptr) == 0;
  }
  /// Other processes may run the same test: services are claimed.
  static uint16_t own_port() { return static_cast<uint16_t>(20'000 + getpid() % 20'000); }
  static sockaddr_in own_address() {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(kAddress);
    at.sin_port = htons(own_port());
    return at;
  }
  rdma_cm_id* make(rdma_event_channel* channel, rdma_port_space space = RDMA_PS_TCP) {
    Id* id = nullptr;
    EXPECT_EQ(all_.make(channel, space, id), 0);
    return &id->ibv;
  }
  rdma_cm_id* listen(rdma_event_channel* channel, rdma_port_space space = RDMA_PS_TCP) {
    rdma_cm_id* id = make(channel, space);
    sockaddr_in at = own_address();
    EXPECT_EQ(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&at)), 0);
    EXPECT_EQ(rdma_listen(id, 0), 0);
    return id;
  }
  static int resolve(rdma_cm_id* id) {
    sockaddr_in at = own_address();
    return rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&at), 1000);
  }
  static bool make_qp(rdma_cm_id* id) {
    ibv_qp_init_attr attr{};
    attr.cap = {4, 4, 1, 1, 16};
    attr.qp_type = id->qp_type;
    attr.sq_sig_all = 1;
    return rdma_create_qp(id, nullptr, &attr) == 0;
  }
  static void remove(rdma_cm_id* id) {
    rdma_destroy_qp(id);
    EXPECT_EQ(rdma_destroy_id(id), 0);
  }

  void TearDown() override {
    EXPECT_EQ(ibv_dealloc_pd(all_.domain()), 0);
    EXPECT_EQ(ibv_close_device(all_.context()), 0);
  }

  Nic nic_{interface(), 64, Nic::kQueuePairs, std::make_unique<DeadEnd>(), monotonic_now};
  Connections all_{nic_, open_context(nic_, nullptr)};
  Driver driver_{nic_};
};

/// Takes an event of this type, or ends the test.
rdma_cm_event take(rdma_event_channel& channel, rdma_cm_event_type type) {
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(rdma_get_cm_event(&channel, &event), 0);
  EXPECT_EQ(event->event, type) << rdma_event_str(event->event);
  const rdma_cm_event copy = *event;
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
  return copy;
}

TEST_F(SoftNicConnections, AreMadeAndEndedByManyThreadsAtOnce) {
  constexpr int kClients = 4, kServers = 3, kTimes = 20;
  EventChannel requests;
  rdma_cm_id* listener = listen(&requests.ibv);
  std::atomic<int> ended{0};
  const auto serve = [&] {
    while (ended < kClients * kTimes) {
      pollfd fd{requests.ibv.fd, POLLIN, 0};
      rdma_cm_event* event = nullptr;
      if (poll(&fd, 1, 10) != 1 || rdma_get_cm_event(&requests.ibv, &event) != 0) continue;
      rdma_cm_id* id = event->id;
      const rdma_cm_event_type type = event->event;
      if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        EXPECT_TRUE(make_qp(id));
        EXPECT_EQ(rdma_accept(id, nullptr), 0);
      }
      EXPECT_EQ(rdma_ack_cm_event(event), 0);
      if (type == RDMA_CM_EVENT_DISCONNECTED) {
        rdma_disconnect(id);
        remove(id);
        ++ended;
      }
    }
  };
  const auto ask = [&] {
    EventChannel own;
    for (int i = 0; i < kTimes; ++i) {
      rdma_cm_id* id = make(&own.ibv);
      EXPECT_EQ(resolve(id), 0);
      take(own.ibv, RDMA_CM_EVENT_ADDR_RESOLVED);
      EXPECT_EQ(rdma_resolve_route(id, 1000), 0);
      take(own.ibv, RDMA_CM_EVENT_ROUTE_RESOLVED);
      EXPECT_TRUE(make_qp(id));
      EXPECT_EQ(rdma_connect(id, nullptr), 0);
      take(own.ibv, RDMA_CM_EVENT_ESTABLISHED);
      EXPECT_EQ(rdma_disconnect(id), 0);
      take(own.ibv, RDMA_CM_EVENT_DISCONNECTED);
      remove(id);
    }
  };
  std::vector<std::thread> servers, clients;
  // One thread at a time reads the channel: without O_NONBLOCK the others would wait in it for
  // ever.
  fcntl(requests.ibv.fd, F_SETFL, O_NONBLOCK);
  for (int i = 0; i < kServers; ++i) servers.emplace_back(serve);
  for (int i = 0; i < kClients; ++i) clients.emplace_back(ask);
  for (std::thread& thread : clients) thread.join();
  for (std::thread& thread : servers) thread.join();
  EXPECT_EQ(ended, kClients * kTimes);
  EXPECT_EQ(rdma_destroy_id(listener), 0);
}

TEST_F(SoftNicConnections, CallsOfAnIdWithoutAChannelWait) {
  rdma_cm_id* listener = listen(nullptr);
  char got[16] = {};
  std::thread server([&] {
    rdma_cm_id* id = nullptr;
    ASSERT_EQ(rdma_get_request(listener, &id), 0);
    ASSERT_TRUE(make_qp(id));
    ibv_mr* mr = rdma_reg_msgs(id, got, sizeof got);
    EXPECT_EQ(rdma_post_recv(id, nullptr, got, sizeof got, mr), 0);
    EXPECT_EQ(rdma_accept(id, nullptr), 0);
    ibv_wc wc{};
    EXPECT_EQ(rdma_get_recv_comp(id, &wc), 1);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(rdma_disconnect(id), 0);
    EXPECT_EQ(rdma_dereg_mr(mr), 0);
    remove(id);
  });
  rdma_cm_id* id = make(nullptr);
  ASSERT_EQ(resolve(id), 0);
  ASSERT_EQ(rdma_resolve_route(id, 1000), 0);
  ASSERT_TRUE(make_qp(id));
  ASSERT_EQ(rdma_connect(id, nullptr), 0);
  char text[16] = "waited";
  EXPECT_EQ(rdma_post_send(id, nullptr, text, sizeof text, nullptr, IBV_SEND_INLINE), 0);
  ibv_wc wc{};
  EXPECT_EQ(rdma_get_send_comp(id, &wc), 1);
  EXPECT_EQ(rdma_disconnect(id), 0);
  server.join();
  EXPECT_STREQ(got, "waited");
  remove(id);
  EXPECT_EQ(rdma_destroy_id(listener), 0);
}

TEST_F(SoftNicConnections, AListenerAtAnyIpv6AddressHearsBothFamilies) {
  for (const bool only_v6 : {false, true}) {
    rdma_cm_id* listener = make(nullptr);
    int on = only_v6 ? 1 : 0;
    EXPECT_EQ(rdma_set_option(listener, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof on), 0);
    sockaddr_in6 any = v6_address(IpAddress());
    ASSERT_EQ(rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&any)), 0);
    ASSERT_EQ(rdma_listen(listener, 0), 0);
    std::thread server([&] {
      for (int i = 0; i < (only_v6 ? 1 : 2); ++i) {
        rdma_cm_id* id = nullptr;
        ASSERT_EQ(rdma_get_request(listener, &id), 0);
        EXPECT_EQ(id->route.addr.src_addr.sa_family, i == 0 ? AF_INET6 : AF_INET);
        EXPECT_EQ(id->route.addr.dst_addr.sa_family, i == 0 ? AF_INET6 : AF_INET);
        ASSERT_TRUE(make_qp(id));
        EXPECT_EQ(rdma_accept(id, nullptr), 0);
        EXPECT_EQ(rdma_disconnect(id), 0);
        remove(id);
      }
    });
    rdma_cm_id* id = make(nullptr);
    EXPECT_TRUE(connects_by_v6(id));
    ibv_qp_attr attr{};
    ibv_qp_init_attr made{};
    EXPECT_EQ(ibv_query_qp(id->qp, &attr, IBV_QP_AV, &made), 0);
    EXPECT_EQ(attr.ah_attr.grh.sgid_index, 1);
    EXPECT_EQ(rdma_disconnect(id), 0);
    remove(id);
    id = make(nullptr);
    ASSERT_EQ(resolve(id), 0);
    ASSERT_EQ(rdma_resolve_route(id, 1000), 0);
    ASSERT_TRUE(make_qp(id));
    if (only_v6) {
      EXPECT_EQ(rdma_connect(id, nullptr), -1);
      EXPECT_EQ(errno, ECONNREFUSED);
    } else {
      EXPECT_EQ(rdma_connect(id, nullptr), 0);
      EXPECT_EQ(rdma_disconnect(id), 0);
    }
    server.join();
    remove(id);
    EXPECT_EQ(rdma_destroy_id(listener), 0);
  }
}

TEST_F(SoftNicConnections, TheSamePortOfTwoAddressesIsTwoListeners) {
  rdma_cm_id* v4 = listen(nullptr);
  rdma_cm_id* v6 = make(nullptr);
  sockaddr_in6 at = v6_address(own_v6());
  ASSERT_EQ(rdma_bind_addr(v6, reinterpret_cast<sockaddr*>(&at)), 0);
  EXPECT_EQ(rdma_listen(v6, 0), 0);
  rdma_cm_id* both = make(nullptr);
  sockaddr_in6 any = v6_address(IpAddress());
  ASSERT_EQ(rdma_bind_addr(both, reinterpret_cast<sockaddr*>(&any)), 0);
  EXPECT_EQ(rdma_listen(both, 0), -1);
  EXPECT_EQ(errno, EADDRINUSE);
  EXPECT_EQ(rdma_destroy_id(v4), 0);
  EXPECT_EQ(rdma_listen(both, 0), -1) << "the other one still has it";
  EXPECT_EQ(rdma_destroy_id(v6), 0);
  EXPECT_EQ(rdma_listen(both, 0), 0);
  EXPECT_EQ(rdma_destroy_id(both), 0);
  sockaddr_in6 other = v6_address(*IpAddress::parse("fd00:8::77"));
  rdma_cm_id* nobody = make(nullptr);
  EXPECT_EQ(rdma_bind_addr(nobody, reinterpret_cast<sockaddr*>(&other)), -1);
  EXPECT_EQ(errno, EADDRNOTAVAIL);
  EXPECT_EQ(rdma_destroy_id(nobody), 0);
}

/// What the server says in its reply holds, not what the client had asked for.
TEST_F(SoftNicConnections, AClientSendsAsManyReadsAsTheServerCanAnswer) {
  rdma_cm_id* listener = listen(nullptr);
  std::thread server([&] {
    rdma_cm_id* id = nullptr;
    ASSERT_EQ(rdma_get_request(listener, &id), 0);
    ASSERT_TRUE(make_qp(id));
    rdma_conn_param few{};
    few.responder_resources = 4;
    few.initiator_depth = 1;
    EXPECT_EQ(rdma_accept(id, &few), 0);
    EXPECT_EQ(rdma_disconnect(id), 0);
    remove(id);
  });
  rdma_cm_id* id = make(nullptr);
  ASSERT_EQ(resolve(id), 0);
  ASSERT_EQ(rdma_resolve_route(id, 1000), 0);
  ASSERT_TRUE(make_qp(id));
  rdma_conn_param many{};
  many.responder_resources = many.initiator_depth = 16;
  ASSERT_EQ(rdma_connect(id, &many), 0);
  ibv_qp_attr attr{};
  ibv_qp_init_attr made{};
  EXPECT_EQ(ibv_query_qp(id->qp, &attr, IBV_QP_MAX_QP_RD_ATOMIC, &made), 0);
  EXPECT_EQ(attr.max_rd_atomic, 4);
  EXPECT_EQ(attr.max_dest_rd_atomic, 1);
  EXPECT_EQ(rdma_disconnect(id), 0);
  server.join();
  remove(id);
  EXPECT_EQ(rdma_destroy_id(listener), 0);
}

TEST_F(SoftNicConnections, ACallThatWaitsSaysWhatWentWrong) {
  rdma_cm_id* id = make(nullptr);
  ASSERT_EQ(resolve(id), 0);
  ASSERT_EQ(rdma_resolve_route(id, 1000), 0);
  ASSERT_TRUE(make_qp(id));
  errno = 0;
  EXPECT_EQ(rdma_connect(id, nullptr), -1);  // nobody listens
  EXPECT_EQ(errno, ECONNREFUSED);
  remove(id);
  rdma_cm_id* datagrams = make(nullptr, RDMA_PS_UDP);
  ASSERT_EQ(resolve(datagrams), 0);
  ASSERT_EQ(rdma_resolve_route(datagrams, 1000), 0);
  errno = 0;
  EXPECT_EQ(rdma_connect(datagrams, nullptr), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
  remove(datagrams);
}

TEST_F(SoftNicConnections, ARequestMayComeBeforeItsService) {
  EventChannel own, requests;
  rdma_cm_id* id = make(&own.ibv);
  ASSERT_EQ(resolve(id), 0);
  take(own.ibv, RDMA_CM_EVENT_ADDR_RESOLVED);
  ASSERT_EQ(rdma_resolve_route(id, 1000), 0);
  take(own.ibv, RDMA_CM_EVENT_ROUTE_RESOLVED);
  ASSERT_TRUE(make_qp(id));
  ASSERT_EQ(rdma_connect(id, nullptr), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  rdma_cm_id* listener = listen(&requests.ibv);
  rdma_cm_id* asked = take(requests.ibv, RDMA_CM_EVENT_CONNECT_REQUEST).id;
  EXPECT_EQ(rdma_reject(asked, "no", 2), 0);
  EXPECT_EQ(rdma_destroy_id(asked), 0);
  take(own.ibv, RDMA_CM_EVENT_REJECTED);
  remove(id);
  EXPECT_EQ(rdma_destroy_id(listener), 0);
}

TEST_F(SoftNicConnections, DatagramsAreLookedUpByManyThreadsAtOnce) {
  constexpr int kClients = 4, kTimes = 20;
  EventChannel requests;
  rdma_cm_id* listener = listen(&requests.ibv, RDMA_PS_UDP);
  std::thread server([&] {
    for (int i = 0; i < kClients * kTimes; ++i) {
      const rdma_cm_event event = take(requests.ibv, RDMA_CM_EVENT_CONNECT_REQUEST);
      rdma_conn_param param{};
      param.qp_num = 0x1234;
      EXPECT_EQ(rdma_accept(event.id, &param), 0);
      EXPECT_EQ(rdma_destroy_id(event.id), 0);
    }
  });
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&] {
      for (int j = 0; j < kTimes; ++j) {
        rdma_cm_id* id = make(nullptr, RDMA_PS_UDP);
        EXPECT_EQ(resolve(id), 0);
        EXPECT_EQ(rdma_resolve_route(id, 1000), 0);
        EXPECT_EQ(rdma_connect(id, nullptr), 0);
        EXPECT_EQ(id->event->param.ud.qp_num, 0x1234U);
        EXPECT_EQ(id->event->param.ud.qkey, static_cast<uint32_t>(RDMA_UDP_QKEY));
        EXPECT_EQ(rdma_destroy_id(id), 0);
      }
    });
  }
  for (std::thread& thread : clients) thread.join();
  server.join();
  EXPECT_EQ(rdma_destroy_id(listener), 0);
}

TEST_F(SoftNicConnections, AServiceHasOneListener) {
  EventChannel channel;
  rdma_cm_id* first = listen(&channel.ibv);
  rdma_cm_id* second = make(&channel.ibv);
  sockaddr_in at = own_address();
  EXPECT_EQ(rdma_bind_addr(second, reinterpret_cast<sockaddr*>(&at)), 0);
  errno = 0;
  EXPECT_EQ(rdma_listen(second, 0), -1);
  EXPECT_EQ(errno, EADDRINUSE);
  EXPECT_EQ(rdma_destroy_id(first), 0);
  EXPECT_EQ(rdma_listen(second, 0), 0);
  EXPECT_EQ(rdma_destroy_id(second), 0);
}

TEST_F(SoftNicConnections, ThatAProgramLeavesBehindEndWithoutTheirChannels) {
  auto own = std::make_unique<EventChannel>(), requests = std::make_unique<EventChannel>();
  rdma_cm_id* listener = listen(&requests->ibv);
  rdma_cm_id* id = make(&own->ibv);
  ASSERT_EQ(resolve(id), 0);
  take(own->ibv, RDMA_CM_EVENT_ADDR_RESOLVED);
  ASSERT_EQ(rdma_resolve_route(id, 1000), 0);
  take(own->ibv, RDMA_CM_EVENT_ROUTE_RESOLVED);
  ASSERT_TRUE(make_qp(id));
  ASSERT_EQ(rdma_connect(id, nullptr), 0);
  rdma_cm_id* asked = take(requests->ibv, RDMA_CM_EVENT_CONNECT_REQUEST).id;
  ASSERT_TRUE(make_qp(asked));
  ASSERT_EQ(rdma_accept(asked, nullptr), 0);
  take(own->ibv, RDMA_CM_EVENT_ESTABLISHED);
  take(requests->ibv, RDMA_CM_EVENT_ESTABLISHED);
  own.reset();
  requests.reset();
  all_.leave();  // as at the end of a process; others' destructors may come later
  for (rdma_cm_id* left : {id, asked, listener}) {
    rdma_destroy_qp(left);
    delete &Id::of(left);
  }
}

TEST(SoftNicLeaving, WhoHasNoConnectionLeavesAtOnce) {
  // Its clock stands still: who waited would wait for ever.
  Nic nic({}, 64, Nic::kQueuePairs, std::make_unique<DeadEnd>(), [] { return Time::zero(); });
  Connections all(nic, open_context(nic, nullptr));
  all.leave();
  EXPECT_EQ(ibv_dealloc_pd(all.domain()), 0);
  EXPECT_EQ(ibv_close_device(all.context()), 0);
}

}  // namespace
}  // namespace understudy::soft_nic
