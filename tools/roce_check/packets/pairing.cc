#include "tools/roce_check/packets/pairing.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <unordered_map>

#include "tools/roce_check/packets/path_mtu.h"

namespace understudy {
namespace {

constexpr size_t kScoredPackets = 20'000;  // of a flow; enough to tell connections apart

/// Of what the table holds of two flows.
uint32_t infer_pmtu(const PacketTable& table, uint32_t a, uint32_t b) {
  PathMtu out;
  for (const uint32_t flow : {a, b}) {
    for (const uint32_t packet : table.flows[flow].packets) out.add(table.packets[packet]);
  }
  for (const uint32_t flow : {a, b}) out.add_reads(table, table.flows[flow].packets);
  return out.value();
}

/// How far requests in one flow have come, as a responder in the other may answer them.
class Progress {
 public:
  void request(const PacketRecord& p, uint32_t pmtu) {
    uint32_t span = 1;
    if (p.info().kind == OpKind::kReadRequest)
      span = std::max(1u, (p.dma_length + pmtu - 1) / pmtu);
    const Psn last = p.psn.advance(span - 1);
    if (!newest_ || last.distance_from(*newest_) > 0) newest_ = last;
    if (p.ack_request) asked_ = p.psn;
  }
  int response(const PacketRecord& p) {
    constexpr int kImpossible = -20;
    if (!newest_) return kImpossible;
    const bool nak =
        p.info().kind == OpKind::kAck && (p.syndrome & kSyndromeKindMask) != kSyndromeAck;
    const int32_t ahead = p.psn.distance_from(*newest_);
    if (ahead > 0) return kImpossible;
    if (p.psn == asked_) return 3;  // exactly what the requester wanted to hear
    constexpr int32_t kNear = 4096;
    return ahead > -kNear && !nak ? 1 : 0;
  }

 private:
  std::optional<Psn> newest_, asked_;
};

/// How well `b` fits as the way back of `a`: above 0 when it is possible at all.
int64_t score(const PacketTable& table, uint32_t a, uint32_t b) {
  const auto& pa = table.flows[a].packets;
  const auto& pb = table.flows[b].packets;
  const uint32_t pmtu = infer_pmtu(table, a, b);
  Progress of_a, of_b;
  int64_t sum = 0;
  size_t i = 0, j = 0;
  while ((i < pa.size() || j < pb.size()) && i + j < kScoredPackets) {
    const bool take_a = j == pb.size() || (i < pa.size() && pa[i] < pb[j]);
    const PacketRecord& p = table.packets[take_a ? pa[i++] : pb[j++]];
    if (p.info().is_request()) {
      (take_a ? of_a : of_b).request(p, pmtu);
    } else {
      sum += (take_a ? of_b : of_a).response(p);
    }
  }
  return sum;
}

/// Requests of flows between the same two ends that wait for their answers, in the order in which
/// they were sent. Ways keep order, so the first one that an answer can mean is the likeliest:
/// connections that do the same at the same time differ in nothing else.
class Awaited {
 public:
  explicit Awaited(size_t flows) : awaited_(flows) {}
  void request(size_t flow, const PacketRecord& p) {
    const OpKind kind = p.info().kind;
    const bool is_answered = kind == OpKind::kReadRequest || kind == OpKind::kAtomicRequest;
    if (!p.ack_request && !is_answered) return;
    std::deque<uint64_t>& frames = awaited_[flow];
    if (frames.size() == kMostAwaited) frames.pop_front();
    frames.push_back(p.frame);
    of_psn_[p.psn.value()].push_back({flow, p.frame});
  }
  /// The flow whose request has waited longest for this ACK or READ response, which answers those
  /// before it too; nothing if none has.
  std::optional<size_t> answer(const PacketRecord& p) {
    const auto found = of_psn_.find(p.psn.value());
    if (found == of_psn_.end()) return std::nullopt;
    std::deque<Request>& requests = found->second;
    while (!requests.empty() && !waits(requests.front())) requests.pop_front();
    if (requests.empty()) return std::nullopt;
    const Request first = requests.front();
    std::deque<uint64_t>& frames = awaited_[first.flow];
    while (!frames.empty() && frames.front() <= first.frame) frames.pop_front();
    return first.flow;
  }

