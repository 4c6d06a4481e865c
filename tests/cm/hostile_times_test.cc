// Peers whose fields name times of hours, and that never answer: what they hold comes free again.
#include <gtest/gtest.h>

#include "tests/cm/rig.h"

namespace understudy {
namespace {

constexpr uint8_t kHours = 31;  ///< of a field: 2.4 h
constexpr uint32_t kPlaces = 20;

class CmHostileTimes : public testing::Test {
 protected:
  static CmAgentConfig config() {
    CmAgentConfig c = rig_config(0xb);
    c.max_connections = kPlaces;
    return c;
  }
  CmHostileTimes() : rig(config()) {}

  static CmReq endless(uint32_t id) {
    CmReq req;
    req.local_comm_id = id;
    req.service_id = kService;
    req.ca_guid = 0xbad;
    req.qpn = 0x1000 + id;
    req.local_cm_response_timeout = req.remote_cm_response_timeout = kHours;
    req.path_mtu = 3;
    req.max_cm_retries = 15;
    req.primary.ack_timeout = kHours;
    req.primary.remote_gid = kServerEnds.local;
    return req;
  }
  /// Fills all places with half-open connections; our REPs to them.
  std::vector<CmSend> flood() {
    for (uint32_t id = 1; id <= kPlaces; ++id) {
      rig.server.on_mad(rig.now, kServerEnds, mad_with(endless(id)));
    }
    EXPECT_EQ(rig.server.connections(), kPlaces);
    for (const CmEvent& e : rig.server.take_events()) {
      EXPECT_TRUE(rig.server.accept(rig.now, e.id, CmRig::acceptance(0x50000 + e.id % 1000)));
    }
    return rig.server.take_sends();
  }
  void pass(Duration time) {
    for (const Time until = rig.now + time; rig.now < until;) rig.advance(Duration::s(1));
    rig.server.take_sends();
    rig.server.take_events();
  }
  Duration cap() const { return config().longest_wait + config().longest_time_wait; }

  CmRig rig;
};

// rules: A9.9
TEST_F(CmHostileTimes, HalfOpenConnectionsFreeTheirPlaces) {
  flood();
  rig.client.connect(rig.now, rig.request());
  rig.to_server();
  rig.to_client();
  const auto refused = rig.client.take_events();
  ASSERT_FALSE(refused.empty());
  EXPECT_EQ(refused[0].kind, CmEventKind::kRejected);
  pass(cap());
  EXPECT_EQ(rig.server.connections(), 0u);
  rig.establish();
}

// rules: A9.8
TEST_F(CmHostileTimes, MrasProlongNoWaitBeyondTheLimit) {
  const auto reps = flood();
  ASSERT_EQ(reps.size(), kPlaces);
  for (const CmSend& s : reps) {
    const auto rep = message_of<CmRep>(s);
    CmMra mra;
    mra.local_comm_id = rep.remote_comm_id;
    mra.remote_comm_id = rep.local_comm_id;
    mra.subject = CmSubject::kRep;
    mra.service_timeout = kHours;
    rig.server.on_mad(rig.now, kServerEnds, mad_with(mra));
  }
  pass(cap());
  EXPECT_EQ(rig.server.connections(), 0u);
}

// rules: A9.10
TEST_F(CmHostileTimes, TimeWaitEnds) {
  for (const CmSend& s : flood()) {
    const auto rep = message_of<CmRep>(s);
    CmDreq dreq;
    dreq.local_comm_id = rep.remote_comm_id;
    dreq.remote_comm_id = rep.local_comm_id;
    dreq.remote_qpn = rep.qpn;
    rig.server.on_mad(rig.now, kServerEnds, mad_with(dreq));
  }
  EXPECT_EQ(rig.server.connections(), kPlaces);
  pass(config().longest_time_wait);
  EXPECT_EQ(rig.server.connections(), 0u);
}

}  // namespace
}  // namespace understudy
