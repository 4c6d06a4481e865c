// Our responder in the place of Linux' soft-RoCE: fed with the requests of its recordings
// (tests/data/rxe), it must say what that one said.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <set>

#include "dataplane/rc/qp.h"
#include "tests/rigs/pcap_frames.h"
#include "tests/wire/frames.h"

namespace understudy {
namespace {

struct Recording {
  const char* name;
  bool answers_lost = false;  ///< some answers are not in the recording
  bool no_memory = false;     ///< the client used an rkey that nobody gave out
  uint8_t access = kAccessRemoteAny;
};

/// One queue pair of a recording as a responder.
class Replay : public QpOwner {
 public:
  /// All requests that come to it, so that what they reach for can be laid out, and all answers of
  /// its host, of which ATOMICs' tell what was in memory before.
  Replay(const Recording& recording, const std::vector<Parsed>& requests,
         const std::vector<Parsed>& answers)
      : regions_(64) {
    QpConfig c;
    c.node = 1;
    c.access = recording.access;
    c.rq_psn = requests.front().roce.psn;
    c.max_dest_rd_atomic = 128;  // as rxe
    c.mtu = 256;
    std::map<Rkey, std::pair<uint64_t, uint64_t>> ranges;
    for (const Parsed& p : requests) {
      if (p.roce.info().kind != OpKind::kReadRequest && !p.roce.info().end) {
        c.mtu = std::max(c.mtu, p.roce.payload_bytes);
      }
      const uint64_t length = p.roce.info().atomic_eth ? 8 : p.roce.dma_length;
      if (!p.roce.info().reth && !p.roce.info().atomic_eth) continue;
      auto& range = ranges.try_emplace(p.roce.rkey, p.roce.va, p.roce.va).first->second;
      range.first = std::min(range.first, p.roce.va);
      range.second = std::max(range.second, p.roce.va + length);
    }
    c.mtu = c.mtu == 256 ? 1024 : c.mtu;  // of recordings without long messages; all others agree
    for (const auto& [rkey, range] : ranges) {
      if (recording.no_memory) break;
      const auto index = static_cast<uint32_t>(rkeys_.size());
      memory_.emplace_back(range.second - range.first);
      regions_.add(index, {1, range.first, memory_.back().size(), kAccessRemoteAny,
                           memory_.back().data(), true});
      rkeys_[rkey] = regions_.rkey(index);
    }
    std::set<uint64_t> known;
    for (const Parsed& p : requests) {
      if (!p.roce.info().atomic_eth || !known.insert(p.roce.va).second) continue;
      const auto answer = std::find_if(answers.begin(), answers.end(), [&](const Parsed& a) {
        return a.roce.info().atomic_ack && a.roce.psn == p.roce.psn;
      });
      const auto rkey = rkeys_.find(p.roce.rkey);
      if (answer == answers.end() || rkey == rkeys_.end()) continue;
      const Region& region = *regions_.find(rkey->second, c.node);
      std::memcpy(region.bytes + (p.roce.va - region.va), &answer->roce.atomic_original, 8);
    }
    qp_ = std::make_unique<Qp>(c, regions_, counters_, *this);
    qp_->responder().set_endless_receives();
  }

  void request(const Parsed& p) {
    RoceView view = p.roce;
    view.rkey = rkeys_.count(view.rkey) != 0 ? rkeys_[view.rkey] : 0;
    qp_->on_packet(Time::zero(), view, p.bytes.data() + view.payload);
    OutPacket out;
    bool departs;
    uint64_t id;
    while (qp_->pull(Time::zero(), TrafficKind::kAny, out, departs, id)) said_.push_back(out);
  }

  /// Whether this is what ours said next; where answers were lost, what it said later on.
  bool says(const Parsed& p, bool answers_lost) {
    const auto found = std::find_if(said_.begin(), said_.end(), [&](const OutPacket& o) {
      return !answers_lost || same(o, p, answers_lost);
    });
    if (found == said_.end() || !same(*found, p, answers_lost)) return false;
    said_.erase(said_.begin(), found + 1);
    return true;
  }
  std::string next() const {
    if (said_.empty()) return "nothing";
    const RoceFields& f = said_.front().fields;
    return std::string(opcode_info(f.opcode).name) + " psn " + std::to_string(f.psn.value()) +
           " syndrome " + std::to_string(f.syndrome) + " msn " + std::to_string(f.msn);
  }
  size_t unsaid() const { return said_.size(); }

  void on_received(Time, Qp&, const Received&) override {}
  void on_completed(Time, Qp&, uint64_t, WorkStatus) override {}