 private:
  static constexpr size_t kMostAwaited = 64;
  struct Request {
    size_t flow;
    uint64_t frame;
  };
  bool waits(const Request& r) const {
    return !awaited_[r.flow].empty() && awaited_[r.flow].front() <= r.frame;
  }
  std::vector<std::deque<uint64_t>> awaited_;                 ///< frames, the last ones only
  std::unordered_map<uint32_t, std::deque<Request>> of_psn_;  ///< also some that wait no more
};

}  // namespace

Pairing::Found Pairing::pair(bool all) {
  const size_t flows = table_.flows.size();
  partner_.resize(flows, kNoFlow);
  exchange_.resize(flows);
  done_.resize(flows, false);
  half_found_.clear();
  by_cm();
  std::map<Way, std::vector<uint32_t>> open;
  for (uint32_t f = 0; f < flows; ++f) {
    if (partner_[f] == kNoFlow && !done_[f]) open[way_of(f)].push_back(f);
  }
  for (const auto& [way, flows_there] : open) {
    const auto back = open.find(reversed(way));
    if (back == open.end() || std::get<1>(way) < std::get<0>(way)) continue;
    by_behaviour(flows_there, back->second, all);
  }
  for (const HalfFound& half : half_found_) by_half(half);
  Found out;
  for (auto& [way, waiting] : open) {
    for (const uint32_t f : waiting) {
      if (partner_[f] == kNoFlow) join_late(f, all, out);
    }
  }
  for (uint32_t f = 0; f < flows; ++f) {
    const uint32_t other = partner_[f];
    if (done_[f] || (other != kNoFlow && other < f)) continue;
    if (other == kNoFlow && !all && !stays_alone(f, open)) continue;
    take(f, other, out);
  }
  return out;
}

void Pairing::take(uint32_t f, uint32_t other, Found& out) {
  done_[f] = true;
  if (other != kNoFlow) done_[other] = true;
  if (other == kNoFlow) alone_[way_of(f)].push_back(f);
  const std::optional<size_t> cm = exchange_[f];
  FlowPair& pair = out.pairs.emplace_back();
  pair.forward = f;
  pair.reverse = other;
  pair.pmtu = cm ? table_.cm_pairs[*cm].path_mtu : 0;
  pair.cm = cm;
  const auto wrong = std::ranges::find_if(
      misled_, [&](const Misled& m) { return m.flow == f || m.flow == other; });
  if (wrong == misled_.end()) return;
  pair.agreed_qpn = wrong->agreed;
  pair.misled = wrong->flow;
}

Pairing::Way Pairing::way_of(uint32_t flow) const {
  const Flow& f = table_.flows[flow];
  return {f.src, f.dst, f.interface};
}

/// Its behaviour has been seen long enough: not that only another one, which has the same ends and
/// is about to begin, is missing.
bool Pairing::is_ripe(uint32_t flow, uint64_t packets) const {
  constexpr Duration kLong = Duration::s(1);
  const Flow& f = table_.flows[flow];
  return f.total >= packets || table_.last - f.first.at >= kLong;
}

bool Pairing::are_ripe(uint32_t a, uint32_t b) const {
  constexpr uint64_t kEach = 8, kEnough = 128;
  const uint64_t both = table_.flows[a].total + table_.flows[b].total;
  return both >= kScoredPackets || (is_ripe(a, kEach) && is_ripe(b, kEach) &&
                                    (is_ripe(a, kEnough - kEach) || is_ripe(b, kEnough - kEach)));
}

/// Nothing comes back, so far.
bool Pairing::stays_alone(uint32_t flow, const std::map<Way, std::vector<uint32_t>>& open) const {
  constexpr uint64_t kPatience = 4;
  const auto back = open.find(reversed(way_of(flow)));
  const bool hope = back != open.end() && std::ranges::any_of(back->second, [&](uint32_t b) {
                      return partner_[b] == kNoFlow;
                    });
  return table_.flows[flow].packets.size() >= kScoredPackets * (hope ? kPatience : 1);
}

void Pairing::by_cm() {
  // The first flow of these addresses that begins after the exchange.
  auto find = [&](const CmPair& cm, const IpAddress& src, const IpAddress& dst, Qpn qpn) {
    uint32_t found = kNoFlow;
    for (uint32_t i = 0; i < table_.flows.size(); ++i) {
      const Flow& f = table_.flows[i];
      if (f.interface != cm.interface || f.src != src || f.dst != dst) continue;
      if (f.dest_qpn != qpn || begin(i) < cm.frame) continue;
      if (found == kNoFlow || begin(i) < begin(found)) found = i;
    }
    return found;
  };
  met_.resize(table_.cm_pairs.size(), false);
  for (size_t i = 0; i < table_.cm_pairs.size(); ++i) {
    if (met_[i]) continue;
    const CmPair& cm = table_.cm_pairs[i];
    const IpAddress& active = cm.active.address;
    const IpAddress& passive = cm.passive.address;
    const uint32_t there = find(cm, active, passive, cm.passive.qpn);
    const uint32_t back = find(cm, passive, active, cm.active.qpn);
    if ((there == kNoFlow) != (back == kNoFlow)) {
      const bool lacks_back = back == kNoFlow;
      half_found_.push_back(
          {i, lacks_back ? there : back, lacks_back ? cm.active.qpn : cm.passive.qpn});
    }
    if (there == kNoFlow || back == kNoFlow) continue;
    met_[i] = true;
    if (done_[there] || done_[back]) continue;
    join(there, back);
    exchange_[there] = exchange_[back] = i;
  }
}

/// What was found to answer that direction is the other one, and goes to another queue pair.
void Pairing::by_half(const HalfFound& half) {
  const uint32_t other = partner_[half.flow];
  if (done_[half.flow] || other == kNoFlow || other == half.flow || exchange_[half.flow]) return;
  if (begin(other) < table_.cm_pairs[half.exchange].frame) return;
  exchange_[half.flow] = exchange_[other] = half.exchange;
  misled_.push_back({other, half.agreed});
}

void Pairing::by_behaviour(const std::vector<uint32_t>& there, const std::vector<uint32_t>& back,
                           bool all) {
  if (all && there.size() == 1 && back.size() == 1) return join(there[0], back[0]);
  struct Candidate {
    int64_t score;
    uint32_t a, b;
  };
  constexpr int64_t kVote = 3;
  std::vector<Candidate> candidates;
  // Of very many only those are compared that have answered each other, or have answered nobody.
  constexpr size_t kMany = 4096;
  const bool many = there.size() * back.size() > kMany;
  const std::vector<Votes> votes = votes_by_order(there, back);
  std::vector<bool> answers(back.size(), false);
  for (const Votes& of_one : votes) {
    for (const auto& [b, count] : of_one) answers[b] = true;
  }
  for (size_t a = 0; a < there.size(); ++a) {
    for (uint32_t b = 0; b < back.size(); ++b) {
      const auto vote = votes[a].find(b);
      const bool voted = vote != votes[a].end();
      if (many && !voted && (!votes[a].empty() || answers[b])) continue;
      const int64_t s = score(table_, there[a], back[b]);
      if (s > 0) candidates.push_back({s + (voted ? kVote * vote->second : 0), there[a], back[b]});
    }
  }
  std::ranges::stable_sort(candidates, [](const Candidate& x, const Candidate& y) {
    return x.score > y.score;  // equal ones stay in the order in which they began
  });
  for (const Candidate& c : candidates) {
    if (partner_[c.a] != kNoFlow || partner_[c.b] != kNoFlow) continue;
    if (all || are_ripe(c.a, c.b)) join(c.a, c.b);
  }
}

/// How many answers of each flow are the first that each flow the other way waits for.
std::vector<Pairing::Votes> Pairing::votes_by_order(const std::vector<uint32_t>& there,
                                                    const std::vector<uint32_t>& back) const {
  struct Event {
    uint32_t packet;
    bool is_there;
    uint32_t flow;
  };
  std::vector<Event> events;
  const auto add = [&](const std::vector<uint32_t>& flows, bool is_there) {
    for (uint32_t f = 0; f < flows.size(); ++f) {
      const auto& packets = table_.flows[flows[f]].packets;
      const size_t count = std::min(packets.size(), kScoredPackets);
      for (size_t i = 0; i < count; ++i) events.push_back({packets[i], is_there, f});
    }
  };
  add(there, true);
  add(back, false);
  std::ranges::sort(events, {}, &Event::packet);
  Awaited of_there(there.size()), of_back(back.size());
  std::vector<Votes> votes(there.size());
  for (const Event& event : events) {
    const PacketRecord& p = table_.packets[event.packet];
    if (p.info().is_request()) {
      (event.is_there ? of_there : of_back).request(event.flow, p);
    } else if (p.info().kind == OpKind::kAck || p.info().start) {
      const auto other = (event.is_there ? of_back : of_there).answer(p);
      if (!other) continue;
      const auto found = static_cast<uint32_t>(*other);
      ++(event.is_there ? votes[event.flow][found] : votes[found][event.flow]);
    }
  }
  return votes;
}

/// The other direction of one that was taken to be alone: what it says must answer that.
void Pairing::join_late(uint32_t flow, bool all, Found& out) {
  constexpr uint64_t kEnoughAnswers = 8;
  const auto candidates = alone_.find(reversed(way_of(flow)));
  if (candidates == alone_.end() || !(all || is_ripe(flow, kEnoughAnswers))) return;
  size_t best = 0;
  int64_t most = 0;
  for (size_t i = 0; i < candidates->second.size(); ++i) {
    int64_t fitting = 0;
    for (const uint32_t packet : table_.flows[flow].packets) {
      const PacketRecord& p = table_.packets[packet];
      fitting += p.info().is_response() && fits_(candidates->second[i], p.psn) ? 1 : 0;
    }
    if (fitting <= most) continue;
    best = i;
    most = fitting;
  }
  if (most == 0) return;
  const uint32_t other = candidates->second[best];
  candidates->second.erase(candidates->second.begin() + static_cast<std::ptrdiff_t>(best));
  done_[flow] = true;
  join(flow, other);
  out.late.emplace_back(other, flow);
}

}  // namespace understudy
