// NCCL's port failover and recovery (docs/nccl 3.15): both ends of a connection over two
// devices, one of which is cut at any moment. Work requests are carried by hand, so that each may
// come or not, and be heard of or not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "ctrl/peers/nccl/transport/net_ib_layout.h"
#include "dataplane/nccl/nccl_connection.h"

namespace understudy {
namespace {

constexpr uint64_t kFifo = 0x700000, kBuffer = 0x900000, kRecords = 0xa00000;
constexpr uint32_t kSlotBytes = 0x10000, kWindow = 8;

/// Both ends, and the two devices between them.
class Cables final : public EndpointHost {
 public:
  enum class Kind : uint8_t { kData, kProbing, kRecovery };
  struct Place {
    bool sender = false;  ///< whose queue pair it is
    Kind kind = Kind::kData;
    uint32_t number = 0;
    Qp* far = nullptr;
    Endpoint* owner = nullptr;
  };

  bool post(Time, Qp& qp, const WorkRequest& request) override {
    if (qp.state() == QpState::kError) return false;
    lines[&qp].push_back(request);
    return true;
  }
  bool modify(Time now, Qp& qp, QpState to) override {
    const bool can = qp.modify(now, to);
    if (to == QpState::kReset) lines[&qp].clear();
    if (to == QpState::kError) end(now, qp, WorkStatus::kFlushed);
    return can;
  }
  void wake_at(Time t, Endpoint& endpoint, uint64_t cookie) override {
    wakes.insert({t, {&endpoint, cookie}});
  }
  Duration arrival_uncertainty() const override { return Duration(); }
  void tell(Time, const Qp&, NoticeKind, std::span<const uint8_t>) override {}

  /// All work requests of a queue pair end so, the others behind the first flushed.
  void end(Time now, Qp& qp, WorkStatus status) {
    std::deque<WorkRequest> line = std::exchange(lines[&qp], {});
    for (const WorkRequest& request : line) {
      places[&qp].owner->on_completed(now, qp, request.id, status);
      status = WorkStatus::kFlushed;
    }
  }

  std::map<Qp*, Place> places;
  std::map<Qp*, std::deque<WorkRequest>> lines;
  std::multimap<Time, std::pair<Endpoint*, uint64_t>> wakes;
};

class Connection {
 public:
  Connection(uint32_t minor, const FailoverSettings& settings, uint64_t seed)
      : layout_(net_ib_layout({minor}).cts),
        fifo_(layout_.fifo_bytes()),
        staging_(size_t{layout_.slots} * layout_.entry_bytes),
        records_(CompletionRecords::kBytes),
        draw_(seed),
        ends_{End(*this, true), End(*this, false)} {
    for (const bool sender : {true, false}) {
      End& end = ends_[sender ? 0 : 1];
      PortFailover::Setup setup;
      setup.sends = sender;
      setup.devices = 2;
      setup.settings = settings;
      setup.endpoint = &end;
      setup.records_va = kRecords;
      setup.records_rkey = {7, 7};
      setup.counters = &counters_[sender ? 0 : 1];
      for (uint32_t d = 0; d < 2; ++d) {
        setup.data.push_back(make(sender, Cables::Kind::kData, d, end));
        setup.probing.push_back(make(sender, Cables::Kind::kProbing, d, end.failover));
        if (settings.recovery) {
          setup.recovery.push_back(make(sender, Cables::Kind::kRecovery, d, end.failover));
        }
      }
      NcclQps qps{setup.data, false, 2, {0, 1}};
      if (sender) {
        sender_.connect(
            {.qps = qps, .layout = layout_, .fifo = fifo_.data(), .failover = &end.failover});
      } else {
        receiver_.connect({.qps = qps,
                           .layout = layout_,
                           .fifo_va = kFifo,
                           .fifo_rkey = {1, 2},
                           .devices = 2,
                           .buffer_va = kBuffer,
                           .buffer_rkey = 2,
                           .slots = kWindow,
                           .slot_bytes = kSlotBytes,
                           .staging = staging_.data(),
                           .failover = &end.failover,
                           .records = records_.data()});
      }
      end.failover.attach(cables_);
      end.failover.connect(setup);
    }
    for (auto& [qp, place] : cables_.places) {
      for (auto& [other, far] : cables_.places) {
        if (far.sender != place.sender && far.kind == place.kind && far.number == place.number) {
          place.far = other;
        }
      }
    }
  }

