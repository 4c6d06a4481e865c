// The full dependency graph of one ring all-reduce: a node for every kernel operation and every
// transmission of every rank, real and emulated. An independent oracle for the plan: it shares
// nothing with PlanRun but the schedule's message sizes, and is evaluated by longest path in
// topological order (depth first).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "collective_model/plan.h"

namespace understudy {

class RingGraph {
 public:
  using Node = uint32_t;
  struct Edge {
    Node from;
    int64_t delay;  ///< ps
    bool data;      ///< the payload itself, not an order, a credit or a window
  };

  /// `entries[r]` is rank r's entry. Real ranks' operations, transmissions to or from real ranks
  /// and acknowledgements to emulated ones take up to `noise` longer, by a hash of `seed`.
  /// `coalesce`: a real rank acknowledges both slices of a step together.
  RingGraph(const RingPlan& plan, std::vector<int64_t> entries, int64_t noise, uint64_t seed,
            bool coalesce)
      : plan_(plan),
        entries_(std::move(entries)),
        noise_(noise),
        seed_(seed),
        coalesce_(coalesce),
        n_(plan.ranks()),
        per_loop_(4 * (n_ - 1)),
        messages_(plan.schedule().loops() * per_loop_),
        value_(size_t{n_} * (2 * messages_ + 2 * plan.schedule().loops()), kUnknown) {}

  uint32_t messages() const { return messages_; }

  Node process(uint32_t r, uint32_t m) const { return r * messages_ + m; }
  Node end(uint32_t r, uint32_t m) const { return (n_ + r) * messages_ + m; }
  /// For received messages m of a loop's last step.
  Node copy_out(uint32_t r, uint32_t m) const {
    const uint32_t loops = plan_.schedule().loops();
    return 2 * n_ * messages_ + (r * loops + m / per_loop_) * 2 + m % 2;
  }

  int64_t process_time(uint32_t r, uint32_t m) { return value(process(r, m)); }
  int64_t arrival_time(uint32_t r, uint32_t m) {
    return value(end(before(r), m)) + latency(before(r));
  }
  int64_t acked_time(uint32_t r, uint32_t m) {
    return value(end(r, acked_with(r, m))) + 2 * latency(r) + ack_delay(r);
  }
  int64_t grant_time(uint32_t r, uint32_t m) {
    if (m >= 4) return value(user(r, m - 4));
    return plan_.credits_preposted() ? kLongBefore.ps() : entries_[r];
  }
  int64_t completion_time(uint32_t r) { return value(copy_out(r, messages_ - 1)); }

  /// Calls visit(edge) for every edge into `node`.
  template <typename Visit>
  void edges_into(Node node, Visit visit) const {
    const uint32_t sends = n_ * messages_;
    if (node >= 2 * sends) {
      const uint32_t index = node - 2 * sends, loops = plan_.schedule().loops();
      const uint32_t r = index / 2 / loops, loop = index / 2 % loops, s = index % 2;
      const uint32_t last = (loop + 1) * per_loop_ - 1;
      visit(Edge{process(r, last), 0, false});
      visit(arrival(r, last - 1 + s));
      if (s == 1) visit(Edge{copy_out(r, last - 1), 0, false});
      return;
    }
    const uint32_t r = node % sends / messages_, m = node % messages_;
    if (node >= sends) {
      const int64_t wire = wire_time(r, m);
      visit(Edge{process(r, m), wire, true});
      if (m > 0) visit(Edge{end(r, m - 1), wire, false});
      if (m >= 4) visit(Edge{user(after(r), m - 4), latency(r) + wire, false});
      return;
    }
    if (m > 0) visit(Edge{process(r, m - 1), 0, false});
    if (m >= 4) visit(Edge{end(r, acked_with(r, m - 4)), 2 * latency(r) + ack_delay(r), false});
    if (m % per_loop_ >= 2) {
      visit(arrival(r, m - 2));
    } else if (m >= per_loop_) {
      const uint32_t loop_start = m / per_loop_ * per_loop_;
      for (uint32_t i = loop_start - per_loop_; i < loop_start; ++i) visit(arrival(r, i));
    }
  }

