// Two agents over a link that loses, duplicates and delays datagrams: every connection ends, both
// sides' histories are legal, and nothing is left behind.
#include <map>
#include <random>

#include "tests/cm/rig.h"

namespace understudy {
namespace {

class Storm {
 public:
  explicit Storm(uint64_t seed) : random_(seed) {
    loss_ = below(30);
    duplication_ = below(20);
    depart_ = below(3);
  }

  void run() {
    for (int i = 0; i < 20; ++i) {
      CmConnect r = rig_.request();
      r.qpn = 0x100 + static_cast<Qpn>(i);
      ASSERT_TRUE(rig_.client.connect(now_, r));
      ++connections_;
      turn();
    }
    // Long enough for every timer of every message, one after the other.
    for (int i = 0; i < 100'000 && alive(); ++i) turn();
    EXPECT_FALSE(alive());
    EXPECT_EQ(released_[&rig_.client], connections_);
  }

 private:
  struct Flying {
    Time at;
    bool to_server;
    CmSend send;
  };

  unsigned below(unsigned n) { return static_cast<unsigned>(random_() % n); }
  bool alive() const {
    return rig_.client.connections() + rig_.server.connections() + flying_.size() > 0;
  }

  void launch(CmAgent& from, bool to_server) {
    for (const CmSend& s : from.take_sends()) {
      if (below(100) < loss_) continue;
      for (unsigned copies = below(100) < duplication_ ? 2 : 1; copies > 0; --copies) {
        const Time at = now_ + Duration::us(10 + below(200'000));
        flying_.emplace(at, Flying{at, to_server, s});
      }
    }
  }

  /// To the next thing that happens.
  void turn() {
    launch(rig_.client, true);
    launch(rig_.server, false);
    Time next = std::min(rig_.client.deadline(), rig_.server.deadline());
    if (!flying_.empty()) next = std::min(next, flying_.begin()->first);
    if (next.is_never()) {  // only established ones are left
      now_ = now_ + Duration::s(1);
      for (const auto& [id, state] : states_[&rig_.client]) {
        if (state == CmEventKind::kEstablished) rig_.client.disconnect(now_, id);
      }
      for (const auto& [id, state] : states_[&rig_.server]) {
        if (state == CmEventKind::kEstablished) rig_.server.disconnect(now_, id);
      }
      return;
    }
    now_ = std::max(now_, next);
    if (!flying_.empty() && flying_.begin()->first <= now_) {
      const Flying f = flying_.begin()->second;
      flying_.erase(flying_.begin());
      (f.to_server ? rig_.server : rig_.client)
          .on_mad(now_, f.to_server ? kServerEnds : kClientEnds, f.send.bytes);
    }
    rig_.client.on_time(now_);
    rig_.server.on_time(now_);
    for (CmAgent* agent : {&rig_.client, &rig_.server}) {
      for (const CmEvent& e : agent->take_events()) on_event(*agent, e);
    }
  }

  void on_event(CmAgent& agent, const CmEvent& e) {
    auto& states = states_[&agent];
    const auto known = states.find(e.id);
    const bool fresh = known == states.end();
    const CmEventKind before = fresh ? CmEventKind::kReleased : known->second;
    switch (e.kind) {
      case CmEventKind::kRequest:
        ASSERT_TRUE(fresh);
        states[e.id] = e.kind;
        if (below(10) == 0) {
          ASSERT_TRUE(agent.reject(now_, e.id, RejReason::kConsumer));
          states.erase(e.id);
        } else {
          ASSERT_TRUE(agent.accept(now_, e.id, CmRig::acceptance(0x40000 + e.id % 0x10000)));
        }
        return;
      case CmEventKind::kReply:
        ASSERT_TRUE(fresh);
        states[e.id] = e.kind;
        ASSERT_TRUE(agent.confirm(now_, e.id));
        return;
      case CmEventKind::kEstablished:
        ASSERT_TRUE(before == CmEventKind::kRequest || before == CmEventKind::kReply);
        states[e.id] = e.kind;
        if (below(3) == depart_) agent.disconnect(now_, e.id);
        return;
      case CmEventKind::kRejected:
      case CmEventKind::kFailed:
        ASSERT_TRUE(fresh || before == CmEventKind::kRequest || before == CmEventKind::kReply);
        states[e.id] = e.kind;
        return;
      case CmEventKind::kDisconnected:
        ASSERT_TRUE(before == CmEventKind::kEstablished || before == CmEventKind::kRequest);
        states[e.id] = e.kind;
        return;
      case CmEventKind::kReleased:
        ASSERT_TRUE(before == CmEventKind::kRejected || before == CmEventKind::kFailed ||
                    before == CmEventKind::kDisconnected);
        states.erase(e.id);
        ++released_[&agent];
        return;
    }
  }

  std::mt19937_64 random_;
  CmRig rig_;
  unsigned loss_, duplication_, depart_;
  Time now_ = Time::zero() + Duration::s(1);
  std::multimap<Time, Flying> flying_;
  std::map<CmAgent*, std::map<CmId, CmEventKind>> states_;
  std::map<CmAgent*, size_t> released_;
  size_t connections_ = 0;
};

// rules: A9.4 A9.5 A9.6 A9.9 A9.10
TEST(CmProperty, EveryConnectionEndsWhateverTheLinkDoes) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Storm storm(seed);
    storm.run();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace understudy