  /// Until so many messages have come. `cut_at`: in carried work requests, when device 1 is cut.
  void run(uint64_t messages, uint64_t cut_at = ~uint64_t{0}) {
    for (uint64_t step = 0; arrived_ < messages || acknowledged_ < messages; ++step) {
      ASSERT_LT(step, 200'000u) << "it hangs: " << arrived_ << " arrived, " << acknowledged_
                                << " acknowledged";
      if (lost_) return;
      if (carried_ == cut_at) cut_ = true;
      while (receiver_.granted() < std::min(messages, used_ + kWindow)) {
        if (receiver_.grant(now_, cables_)) continue;
        ASSERT_TRUE(lost_);
        return;
      }
      while (sent_ < messages && sender_.has_credit(sent_)) {
        if (!sender_.send(now_, cables_, sent_, size_of(sent_), {}, 1000 + sent_)) break;
        ++sent_;
      }
      if (!carry()) pass_time();
      used_ = arrived_;
    }
  }
  /// Lets time go by: recoveries end.
  void rest(Duration time) {
    for (const Time until = now_ + time; now_ < until;) {
      if (!carry()) pass_time();
      if (cables_.wakes.empty() && !pending()) return;
    }
  }
  bool lost() const { return lost_; }
  const FailoverCounters& counters(bool sender) const { return counters_[sender ? 0 : 1]; }
  uint64_t over(uint32_t device) const { return over_[device]; }
  void mend() { cut_ = false; }
  /// Queue pairs of this end's device are in error, and nothing was under way on them.
  void break_idle(bool sender, uint32_t device) {
    for (const auto& [qp, place] : cables_.places) {
      const bool its = place.sender == sender && place.number == device;
      if (its && place.kind == Cables::Kind::kData) qp->modify(now_, QpState::kError);
    }
  }

 private:
  struct End final : Endpoint {
    End(Connection& all, bool sender) : all(all), sender(sender) {}
    void on_received(Time, Qp& qp, const Received& message) override {
      if (sender) return;
      all.receiver_.received(qp, message, [&](uint32_t bytes) {
        EXPECT_EQ(bytes, all.size_of(all.arrived_)) << "message " << all.arrived_;
        ++all.arrived_;
      });
    }
    void on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) override {
      if (status != WorkStatus::kSuccess) {
        const bool goes_on = sender ? all.sender_.fails_over(now, qp, id, status)
                                    : all.receiver_.fails_over(now, all.cables_, qp, id, status);
        all.lost_ = all.lost_ || !goes_on;
      } else if (sender) {
        all.sender_.acknowledged(qp, id, [&](uint64_t message) {
          EXPECT_EQ(message, 1000 + all.acknowledged_);
          EXPECT_LT(all.acknowledged_, all.arrived_) << "acknowledged and not there";
          ++all.acknowledged_;
        });
      }
    }
    Connection& all;
    const bool sender;
    PortFailover failover;
  };