  int64_t value(Node wanted) {
    if (value_[wanted] != kUnknown) return value_[wanted];
    stack_.assign(1, wanted);
    while (!stack_.empty()) {
      const Node node = stack_.back();
      if (value_[node] >= 0) {
        stack_.pop_back();
        continue;
      }
      const size_t before = stack_.size();
      int64_t latest = source(node);
      edges_into(node, [&](const Edge& edge) {
        const int64_t from = value_[edge.from];
        if (from == kOpen) ADD_FAILURE() << "cycle through node " << node;
        if (from < 0) {
          stack_.push_back(edge.from);
        } else {
          latest = std::max(latest, from + edge.delay);
        }
      });
      if (stack_.size() > before) {
        if (::testing::Test::HasFailure()) return 0;
        value_[node] = kOpen;  // it is looked at again above its dependencies
        continue;
      }
      value_[node] = latest + extra(node);
    }
    return value_[wanted];
  }

 private:
  static constexpr int64_t kUnknown = -1;
  static constexpr int64_t kOpen = -2;

  uint32_t after(uint32_t r) const { return (r + 1) % n_; }
  uint32_t before(uint32_t r) const { return (r + n_ - 1) % n_; }
  int64_t latency(uint32_t r) const { return plan_.hop(r).latency.ps(); }

  int64_t wire_time(uint32_t r, uint32_t m) const {
    const WireCost& wire = plan_.wire();
    const uint64_t size = plan_.schedule().sent(r, m).size;
    uint64_t bytes = wire.first_extra + wire.last_extra + wire.overhead;
    for (uint64_t left = size; left > wire.mtu; left -= wire.mtu) bytes += wire.overhead;
    const unsigned __int128 bits = static_cast<unsigned __int128>(bytes + size) * 8;
    return static_cast<int64_t>(bits * 1'000'000'000'000u / plan_.hop(r).rate.bps());
  }

  Edge arrival(uint32_t r, uint32_t m) const {
    return {end(before(r), m), latency(before(r)) + plan_.step_cost().ps(), true};
  }
  /// What rank r does with received message m: forwards it, or copies it out.
  Node user(uint32_t r, uint32_t m) const {
    return m % per_loop_ + 2 >= per_loop_ ? copy_out(r, m) : process(r, m + 2);
  }
  uint32_t acked_with(uint32_t r, uint32_t m) const {
    return coalesce_ && plan_.is_real(after(r)) ? m | 1 : m;
  }
  int64_t ack_delay(uint32_t r) const { return plan_.is_real(after(r)) ? hash(r + 0x80000000) : 0; }

  /// Earliest time without any edge.
  int64_t source(Node node) const {
    const uint32_t sends = n_ * messages_;
    if (node < sends) return entries_[node / messages_];
    if (node >= 2 * sends) return 0;
    // The first credits: granted at the receiver's entry.
    const uint32_t r = node % sends / messages_, m = node % messages_;
    if (m >= 4 || plan_.credits_preposted()) return 0;
    return entries_[after(r)] + latency(r) + wire_time(r, m);
  }
  int64_t extra(Node node) const {
    const uint32_t sends = n_ * messages_;
    const uint32_t r = node >= 2 * sends ? (node - 2 * sends) / 2 / plan_.schedule().loops()
                                         : node % sends / messages_;
    const bool to_real = node >= sends && node < 2 * sends && plan_.is_real(after(r));
    return plan_.is_real(r) || to_real ? hash(node) : 0;
  }
  int64_t hash(uint64_t x) const {
    if (noise_ == 0) return 0;
    x = (x + seed_ * 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 31)) * 0x94d049bb133111eb;
    x ^= x >> 29;
    // Mostly nothing, at times a lot.
    return x % 4 == 0 ? static_cast<int64_t>((x >> 8) % static_cast<uint64_t>(noise_)) : 0;
  }

  const RingPlan& plan_;
  std::vector<int64_t> entries_;
  int64_t noise_;
  uint64_t seed_;
  bool coalesce_;
  uint32_t n_;
  uint32_t per_loop_;
  uint32_t messages_;
  std::vector<int64_t> value_;
  std::vector<Node> stack_;
};

}  // namespace understudy