 private:
  /// rxe counts messages anew in an answer that it repeats, ours repeats the count as well.
  static bool same(const OutPacket& ours, const Parsed& p, bool any_msn) {
    const RoceFields& f = ours.fields;
    return static_cast<uint8_t>(f.opcode) == p.roce.opcode && f.psn == p.roce.psn &&
           ours.payload_bytes == p.roce.payload_bytes &&
           (!p.roce.info().aeth ||
            (f.syndrome == p.roce.syndrome && (any_msn || f.msn == p.roce.msn))) &&
           f.atomic_original == p.roce.atomic_original;
  }

  RegionTable regions_;
  RcCounters counters_{};
  std::deque<std::vector<uint8_t>> memory_;
  std::map<Rkey, Rkey> rkeys_;
  std::unique_ptr<Qp> qp_;
  std::deque<OutPacket> said_;
};

class RcRecordings : public testing::TestWithParam<Recording> {};

// rules: A4.1 A4.2 A4.7 A4.8 A4.9 A4.13 A4.16 A4.17 A4.19
TEST_P(RcRecordings, OursAnswersAsTheirs) {
  const Recording& recording = GetParam();
  std::vector<Parsed> packets;
  std::map<std::pair<IpAddress, Qpn>, std::vector<Parsed>> requests;  // by where they go
  std::map<IpAddress, std::vector<Parsed>> answers;                   // by the host that gives them
  for (const auto& frame :
       pcap_frames(std::string(UNDERSTUDY_TEST_DATA) + "/rxe/" + recording.name + ".pcap")) {
    const Parsed p(frame);
    if (p.kind != FrameKind::kRoce || p.roce.info().kind == OpKind::kUd) continue;
    if (p.roce.info().is_request()) {
      requests[{p.view.dst, p.roce.dest_qpn}].push_back(p);
    } else {
      answers[p.view.src].push_back(p);
    }
    packets.push_back(p);
  }
  ASSERT_FALSE(answers.empty());
  std::map<std::pair<IpAddress, Qpn>, std::unique_ptr<Replay>> ours;
  for (const auto& [where, its] : requests) {
    ours[where] = std::make_unique<Replay>(recording, its, answers[where.first]);
  }
  for (size_t i = 0; i < packets.size(); ++i) {
    const Parsed& p = packets[i];
    if (p.roce.info().is_request()) {
      ours.at({p.view.dst, p.roce.dest_qpn})->request(p);
      continue;
    }
    // Which of its host's queue pairs an answer comes from is not written in it.
    std::string instead;
    const bool said = std::any_of(ours.begin(), ours.end(), [&](const auto& entry) {
      if (entry.first.first != p.view.src) return false;
      instead += ' ';
      instead += entry.second->next();
      return entry.second->says(p, recording.answers_lost);
    });
    ASSERT_TRUE(said) << "RoCE packet " << i + 1 << ": they " << p.roce.info().name << " psn "
                      << p.roce.psn.value() << " syndrome " << unsigned{p.roce.syndrome} << " msn "
                      << p.roce.msn << ", ours" << instead;
  }
  for (const auto& [where, replay] : ours) {
    if (!recording.answers_lost && !recording.no_memory) {
      EXPECT_EQ(replay->unsaid(), 0u) << where.first.text();
    }
  }
}

/// Not here: rxe_send_rnr_nak, where rxe answers what follows an RNR NAK with sequence NAKs,
/// against rule A4.11.
INSTANTIATE_TEST_SUITE_P(
    SoftRoce, RcRecordings,
    testing::Values(Recording{"rxe612_write_64k_x5_mtu1024"},
                    Recording{"rxe_atomic_x30_serverloss10pct_ack_timeout", true},
                    Recording{"rxe_fetchadd_rdmacm"}, Recording{"rxe_rc_pingpong"},
                    Recording{"rxe_read_4k_mtu1024_rdmacm"},
                    Recording{"rxe_read_badrkey_nak_remote_access", false, true},
                    Recording{"rxe_fadd_no_atomic_access_nak_invalid_request", false, true,
                              kAccessRemoteRead | kAccessRemoteWrite},
                    Recording{"rxe_rping_3x1000"}, Recording{"rxe_send_4k_mtu1024_rdmacm"},
                    Recording{"rxe_ucmatose"},
                    Recording{"rxe_write_16k_x10_clientloss6pct_nak_seq"},
                    Recording{"rxe_write_4k_mtu1024_rdmacm"}, Recording{"rxe_write_64k_x5_mtu1024"},
                    Recording{"rxe_write_badrkey_nak_remote_access", false, true},
                    Recording{"rxe_write_ipv6_linklocal"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace understudy