  Qp* make(bool sender, Cables::Kind kind, uint32_t device, Endpoint& owner) {
    QpConfig config;
    config.node = 1;
    config.qpn = static_cast<Qpn>(100 + qps_.size());
    config.unreliable = kind == Cables::Kind::kRecovery;
    qps_.push_back(std::make_unique<Qp>(config, regions_, rc_, owner));
    cables_.places[qps_.back().get()] = {sender, kind, device, nullptr, &owner};
    return qps_.back().get();
  }
  uint32_t size_of(uint64_t k) const {
    return static_cast<uint32_t>(k % 7 == 0 ? 0 : k % 5 == 0 ? 100 : k * 977 % kSlotBytes);
  }
  bool pending() const {
    for (const auto& [qp, line] : cables_.lines) {
      if (!line.empty()) return true;
    }
    return false;
  }
  /// One work request of any queue pair whose cable is good comes and is heard of. While the other
  /// cable is cut some may come and not be heard of.
  bool carry() {
    std::vector<Qp*> ready;
    for (auto& [qp, line] : cables_.lines) {
      const Cables::Place& place = cables_.places[qp];
      const bool dead = (cut_ && place.number == 1) || place.far->state() == QpState::kError;
      if (!line.empty() && (!dead || place.kind == Cables::Kind::kRecovery)) ready.push_back(qp);
    }
    if (ready.empty()) return false;
    std::sort(ready.begin(), ready.end(),
              [](Qp* a, Qp* b) { return a->config().qpn < b->config().qpn; });
    // A batch has left long before its answer comes.
    const auto batch = std::find_if(ready.begin(), ready.end(), [&](Qp* one) {
      return cables_.places[one].sender && cables_.places[one].kind == Cables::Kind::kRecovery;
    });
    Qp& qp = batch != ready.end() ? **batch : *ready[draw_() % ready.size()];
    const Cables::Place place = cables_.places[&qp];
    const bool closed = cut_ && place.number == 1;
    const WorkRequest request = cables_.lines[&qp].front();
    cables_.lines[&qp].pop_front();
    ++carried_;
    now_ = now_ + Duration::us(1);
    if (!closed) arrive(place, request);
    // The acknowledgement may be what the cable is cut under.
    const bool unheard = place.kind == Cables::Kind::kData && place.number == 1 && draw_() % 2 == 0;
    if (unheard && carried_ == cut_next_) cut_ = true;
    if (unheard && cut_) {
      cables_.lines[&qp].push_front(request);
    } else {
      place.owner->on_completed(now_, qp, request.id, WorkStatus::kSuccess);
    }
    return true;
  }
  void arrive(const Cables::Place& place, const WorkRequest& request) {
    const Cables::Place& far = cables_.places[place.far];
    if (request.op == WorkOp::kRead) {
      ASSERT_EQ(request.length, 128u);
      ASSERT_EQ((request.remote_va - kRecords) % 160, 32u);
      std::memcpy(request.read_to, &records_[request.remote_va - kRecords], request.length);
      return;
    }
    Received message;
    message.has_imm = request.op == WorkOp::kWriteImm || request.op == WorkOp::kSendImm;
    message.is_write = request.op != WorkOp::kSendImm;
    message.imm = request.imm;
    message.va = request.remote_va;
    message.length = request.length;
    if (request.op == WorkOp::kWrite) {
      std::memcpy(&fifo_[request.remote_va - kFifo], request.payload.bytes, request.length);
    } else if (message.is_write) {
      ++over_[place.number];
    }
    far.owner->on_received(now_, *place.far, message);
  }
  /// Queue pairs whose packets nobody answers give up; what waits for a time has its turn.
  void pass_time() {
    for (const auto& qp : qps_) {
      const Cables::Place& place = cables_.places[qp.get()];
      if (cables_.lines[qp.get()].empty() || place.kind == Cables::Kind::kRecovery) continue;
      now_ = now_ + Duration::s(2);
      qp->modify(now_, QpState::kError);
      cables_.end(now_, *qp, WorkStatus::kRetryExceeded);
      return;
    }
    if (cables_.wakes.empty()) {
      now_ = now_ + Duration::s(1);
      return;
    }
    const auto next = cables_.wakes.begin();
    now_ = std::max(now_, next->first);
    const auto [endpoint, cookie] = next->second;
    cables_.wakes.erase(next);
    endpoint->on_wake(now_, cookie);
  }

 public:
  uint64_t cut_next_ = 0;  ///< by a work request that has come, and is not heard of

