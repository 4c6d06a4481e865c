// Endpoints that talk to a client's program: rping's server, a traffic source, messages of control.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "dataplane/node/message_pipe.h"
#include "dataplane/node/rping_server.h"
#include "dataplane/node/traffic_source.h"

namespace understudy {
namespace {

class FakeHost : public EndpointHost {
 public:
  bool post(Time, Qp&, const WorkRequest& request) override {
    if (posted.size() - taken == room) return false;
    posted.push_back(request);
    return true;
  }
  void wake_at(Time, Endpoint&, uint64_t) override { FAIL() << "they need no time"; }
  Duration arrival_uncertainty() const override { return Duration(); }
  void tell(Time, const Qp&, NoticeKind, std::span<const uint8_t>) override {}
  const WorkRequest& last() const { return posted.back(); }

  std::vector<WorkRequest> posted;
  size_t taken = 0;  ///< completed, as far as the send queue's room goes
  size_t room = 1000;
};

class Clients : public testing::Test {
 protected:
  Clients() : regions(1), qp(QpConfig{}, regions, counters, nobody) {}
  void attach(Endpoint& endpoint) { endpoint.attach(host); }

  class Nobody : public Endpoint {
    void on_received(Time, Qp&, const Received&) override {}
    void on_completed(Time, Qp&, uint64_t, WorkStatus) override {}
  };
  FakeHost host;
  Nobody nobody;
  RcCounters counters{};
  RegionTable regions;
  Qp qp;
};

/// An rping client's SEND.
void say(std::vector<uint8_t>& buffer, uint64_t address, uint32_t rkey, uint32_t length) {
  buffer.clear();
  for (int shift = 56; shift >= 0; shift -= 8)
    buffer.push_back(static_cast<uint8_t>(address >> shift));
  for (int shift = 24; shift >= 0; shift -= 8)
    buffer.push_back(static_cast<uint8_t>(rkey >> shift));
  for (int shift = 24; shift >= 0; shift -= 8)
    buffer.push_back(static_cast<uint8_t>(length >> shift));
}

Received received(uint32_t length) {
  Received r;
  r.length = length;
  return r;
}

TEST_F(Clients, RpingReadsTheTextAndWritesItBack) {
  std::vector<uint8_t> message(16), text(100);
  RpingServer server(message, text);
  attach(server);
  for (int ping = 0; ping < 3; ++ping) {
    say(message, 0x123456789a, 0x11, 60);
    server.on_received(Time(), qp, received(16));
    EXPECT_EQ(host.last().op, WorkOp::kRead);
    EXPECT_EQ(host.last().remote_va, 0x123456789au);
    EXPECT_EQ(host.last().rkey, 0x11u);
    EXPECT_EQ(host.last().length, 60u);
    EXPECT_EQ(host.last().read_to, text.data());
    server.on_completed(Time(), qp, host.last().id, WorkStatus::kSuccess);
    EXPECT_EQ(host.last().op, WorkOp::kSend);
    EXPECT_EQ(host.last().length, 16u);
    const size_t posts = host.posted.size();
    server.on_completed(Time(), qp, host.last().id, WorkStatus::kSuccess);
    EXPECT_EQ(host.posted.size(), posts) << "the SEND's own completion says nothing";

    say(message, 0xabcdef, 0x22, 60);
    server.on_received(Time(), qp, received(16));
    EXPECT_EQ(host.last().op, WorkOp::kWrite);
    EXPECT_EQ(host.last().remote_va, 0xabcdefu);
    EXPECT_EQ(host.last().rkey, 0x22u);
    EXPECT_EQ(host.last().length, 60u);
    EXPECT_EQ(host.last().payload.bytes, text.data());
    server.on_completed(Time(), qp, host.last().id, WorkStatus::kSuccess);
    EXPECT_EQ(host.last().op, WorkOp::kSend);
  }
}

TEST_F(Clients, RpingAnswersNothingThatIsNoPing) {
  std::vector<uint8_t> message(16), text(100);
  RpingServer server(message, text);
  attach(server);
  say(message, 1, 2, 101);  // longer than the room for it
  server.on_received(Time(), qp, received(16));
  say(message, 1, 2, 100);
  server.on_received(Time(), qp, received(12));
  EXPECT_TRUE(host.posted.empty());
  server.on_received(Time(), qp, received(16));
  EXPECT_EQ(host.posted.size(), 1u);
  server.on_received(Time(), qp, received(16));
  EXPECT_EQ(host.posted.size(), 1u) << "a second one while the text is being read";
  server.on_completed(Time(), qp, host.last().id, WorkStatus::kRemoteAccess);
  EXPECT_EQ(host.posted.size(), 1u) << "no answer to a text that could not be read";
}

TEST_F(Clients, RpingWritesNoMoreThanItHasRead) {
  std::vector<uint8_t> message(16), text(100);
  RpingServer server(message, text);
  attach(server);
  say(message, 1, 2, 10);
  server.on_received(Time(), qp, received(16));
  server.on_completed(Time(), qp, host.last().id, WorkStatus::kSuccess);
  say(message, 1, 2, 1000);
  server.on_received(Time(), qp, received(16));
  EXPECT_EQ(host.last().length, 10u);
}

TEST_F(Clients, TrafficKeepsItsWindowFullUntilTheCount) {
  TrafficProgress progress;
  TrafficSource source({WorkOp::kWrite, 4096, 10, 3}, progress);
  attach(source);
  source.set_qp(qp);
  const RemoteBuffer remote{0x1000, 7, 0};
  source.on_wake(Time::zero() + Duration::us(5), reinterpret_cast<uint64_t>(&remote));
  for (size_t done = 0; done < 10; ++done) {
    EXPECT_EQ(host.posted.size(), std::min<size_t>(done + 3, 10));
    EXPECT_FALSE(progress.ended);
    source.on_completed(Time::zero() + Duration::us(6), qp, 0, WorkStatus::kSuccess);
  }
  EXPECT_TRUE(progress.ended);
  EXPECT_EQ(progress.completed, 10u);
  EXPECT_EQ(progress.last - progress.first, Duration::us(1));
  EXPECT_EQ(progress.status, WorkStatus::kSuccess);
  EXPECT_EQ(host.last().remote_va, 0x1000u);
  EXPECT_EQ(host.last().rkey, 7u);
  EXPECT_EQ(host.last().length, 4096u);
}

TEST_F(Clients, TrafficEndsAtItsFirstFailure) {
  TrafficProgress progress;
  TrafficSource source({WorkOp::kSend, 64, 10, 4}, progress);
  attach(source);
  source.set_qp(qp);
  const RemoteBuffer remote;
  source.on_wake(Time(), reinterpret_cast<uint64_t>(&remote));
  source.on_completed(Time(), qp, 0, WorkStatus::kSuccess);
  source.on_completed(Time(), qp, 0, WorkStatus::kRetryExceeded);
  for (int i = 0; i < 3; ++i) source.on_completed(Time(), qp, 0, WorkStatus::kFlushed);
  EXPECT_TRUE(progress.ended);
  EXPECT_EQ(progress.status, WorkStatus::kRetryExceeded);
  EXPECT_EQ(progress.completed, 1u);
  EXPECT_EQ(host.posted.size(), 5u);
}

TEST_F(Clients, TrafficWaitsWhereTheSendQueueIsFull) {
  TrafficProgress progress;
  TrafficSource source({WorkOp::kWrite, 64, 4, 4}, progress);
  attach(source);
  source.set_qp(qp);
  host.room = 2;
  const RemoteBuffer remote;
  source.on_wake(Time(), reinterpret_cast<uint64_t>(&remote));
  EXPECT_EQ(host.posted.size(), 2u);
  for (int i = 0; i < 4; ++i) {
    ++host.taken;
    source.on_completed(Time(), qp, 0, WorkStatus::kSuccess);
  }
  EXPECT_EQ(host.posted.size(), 4u);
  EXPECT_TRUE(progress.ended);
}

MessagePipe::Message message_of(const std::string& text) {
  MessagePipe::Message m;
  m.length = static_cast<uint32_t>(text.size());
  std::copy(text.begin(), text.end(), m.bytes.begin());
  return m;
}

std::string posted_text(const WorkRequest& request) {
  std::string text(request.length, '\0');
  request.payload.write({reinterpret_cast<uint8_t*>(text.data()), text.size()});
  return text;
}

TEST_F(Clients, PipeCarriesMessagesBothWays) {
  std::vector<uint8_t> buffer(MessagePipe::kMostBytes);
  MessagePipe pipe(buffer);
  attach(pipe);
  pipe.set_qp(qp);
  MessagePipe::Message message;
  EXPECT_FALSE(pipe.from_client().pop(message));
  for (const std::string text : {"one", "", "three"}) {
    std::copy(text.begin(), text.end(), buffer.begin());
    pipe.on_received(Time(), qp, received(static_cast<uint32_t>(text.size())));
  }
  for (const std::string text : {"one", "", "three"}) {
    ASSERT_TRUE(pipe.from_client().pop(message));
    EXPECT_EQ(std::string(message.bytes.begin(), message.bytes.begin() + message.length), text);
  }
  ASSERT_TRUE(pipe.send(message_of("hello")));
  ASSERT_TRUE(pipe.send(message_of("again")));
  pipe.on_wake(Time(), 0);
  ASSERT_EQ(host.posted.size(), 2u);
  EXPECT_EQ(posted_text(host.posted[0]), "hello");
  EXPECT_EQ(posted_text(host.posted[1]), "again");
  EXPECT_EQ(pipe.acknowledged(), 0u);
  pipe.on_completed(Time(), qp, 0, WorkStatus::kSuccess);
  EXPECT_EQ(pipe.acknowledged(), 1u);
  EXPECT_FALSE(pipe.failed());
}

TEST_F(Clients, PipeKeepsWhatIsUnderWayUntilItIsAcknowledged) {
  std::vector<uint8_t> buffer(MessagePipe::kMostBytes);
  MessagePipe pipe(buffer);
  attach(pipe);
  pipe.set_qp(qp);
  size_t sent = 0;
  for (; sent < 8; ++sent) ASSERT_TRUE(pipe.send(message_of(std::to_string(sent))));
  pipe.on_wake(Time(), 0);
  for (; sent < 16; ++sent) ASSERT_TRUE(pipe.send(message_of(std::to_string(sent))));
  EXPECT_FALSE(pipe.send(message_of("no room")));
  pipe.on_wake(Time(), 0);
  ASSERT_EQ(host.posted.size(), 8u);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(posted_text(host.posted[i]), std::to_string(i));
  for (size_t i = 0; i < 8; ++i) {
    pipe.on_completed(Time(), qp, 0, WorkStatus::kSuccess);
    ASSERT_EQ(host.posted.size(), 9 + i);
    EXPECT_EQ(posted_text(host.posted[8 + i]), std::to_string(8 + i));
  }
}

TEST_F(Clients, PipeFailsWithItsConnectionAndWithAClientThatFloods) {
  std::vector<uint8_t> buffer(MessagePipe::kMostBytes);
  MessagePipe broken(buffer), flooded(buffer);
  attach(broken);
  broken.on_completed(Time(), qp, 0, WorkStatus::kFlushed);
  EXPECT_TRUE(broken.failed());
  for (int i = 0; i < 8; ++i) flooded.on_received(Time(), qp, received(4));
  EXPECT_FALSE(flooded.failed());
  flooded.on_received(Time(), qp, received(4));
  EXPECT_TRUE(flooded.failed());
}

}  // namespace
}  // namespace understudy
