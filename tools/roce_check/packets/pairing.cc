#include "tools/roce_check/packets/pairing.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace understudy {
namespace {

constexpr std::array<uint32_t, 5> kPathMtus = {256, 512, 1024, 2048, 4096};
constexpr size_t kScoredPackets = 20'000;  // of a flow; enough to tell connections apart

/// Where no data are to be seen: a READ takes one PSN for each packet of its response, so the
/// distance to the next request tells the path MTU. Requests that are missing make it larger, so
/// the largest path MTU counts. 0 if the flow has no READ that tells anything.
uint32_t pmtu_by_reads(const PacketTable& table, uint32_t flow, uint32_t least) {
  const PacketRecord* read = nullptr;
  uint32_t largest = 0;
  for (uint32_t index : table.flows[flow].packets) {
    const PacketRecord& p = table.packets[index];
    if (!p.info().is_request()) continue;
    const int32_t taken = read != nullptr ? p.psn.distance_from(read->psn) : 0;
    for (const uint32_t mtu : kPathMtus) {
      const uint64_t packets = taken > 0 ? (uint64_t{read->dma_length} + mtu - 1) / mtu : 0;
      const bool tells = taken > 0 && read->dma_length > least && mtu >= least;
      if (tells && packets == static_cast<uint64_t>(taken)) largest = std::max(largest, mtu);
    }
    read = p.info().kind == OpKind::kReadRequest ? &p : nullptr;
  }
  return largest;
}

/// The path MTU by the sizes of FIRST and MIDDLE packets. Where all of them have the same size and
/// no path MTU is that, `odd` names it.
uint32_t infer_pmtu(const PacketTable& table, std::initializer_list<uint32_t> flows,
                    uint32_t* odd = nullptr) {
  std::array<uint64_t, kPathMtus.size()> votes{};
  uint32_t largest = 0, size = 0;
  size_t of_this_size = 0, data_packets = 0;
  for (uint32_t flow : flows) {
    if (flow == kNoFlow) continue;
    for (uint32_t index : table.flows[flow].packets) {
      const PacketRecord& p = table.packets[index];
      largest = std::max(largest, p.payload_bytes);
      const OpKind kind = p.info().kind;
      const bool data =
          kind == OpKind::kSend || kind == OpKind::kWrite || kind == OpKind::kReadResponse;
      if (!data || p.info().end) continue;  // only FIRST and MIDDLE must be full
      ++data_packets;
      if (of_this_size == 0) size = p.payload_bytes;
      of_this_size += p.payload_bytes == size ? 1 : 0;
      const auto mtu = std::ranges::find(kPathMtus, p.payload_bytes);
      if (mtu != kPathMtus.end()) ++votes[static_cast<size_t>(mtu - kPathMtus.begin())];
    }
  }
  const auto most = std::ranges::max_element(votes);
  if (*most != 0) return kPathMtus[static_cast<size_t>(most - votes.begin())];
  constexpr size_t kEnough = 3;
  if (odd != nullptr && data_packets >= kEnough && of_this_size == data_packets) *odd = size;
  const auto fits = std::ranges::lower_bound(kPathMtus, largest);
  uint32_t out = fits == kPathMtus.end() ? kPathMtus.back() : *fits;
  for (uint32_t flow : flows) {
    if (flow != kNoFlow) out = std::max(out, pmtu_by_reads(table, flow, out));
  }
  return out;
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
  const uint32_t pmtu = infer_pmtu(table, {a, b});
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

/// Requests of flows between the same two ends that wait for their ACKs, in the order in which they
/// were sent. Ways keep order, so the first one that an ACK can mean is the likeliest: connections
/// that do the same at the same time differ in nothing else.
class AwaitedAcks {
 public:
  explicit AwaitedAcks(size_t flows) : awaited_(flows) {}
  void request(size_t flow, const PacketRecord& p) {
    if (!p.ack_request) return;
    std::deque<Request>& queue = awaited_[flow];
    if (queue.size() == kMostAwaited) queue.pop_front();
    queue.push_back({p.psn, p.frame});
  }
  /// The flow whose request has waited longest for this ACK, which answers those before it too;
  /// nothing if none has.
  std::optional<size_t> ack(const PacketRecord& p) {
    std::optional<size_t> first;
    uint64_t frame = 0;
    for (size_t f = 0; f < awaited_.size(); ++f) {
      const auto found = std::ranges::find(awaited_[f], p.psn, &Request::psn);
      if (found == awaited_[f].end() || (first && found->frame > frame)) continue;
      first = f;
      frame = found->frame;
    }
    if (first) std::erase_if(awaited_[*first], [&](const Request& r) { return r.frame <= frame; });
    return first;
  }

 private:
  static constexpr size_t kMostAwaited = 64;
  struct Request {
    Psn psn;
    uint64_t frame;
  };
  std::vector<std::deque<Request>> awaited_;  ///< the last ones only
};

class Pairing {
 public:
  explicit Pairing(const PacketTable& table)
      : table_(table), partner_(table.flows.size(), kNoFlow), exchange_(table.flows.size()) {}

  std::vector<FlowPair> run() {
    by_cm();
    std::map<std::tuple<IpAddress, IpAddress, uint32_t>, std::vector<uint32_t>> open;
    for (uint32_t f = 0; f < table_.flows.size(); ++f) {
      const Flow& flow = table_.flows[f];
      if (partner_[f] == kNoFlow) open[{flow.src, flow.dst, flow.interface}].push_back(f);
    }
    for (const auto& [ends, flows] : open) {
      const auto& [src, dst, interface] = ends;
      const auto back = open.find({dst, src, interface});
      if (back == open.end() || dst < src) continue;
      by_behaviour(flows, back->second);
    }
    for (const HalfFound& half : half_found_) by_half(half);
    std::vector<FlowPair> out;
    for (uint32_t f = 0; f < table_.flows.size(); ++f) {
      const uint32_t other = partner_[f];
      if (other != kNoFlow && other < f) continue;
      const std::optional<size_t> cm = exchange_[f];
      const uint32_t agreed = cm ? table_.cm_pairs[*cm].path_mtu : 0;
      uint32_t odd = 0;
      const uint32_t inferred = infer_pmtu(table_, {f, other}, &odd);
      out.push_back({f, other, agreed != 0 ? agreed : inferred, cm, agreed != 0 ? 0 : odd});
      const auto wrong = std::ranges::find_if(
          misled_, [&](const Misled& m) { return m.flow == f || m.flow == other; });
      if (wrong == misled_.end()) continue;
      out.back().agreed_qpn = wrong->agreed;
      out.back().misled = wrong->flow;
    }
    return out;
  }

 private:
  void join(uint32_t a, uint32_t b) {
    partner_[a] = b;
    partner_[b] = a;
  }

  void by_cm() {
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
    for (size_t i = 0; i < table_.cm_pairs.size(); ++i) {
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
      join(there, back);
      exchange_[there] = exchange_[back] = i;
    }
  }

  /// An exchange of which one direction is there and the other is not.
  struct HalfFound {
    size_t exchange;
    uint32_t flow;
    Qpn agreed;  ///< of the other direction
  };
  /// What was found to answer that direction is the other one, and goes to another queue pair.
  void by_half(const HalfFound& half) {
    const uint32_t other = partner_[half.flow];
    if (other == kNoFlow || other == half.flow || exchange_[half.flow]) return;
    if (begin(other) < table_.cm_pairs[half.exchange].frame) return;
    exchange_[half.flow] = exchange_[other] = half.exchange;
    misled_.push_back({other, half.agreed});
  }

  uint64_t begin(uint32_t flow) const {
    return table_.packets[table_.flows[flow].packets.front()].frame;
  }

  void by_behaviour(const std::vector<uint32_t>& there, const std::vector<uint32_t>& back) {
    if (there.size() == 1 && back.size() == 1) return join(there[0], back[0]);
    struct Candidate {
      int64_t score;
      uint32_t a, b;
    };
    constexpr int64_t kVote = 3;
    std::vector<Candidate> candidates;
    const std::vector<int64_t> votes = votes_by_order(there, back);
    for (size_t a = 0; a < there.size(); ++a) {
      for (size_t b = 0; b < back.size(); ++b) {
        const int64_t s = score(table_, there[a], back[b]);
        const int64_t vote = votes[a * back.size() + b];
        if (s > 0) candidates.push_back({s + kVote * vote, there[a], back[b]});
      }
    }
    std::ranges::stable_sort(candidates, [](const Candidate& x, const Candidate& y) {
      return x.score > y.score;  // equal ones stay in the order in which they began
    });
    for (const Candidate& c : candidates) {
      if (partner_[c.a] == kNoFlow && partner_[c.b] == kNoFlow) join(c.a, c.b);
    }
  }

  /// How many ACKs of each flow are the first that each flow the other way waits for.
  std::vector<int64_t> votes_by_order(const std::vector<uint32_t>& there,
                                      const std::vector<uint32_t>& back) const {
    struct Event {
      uint32_t packet;
      bool is_there;
      size_t flow;
    };
    std::vector<Event> events;
    const auto add = [&](const std::vector<uint32_t>& flows, bool is_there) {
      for (size_t f = 0; f < flows.size(); ++f) {
        const auto& packets = table_.flows[flows[f]].packets;
        const size_t count = std::min(packets.size(), kScoredPackets);
        for (size_t i = 0; i < count; ++i) events.push_back({packets[i], is_there, f});
      }
    };
    add(there, true);
    add(back, false);
    std::ranges::sort(events, {}, &Event::packet);
    AwaitedAcks of_there(there.size()), of_back(back.size());
    std::vector<int64_t> votes(there.size() * back.size());
    for (const Event& event : events) {
      const PacketRecord& p = table_.packets[event.packet];
      if (p.info().is_request()) {
        (event.is_there ? of_there : of_back).request(event.flow, p);
      } else if (p.info().kind == OpKind::kAck) {
        const auto other = (event.is_there ? of_back : of_there).ack(p);
        if (!other) continue;
        ++votes[event.is_there ? event.flow * back.size() + *other
                               : *other * back.size() + event.flow];
      }
    }
    return votes;
  }

  const PacketTable& table_;
  std::vector<uint32_t> partner_;
  std::vector<std::optional<size_t>> exchange_;  ///< of CM, by flow
  std::vector<HalfFound> half_found_;
  struct Misled {
    uint32_t flow;
    Qpn agreed;
  };
  std::vector<Misled> misled_;
};

}  // namespace

std::vector<FlowPair> pair_flows(const PacketTable& table) { return Pairing(table).run(); }

}  // namespace understudy
