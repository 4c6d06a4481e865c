#include "tools/roce_check/checks/follower.h"

#include <algorithm>
#include <utility>

namespace understudy {
namespace {

constexpr size_t kMostDamaged = 4096;     // PSNs of a flow whose connection is not known yet
constexpr size_t kMostHeldBack = 20'000;  // packets of a connection whose path MTU is not known yet
constexpr uint32_t kLeastPathMtu = 256;

/// Both directions of a connection travel with one P_Key and in one VLAN.
void compare_ways(const Flow& there, const Flow& back, Stamp stamp, Findings& findings) {
  constexpr uint16_t kFullMember = 0x8000;
  constexpr uint16_t kVlanId = 0xfff;
  const uint16_t a = there.traffic.pkey;
  const uint16_t b = back.traffic.pkey;
  if ((a & ~kFullMember) != (b & ~kFullMember) || ((a | b) & kFullMember) == 0) {
    findings.add(
        Rule::kA1_10, stamp,
        back.name() + ": P_Key " + std::to_string(b) + ", the other way " + std::to_string(a));
  }
  if (there.traffic.tagged != back.traffic.tagged ||
      ((there.traffic.vlan_tci ^ back.traffic.vlan_tci) & kVlanId) != 0) {
    findings.add(Rule::kA1_12, stamp, back.name() + ": another VLAN than the other way");
  }
}

}  // namespace

Follower::Follower(const AnalysisOptions& options, Analysis& analysis)
    : options_(options),
      analysis_(analysis),
      table_(analysis.table),
      pairing_(analysis.table, [this](uint32_t alone, Psn psn) {
        const RequestStream* stream = stream_of(alone);
        return stream != nullptr && stream->waits_for(psn);
      }) {}

void Follower::follow(bool all) {
  find_pairs(all);
  for (const auto& c : connections_) {
    if (!learn(*c, all)) continue;
    feed(*c);
    for (const uint32_t flow : {c->pair.forward, c->pair.reverse}) {
      if (flow != kNoFlow) std::vector<uint32_t>().swap(table_.flows[flow].packets);
    }
  }
}

void Follower::finish() {
  find_pairs(true);
  // In the order in which they began, however late their other directions were found.
  std::ranges::stable_sort(connections_, {}, [](const auto& c) { return c->pair.forward; });
  for (const auto& c : connections_) {
    learn(*c, true);
    feed(*c);
    end(*c);
  }
  if (sent_before_ != 0) {
    analysis_.findings.note(
        Check::kComplete, std::to_string(sent_before_) +
                              " packets were on their way when the capture began, as others show");
  }
}

bool Follower::gapless() const {
  const SourceSummary& source = analysis_.source;
  return complete_ ||
         (source.drops == 0 && !source.truncated && source.cut_frames == 0 && not_captured_ == 0);
}

void Follower::find_pairs(bool all) {
  const Pairing::Found found = pairing_.pair(all);
  of_flow_.resize(table_.flows.size(), nullptr);
  meters_.resize(table_.flows.size());
  for (const FlowPair& pair : found.pairs) add(pair);
  for (const auto& [alone, back] : found.late) {
    Connection& c = *of_flow_[alone];
    c.pair.reverse = back;
    of_flow_[back] = &c;
    c.reverse->set_other_way(table_.flows[back].name());
    c.forward->set_other_way(table_.flows[alone].name());
  }
  for (const DamagedPacket& d : table_.damaged) {
    if (RequestStream* stream = stream_of(d.flow)) {
      stream->damaged(d.psn);
    } else if (auto& waiting = damaged_[d.flow]; waiting.size() < kMostDamaged) {
      waiting.push_back(d.psn);
    }
  }
  table_.damaged.clear();
}

void Follower::add(const FlowPair& pair) {
  Connection& c = *connections_.emplace_back(std::make_unique<Connection>());
  c.pair = pair;
  c.agreed_pmtu = pair.pmtu;
  for (const uint32_t flow : {pair.forward, pair.reverse}) {
    if (flow != kNoFlow) of_flow_[flow] = &c;
  }
  c.forward = std::make_unique<RequestStream>(table_.flows[pair.forward].name(), 0,
                                              context(pair, pair.forward, pair.reverse),
                                              analysis_.findings);
  c.reverse = std::make_unique<RequestStream>(
      pair.reverse != kNoFlow ? table_.flows[pair.reverse].name()
                              : "answer to " + table_.flows[pair.forward].name(),
      0, context(pair, pair.reverse, pair.forward), analysis_.findings);
  for (const uint32_t flow : {pair.forward, pair.reverse}) {
    const auto waiting = damaged_.find(flow);
    if (waiting == damaged_.end()) continue;
    for (const Psn psn : waiting->second) stream_of(flow)->damaged(psn);
    damaged_.erase(waiting);
  }
}

/// What its packets say of the path MTU. False: not enough, where READs need to know it; more
/// packets are waited for.
bool Follower::learn(Connection& c, bool all) {
  const FlowPair& pair = c.pair;
  const uint32_t flows[] = {pair.forward, pair.reverse};
  bool long_reads = false;
  size_t held = 0;
  for (const uint32_t flow : flows) {
    if (flow == kNoFlow) continue;
    held += table_.flows[flow].packets.size();
    for (const uint32_t index : table_.flows[flow].packets) {
      const PacketRecord& p = table_.packets[index];
      if (index >= table_.newest || !c.counted) c.pmtu.add(p);
      long_reads |= p.info().kind == OpKind::kReadRequest && p.dma_length > kLeastPathMtu;
    }
  }
  c.counted = true;
  for (const uint32_t flow : flows) {
    if (flow != kNoFlow) c.pmtu.add_reads(table_, table_.flows[flow].packets);
  }
  const bool known = c.agreed_pmtu != 0 || c.pmtu.is_shown() || c.pmtu.odd() != 0 || !long_reads;
  if (!known && !all && held < kMostHeldBack) return false;
  begin(c);
  return true;
}

/// Before packets are followed: what is known of both directions by now.
void Follower::begin(Connection& c) {
  FlowPair& pair = c.pair;
  pair.odd_mtu = c.agreed_pmtu != 0 ? 0 : c.pmtu.odd();
  pair.pmtu = c.agreed_pmtu != 0 ? c.agreed_pmtu : c.pmtu.value();
  const uint32_t pmtu = pair.odd_mtu != 0 ? pair.odd_mtu : pair.pmtu;
  for (RequestStream* stream : {c.forward.get(), c.reverse.get()}) {
    stream->set_pmtu(pmtu);
    stream->set_complete(complete_);
  }
  if (pair.odd_mtu != 0 && !c.odd_said) {
    c.odd_said = true;
    analysis_.findings.add(Rule::kA1_13, table_.flows[pair.forward].first.stamp(),
                           table_.flows[pair.forward].name() +
                               ": messages are cut into packets of " +
                               std::to_string(pair.odd_mtu) + " bytes");
  }
  if (pair.reverse != kNoFlow && pair.reverse != pair.forward && !c.ways_compared) {
    c.ways_compared = true;
    compare_both(c);
  }
}

void Follower::compare_both(Connection& c) {
  const FlowPair& pair = c.pair;
  if (pair.misled != kNoFlow) {
    const Flow& flow = table_.flows[pair.misled];
    analysis_.findings.add(
        Rule::kA9_2, flow.first.stamp(),
        flow.name() + ": RDMA-CM agreed on queue pair " + std::to_string(pair.agreed_qpn));
  }
  const Flow& back = table_.flows[pair.reverse];
  compare_ways(table_.flows[pair.forward], back, back.first.stamp(), analysis_.findings);
}

void Follower::feed(Connection& c) {
  const uint32_t f = c.pair.forward;
  const uint32_t r = c.pair.reverse;
  static const std::vector<uint32_t> kNothing;
  const auto& there = table_.flows[f].packets;
  const auto& back = r != kNoFlow && r != f ? table_.flows[r].packets : kNothing;
  size_t i = 0, j = 0;
  while (i < there.size() || j < back.size()) {
    const bool take_there = j == back.size() || (i < there.size() && there[i] < back[j]);
    const PacketRecord& p = table_.packets[take_there ? there[i++] : back[j++]];
    RequestStream& asks = take_there ? *c.forward : *c.reverse;
    RequestStream& answered = take_there && r != f ? *c.reverse : *c.forward;
    if (p.info().unreliable) {
      asks.unreliable(p);
    } else if (p.info().is_request()) {
      const unsigned resets = asks.resets();
      asks.request(p);
      if (r == f) continue;
      RequestStream& other = take_there ? *c.reverse : *c.forward;
      if (asks.resets() != resets) other.other_way_is_reset();
      if (p.info().end) other.other_way_said(p.stamp());
    } else {
      answered.response(p);
    }
  }
  measure(f);
  if (r != f && r != kNoFlow) measure(r);
}

void Follower::measure(uint32_t flow) {
  if (table_.flows[flow].packets.empty()) return;
  for (const uint32_t index : table_.flows[flow].packets) {
    const PacketRecord& p = table_.packets[index];
    meters_[flow].add(p.at, p.wire_bytes);
  }
  meters_[flow].settle();
}

void Follower::end(Connection& c) {
  const uint32_t f = c.pair.forward;
  const uint32_t r = c.pair.reverse;
  ConnectionResult out;
  out.connection = c.pair;
  out.broken = c.forward->broken() || c.reverse->broken();
  const bool excused = out.broken || options_.open_end || options_.partial;
  c.forward->finish(excused);
  c.reverse->finish(excused);
  out.forward = {f, c.forward->counts(), c.forward->times(), rate(f), c.forward->messages()};
  out.reverse = {r, c.reverse->counts(), c.reverse->times(), rate(r), c.reverse->messages()};
  for (const DirectionResult* d : {&out.forward, &out.reverse}) missing(*d);
  analysis_.connections.push_back(std::move(out));
}

RequestStream* Follower::stream_of(uint32_t flow) {
  Connection* c = flow < of_flow_.size() ? of_flow_[flow] : nullptr;
  if (c == nullptr) return nullptr;
  return c->pair.forward == flow ? c->forward.get() : c->reverse.get();
}

StreamContext Follower::context(const FlowPair& pair, uint32_t flow, uint32_t other) const {
  StreamContext out;
  out.complete = complete_;
  out.from_start = (analysis_.source.has_run_times && !options_.partial) || pair.cm.has_value();
  if (pair.cm && flow != kNoFlow) {
    const CmPair& cm = table_.cm_pairs[*pair.cm];
    const CmSide& side = table_.flows[flow].src == cm.active.address ? cm.active : cm.passive;
    out.limits = side.limits;
    out.first_psn = side.first_psn;
  }
  out.whole_from = analysis_.source.whole_from;
  out.impaired = options_.impaired;
  out.other_way = other != kNoFlow;
  out.keep_messages = options_.keeps_all();
  return out;
}

QueueRate Follower::rate(uint32_t flow) const {
  return flow == kNoFlow ? QueueRate{} : meters_[flow].rate();
}

void Follower::missing(const DirectionResult& d) {
  sent_before_ += d.counts.sent_before;
  const uint64_t count = d.counts.not_captured;
  if (count == 0) return;
  not_captured_ += count;
  const std::string name =
      d.flow == kNoFlow ? std::string("the other direction") : table_.flows[d.flow].name();
  analysis_.findings.add(
      Rule::kComplete, {},
      name + ": " + std::to_string(count) + " packets were not captured, as others show");
}

}  // namespace understudy
