// Flows as rates whose routing reacts to links that go down and come up.
#include <algorithm>
#include <utility>

#include "dataplane/flows/flow_model.h"

namespace understudy {

void FlowModel::reroute_after(Duration after, Routes routes) {
  const size_t links = capacity_.size();
  reaction_ = std::make_unique<Reaction>(Reaction{after,
                                                  std::move(routes),
                                                  {},
                                                  std::vector<Time>(links),
                                                  std::vector<bool>(links),
                                                  std::vector<uint32_t>(links, kNoOutage),
                                                  std::vector<uint64_t>(links)});
}

void FlowModel::note_outage(const RateChange& change) {
  if (change.outage == kNoOutage || !change.stops()) return;
  last_outage_ = change.outage;
  if (last_outage_ >= recoveries_.size()) recoveries_.resize(last_outage_ + 1);
  if (recoveries_[last_outage_].at.is_never()) recoveries_[last_outage_].at = now_;
  if (reaction_ != nullptr) reaction_->outage_of[change.link] = last_outage_;
}

/// Its rate is about to become this one.
void FlowModel::note_rate(Sender& s, MaxMin::Share rate) {
  if (rate == 0 && s.rate != 0 && s.outage == kNoOutage && s.first != kNone) {
    s.outage = last_outage_;
    ++recoveries_[s.outage].stopped;
  } else if (rate != 0 && s.outage != kNoOutage) {
    Recovery& recovery = recoveries_[s.outage];
    ++recovery.again;
    recovery.longest = std::max(recovery.longest, now_ - recovery.at);
    s.outage = kNoOutage;
  }
}

/// Whatever is at its ends besides switches.
bool FlowModel::is_down(LinkId link) const {
  return down_[link] != 0 || (closed_[link] & ~(kPaused | kStorm)) != 0;
}

/// The link has gone down, or come up: the routing will find out, if that lasts.
void FlowModel::await_reroute(LinkId link, Time changed) {
  if (reaction_ == nullptr) return;
  reaction_->moved[link] = changed;
  reaction_->findings.emplace(changed + reaction_->after, link);
}

/// Takes all links out of the paths, or back, that have been as they are for long enough.
void FlowModel::reroute() {
  if (reaction_ == nullptr) return;
  Reaction& r = *reaction_;
  std::vector<LinkState> states;
  for (; !r.findings.empty() && r.findings.begin()->first <= now_;
       r.findings.erase(r.findings.begin())) {
    const LinkId link = r.findings.begin()->second;
    const bool down = is_down(link);
    if (r.moved[link] + r.after > now_ || down == r.left_out[link]) continue;
    r.left_out[link] = down;
    states.push_back({link, !down});
    if (down && r.outage_of[link] != kNoOutage) recoveries_[r.outage_of[link]].rerouted = now_;
  }
  if (states.empty()) return;
  r.routes.set_links(states);
  for (uint32_t sender = 0; sender < routes_.ends.size(); ++sender) {
    if (routes_.ends[sender].to != kNoVertex) move(sender);
  }
}

/// To the path that the routing chooses now.
void FlowModel::move(uint32_t sender) {
  const FlowSenders::Ends& ends = routes_.ends[sender];
  const std::vector<LinkId> path = reaction_->routes.path(ends.from, ends.to, ends.hash);
  Sender& s = senders_[sender];
  if (!s.cut_off && std::ranges::equal(path, rates_.path(sender))) return;
  rest(sender);
  drop_stream(sender);
  s.cut_off = path.empty();
  if (s.cut_off) return;
  if (s.first != kNone) {
    const Work per_byte = static_cast<Work>(Rate::kPsBitsPerByte) << MaxMin::kFractionBits;
    const auto left = static_cast<uint64_t>((s.left + per_byte - 1) / per_byte);
    const uint64_t gone = wire_bytes_[s.first] - left;
    s.bytes += gone - s.elsewhere;
    s.elsewhere = gone;
  }
  for (const LinkId link : rates_.path(sender)) reaction_->carried[link] += s.bytes;
  s.bytes = 0;
  rates_.move(sender, path);
  if (s.first != kNone && heard_[s.first] && !is_short(s.first)) note_stream(sender);
  activate(sender);
}

}  // namespace understudy
