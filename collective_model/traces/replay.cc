#include "collective_model/traces/replay.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "collective_model/traces/replay_check.h"
#include "collective_model/traces/ring_runs.h"
#include "collective_model/traces/trace_computing.h"
#include "collective_model/traces/trace_matching.h"
#include "collective_model/traces/trace_transfers.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

using Kind = TraceNodeKind;

Time time_of(int64_t ns) { return Time::zero() + Duration::ns(ns); }

class Replay final : private TraceNodeListener {
 public:
  Replay(const TraceJob& job, const ReplaySettings& settings, const TraceOrders& orders,
         TraceRings& rings, bool apart)
      : job_(job),
        settings_(settings),
        computing_(settings.rules, settings.system),
        messages_(settings.network, events_),
        runs_(rings, settings.network, events_, messages_, static_cast<uint32_t>(job.ranks.size()),
              apart),
        transfers_(settings.memory),
        executor_(job, orders, settings.rules, true),
        computed_(job.ranks.size()) {
    executor_.listen(*this);
  }

  Result<std::vector<RankReplay>> run() {
    executor_.begin(Time::zero());
    while (!events_.empty() && !error_ && !events_.too_long()) {
      const TraceEvent event = events_.take();
      now_ = event.at;
      handle(event);
    }
    if (error_) return fail(*error_);
    if (events_.too_long()) return fail("it takes more than 46 days in all");
    for (uint32_t rank = 0; rank < executor_.ranks(); ++rank) {
      if (executor_.left(rank) > 0) return fail(unfinished(rank));
    }
    std::vector<RankReplay> results;
    for (uint32_t rank = 0; rank < executor_.ranks(); ++rank) {
      const Time finish = executor_.finish(rank);
      const Duration computed = Duration::ns(computed_[rank]);
      results.push_back({finish, finish - Time::zero() - computed, executor_.times(rank)});
    }
    return results;
  }

 private:
  const TraceNode& node(uint32_t rank, uint32_t index) const { return executor_.node(rank, index); }

  void handle(const TraceEvent& event) {
    switch (event.kind) {
      case TraceEvent::Kind::kNodeEnds:
        end(event.a, event.b);
        break;
      case TraceEvent::Kind::kTransferEnds:
        end(event.a, event.b);
        if (const auto next = transfers_.ended(event.a)) transfer(*next);
        break;
      case TraceEvent::Kind::kRingRankReady:
        runs_.ready(now_, event.a, event.b);
        break;
      case TraceEvent::Kind::kMessageAtHop:
        if (const TraceMessage* arrived = messages_.arrived(now_, event.a)) {
          const TraceMessage message = *arrived;
          messages_.forget(event.a);
          take_message(message);
        }
        break;
    }
  }

  void end(uint32_t rank, uint32_t index) { executor_.ended(rank, index, time_of(now_)); }

  void stop(std::string error) {
    error_ = std::move(error);
    executor_.stop();
  }

  // TraceNodeListener
  bool is_skipped(uint32_t rank, uint32_t index) override {
    return computing_.is_skipped(node(rank, index));
  }
  void begins(uint32_t rank, uint32_t index, Time /*now*/) override {
    const TraceNode& what = node(rank, index);
    if (computing_.is_computed(what)) return compute(rank, index, what);
    switch (what.kind) {
      case Kind::kMemoryLoad:
      case Kind::kMemoryStore: {
        const TraceTransfers::Transfer asked{rank, index, what.tensor_bytes};
        if (transfers_.begins(asked)) transfer(asked);
        break;
      }
      case Kind::kSend: {
        TraceMessage message;
        message.from = rank;
        message.to = *what.destination;
        message.bytes = *what.bytes;
        message.node = index;
        messages_.send(now_, message);
        break;
      }
      case Kind::kReceive:
        begin_receive(rank, index, what);
        break;
      case Kind::kCollective:
        begin_collective(rank, index, what);
        break;
      default:
        break;
    }
  }

  void compute(uint32_t rank, uint32_t index, const TraceNode& what) {
    const auto takes = computing_.takes(what);
    if (!takes) {
      return stop("a computation of " + std::to_string(what.operations) + " operations and " +
                  std::to_string(what.tensor_bytes) + " bytes has no time by the roofline");
    }
    if (!what.on_cpu) computed_[rank] += *takes;
    events_.add(now_ + *takes, now_, TraceEvent::Kind::kNodeEnds, rank, index);
  }