 private:
  const CtsLayout layout_;
  RegionTable regions_{2};
  RcCounters rc_{};
  std::vector<uint8_t> fifo_, staging_, records_;
  std::mt19937_64 draw_;
  Cables cables_;
  std::vector<std::unique_ptr<Qp>> qps_;
  FailoverCounters counters_[2];
  End ends_[2];
  NcclSender sender_;
  NcclReceiver receiver_;
  Time now_;
  uint64_t sent_ = 0, arrived_ = 0, acknowledged_ = 0, used_ = 0, carried_ = 0;
  uint64_t over_[2] = {};
  bool cut_ = false, lost_ = false;
};

TEST(PortFailover, WithoutAFaultNothingIsAsked) {
  for (const uint32_t minor : {29u, 30u}) {
    Connection c(minor, {}, 1);
    c.run(600);
    EXPECT_EQ(c.counters(true).failed + c.counters(false).failed + c.counters(true).probes, 0u);
    EXPECT_EQ(c.over(0), c.over(1));
  }
}

/// Every message comes once and in order, wherever the cable is cut, and whatever was under way.
TEST(PortFailover, EveryMessageComesOnceWhereverACableIsCut) {
  uint64_t repeated = 0, probes = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    for (const uint32_t minor : {29u, 30u}) {
      SCOPED_TRACE(testing::Message() << "2." << minor << ", seed " << seed);
      Connection c(minor, {}, seed);
      if (seed % 2 == 0) c.cut_next_ = 3 + seed % 97;
      c.run(40, seed % 2 == 0 ? ~uint64_t{0} : 1 + seed % 150);
      ASSERT_FALSE(HasFailure());
      ASSERT_FALSE(c.lost());
      repeated += c.counters(true).repeated + c.counters(false).repeated;
      probes += c.counters(true).probes;
    }
  }
  EXPECT_GT(probes, 600u);
  EXPECT_GT(repeated, 600u);
}

/// No completion tells of it: the first request is refused.
TEST(PortFailover, AQueuePairThatRefusesIsGivenUp) {
  for (const bool sender : {true, false}) {
    for (const uint32_t device : {0u, 1u}) {
      SCOPED_TRACE(testing::Message() << (sender ? "sender" : "receiver") << " " << device);
      Connection c(30, {}, 1);
      c.break_idle(sender, device);
      c.run(40);
      ASSERT_FALSE(HasFailure());
      EXPECT_FALSE(c.lost());
      EXPECT_EQ(c.counters(sender).failed, 1u);
    }
  }
}

TEST(PortFailover, WithoutAnyQueuePairTheConnectionIsLost) {
  for (const bool sender : {true, false}) {
    Connection c(30, {}, 1);
    c.break_idle(sender, 0);
    c.break_idle(sender, 1);
    c.run(40);
    ASSERT_FALSE(HasFailure());
    EXPECT_TRUE(c.lost());
  }
}

/// After the outage both ends agree that the device lives, and use it again from PSN 0 on.
TEST(PortFailover, ADeviceIsUsedAgain) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    FailoverSettings settings;
    settings.recovery = true;
    Connection c(30, settings, seed);
    c.run(30, 1 + seed % 60);
    ASSERT_FALSE(c.lost());
    if (c.counters(true).failed == 0 || c.counters(false).failed == 0) continue;
    c.mend();
    c.rest(Duration::s(40));
    EXPECT_EQ(c.counters(true).recovered, 1u) << c.counters(true).lost << " given up";
    EXPECT_EQ(c.counters(false).recovered, 1u) << c.counters(false).lost << " given up";
    const uint64_t before = c.over(1);
    c.run(60);
    EXPECT_GE(c.over(1), before + 30);
  }
}

/// NCCL waits for five sequences at most: a cable that comes back later is not used.
TEST(PortFailover, RecoveryIsGivenUp) {
  FailoverSettings settings;
  settings.recovery = true;
  Connection c(30, settings, 3);
  c.run(30, 11);
  c.rest(Duration::s(60));
  EXPECT_EQ(c.counters(true).lost, c.counters(true).failed);
  EXPECT_EQ(c.counters(false).lost, c.counters(false).failed);
  c.mend();
  const uint64_t before = c.over(1);
  c.run(60);
  EXPECT_FALSE(c.lost());
  EXPECT_EQ(c.over(1), before);
}

}  // namespace
}  // namespace understudy