  void transfer(const TraceTransfers::Transfer& now) {
    events_.add(now_ + transfers_.takes(now), now_, TraceEvent::Kind::kTransferEnds, now.rank,
                now.index);
  }

  void begin_collective(uint32_t number, uint32_t index, const TraceNode& what) {
    if (*what.collective == TraceCollective::kBroadcast) {
      return events_.add(now_ + TraceComputing::recorded(what), now_, TraceEvent::Kind::kNodeEnds,
                         number, index);
    }
    const auto entered = runs_.enter(now_, number, index, what);
    if (!entered) stop(place_text(job_, number, what) + ": " + entered.error().text);
  }

  void begin_receive(uint32_t number, uint32_t index, const TraceNode& what) {
    Meeting& meeting = meetings_[message_key(number, what)];
    if (meeting.arrived == 0) {
      meeting.receives.push_back(index);
      return;
    }
    --meeting.arrived;
    events_.add(now_, now_, TraceEvent::Kind::kNodeEnds, number, index);
  }

  void take_message(const TraceMessage& message) {
    if (message.of_ring) return runs_.message_arrived(now_, message);
    Meeting& meeting = meetings_[message_key(message.from, node(message.from, message.node))];
    std::optional<uint32_t> receive;
    if (meeting.receives.empty()) {
      ++meeting.arrived;
    } else {
      receive = meeting.receives.front();
      meeting.receives.pop_front();
    }
    end(message.from, message.node);
    if (receive) end(message.to, *receive);
  }

  /// Of a rank that does not finish, though nothing more happens.
  std::string unfinished(uint32_t number) const {
    for (uint32_t index = 0; index < executor_.nodes(number); ++index) {
      const TraceNode& what = node(number, index);
      if (!executor_.has_begun(number, index) || executor_.times(number)[index].skipped) continue;
      if (what.kind == Kind::kCollective) {
        const std::string missing = runs_.waits_for(number, index);
        if (!missing.empty()) {
          return place_text(job_, number, what) + ": never ends: it waits for " + missing;
        }
      }
      if (what.kind != Kind::kReceive || settings_.system.replay) continue;
      const auto found = meetings_.find(message_key(number, what));
      if (found == meetings_.end()) continue;
      const auto& waiting = found->second.receives;
      if (std::find(waiting.begin(), waiting.end(), index) == waiting.end()) continue;
      return place_text(job_, number, what) + ": never ends: rank " + std::to_string(*what.source) +
             " never sends the message";
    }
    for (uint32_t index = 0; index < executor_.nodes(number); ++index) {
      if (!executor_.is_free(number, index) || !executor_.startable(number)) continue;
      return place_text(job_, number, node(number, index)) +
             ": never begins: a node without work freed it, and nothing happens after that "
             "(by the third feeder's rules ASTRA-sim ends here without a result)";
    }
    return "rank " + std::to_string(number) + " does not finish";
  }

  struct Meeting {
    uint64_t arrived = 0;
    std::deque<uint32_t> receives;
  };

  const TraceJob& job_;
  const ReplaySettings& settings_;
  const TraceComputing computing_;
  int64_t now_ = 0;
  TraceEvents events_;
  TraceMessages messages_;
  RingRuns runs_;
  TraceTransfers transfers_;
  TraceExecutor executor_;
  std::vector<int64_t> computed_;  ///< by rank: ns, outside the CPU
  std::map<TraceMessageKey, Meeting> meetings_;
  std::optional<std::string> error_;
};

}  // namespace

Result<std::vector<RankReplay>> replay(const TraceJob& job, const ReplaySettings& settings) {
  if (job.ranks.size() != settings.network.ranks()) {
    return fail("there are traces of " + std::to_string(job.ranks.size()) +
                " ranks, and the network has " + std::to_string(settings.network.ranks()));
  }
  const TraceOrders orders = TRY(order_job(job, settings.rules));
  TraceRings rings(job, settings.network, settings.system, settings.rules);
  TRY(check_replay(job, settings, rings));
  const bool apart = settings.system.replay || !settings.network.congestion_aware() ||
                     links_of_one_rank(job, settings, rings);
  return Replay(job, settings, orders, rings, apart).run();
}

}  // namespace understudy
