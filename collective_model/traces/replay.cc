#include "collective_model/traces/replay.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "collective_model/traces/free_nodes.h"
#include "collective_model/traces/replay_check.h"
#include "collective_model/traces/ring_runs.h"
#include "collective_model/traces/trace_transfers.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

using Kind = TraceNodeKind;

Time time_of(int64_t ns) { return Time::zero() + Duration::ns(ns); }

struct Rank {
  const TraceGraph* graph = nullptr;
  const TraceOrder* order = nullptr;
  std::vector<uint32_t> parents;  ///< by node: how many it still waits for
  std::vector<bool> begun;
  FreeNodes free;
  size_t left = 0;
  int64_t computed = 0;  ///< ns, outside the CPU
  bool visiting = false;
  std::vector<uint32_t> freed_by_skip;  ///< kFeeder3: not visited in the same round
  RankReplay result;
};

class Replay {
 public:
  Replay(const TraceJob& job, const ReplaySettings& settings,
         const std::map<const TraceGraph*, TraceOrder>& orders, TraceRings& rings, bool apart)
      : job_(job),
        settings_(settings),
        messages_(settings.network, events_),
        runs_(rings, settings.network, events_, messages_, static_cast<uint32_t>(job.ranks.size()),
              apart),
        transfers_(settings.memory, events_),
        ranks_(job.ranks.size()) {
    for (size_t i = 0; i < ranks_.size(); ++i) {
      Rank& rank = ranks_[i];
      rank.graph = job.ranks[i].get();
      rank.order = &orders.at(rank.graph);
      rank.parents = rank.order->parents;
      rank.left = rank.parents.size();
      rank.begun.resize(rank.left);
      rank.result.nodes.resize(rank.left);
    }
  }

  Result<std::vector<RankReplay>> run() {
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      for (uint32_t index = 0; index < ranks_[rank].parents.size(); ++index) {
        if (ranks_[rank].parents[index] == 0) set_free(rank, index);
      }
      visit(rank);
    }
    while (!events_.empty() && !error_ && !events_.too_long()) {
      const TraceEvent event = events_.take();
      now_ = event.at;
      handle(event);
    }
    if (error_) return fail(*error_);
    if (events_.too_long()) return fail("it takes more than 46 days in all");
    std::vector<RankReplay> results;
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].left > 0) return fail(unfinished(rank));
    }
    for (Rank& rank : ranks_) results.push_back(std::move(rank.result));
    return results;
  }

 private:
  const TraceNode& node(uint32_t rank, uint32_t index) const {
    return ranks_[rank].graph->nodes()[index];
  }

  void handle(const TraceEvent& event) {
    switch (event.kind) {
      case TraceEvent::Kind::kNodeEnds:
        end(event.a, event.b);
        break;
      case TraceEvent::Kind::kTransferEnds:
        end(event.a, event.b);
        transfers_.ended(now_, event.a);
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

  void set_free(uint32_t rank, uint32_t index) {
    ranks_[rank].free.add(slot_of(node(rank, index)), index);
  }

  /// Begins what can begin, in the order of ids.
  void visit(uint32_t number) {
    Rank& rank = ranks_[number];
    rank.visiting = true;
    while (const auto index = rank.free.take()) {
      if (error_) return;
      begin(number, *index);
    }
    rank.visiting = false;
    for (const uint32_t index : rank.freed_by_skip) set_free(number, index);
    rank.freed_by_skip.clear();
    if (rank.left > 0) return;
    rank.result.finish = time_of(now_);
    rank.result.exposed = Duration::ns(now_ - rank.computed);
  }

  void end(uint32_t number, uint32_t index) {
    Rank& rank = ranks_[number];
    rank.result.nodes[index].end = time_of(now_);
    rank.free.release(slot_of(node(number, index)));
    free_children(number, index);
    visit(number);
  }

  void free_children(uint32_t number, uint32_t index) {
    Rank& rank = ranks_[number];
    --rank.left;
    const TraceOrder& order = *rank.order;
    for (uint32_t e = order.first[index]; e < order.first[index + 1]; ++e) {
      const uint32_t child = order.children[e];
      if (--rank.parents[child] > 0) continue;
      if (rank.visiting && settings_.rules == TraceRules::kFeeder3) {
        rank.freed_by_skip.push_back(child);
      } else {
        set_free(number, child);
      }
    }
  }

  void skip(uint32_t number, uint32_t index) {
    RankReplay& result = ranks_[number].result;
    result.nodes[index] = {time_of(now_), time_of(now_), true};
    free_children(number, index);
  }

  void begin(uint32_t number, uint32_t index) {
    Rank& rank = ranks_[number];
    const TraceNode& what = node(number, index);
    rank.begun[index] = true;
    if (!settings_.system.replay && is_skipped(what)) return skip(number, index);
    rank.result.nodes[index].begin = time_of(now_);
    rank.free.occupy(slot_of(what));
    if (settings_.system.replay || is_computed(what)) {
      const int64_t takes = computation(what);
      if (!what.on_cpu) rank.computed += takes;
      return events_.add(now_ + takes, now_, TraceEvent::Kind::kNodeEnds, number, index);
    }
    switch (what.kind) {
      case Kind::kMemoryLoad:
      case Kind::kMemoryStore:
        transfers_.begin(now_, number, index, what.tensor_bytes);
        break;
      case Kind::kSend: {
        TraceMessage message;
        message.from = number;
        message.to = *what.destination;
        message.bytes = *what.bytes;
        message.node = index;
        messages_.send(now_, message);
        break;
      }
      case Kind::kReceive:
        begin_receive(number, index, what);
        break;
      case Kind::kCollective:
        begin_collective(number, index, what);
        break;
      default:
        break;
    }
  }

  /// Nothing is to be done, and by these rules it takes no time.
  bool is_skipped(const TraceNode& what) const {
    if (settings_.rules == TraceRules::kFeeder1) {
      return is_computed(what) && what.duration_us == 0 && what.operations == 0;
    }
    return is_computed(what) && settings_.system.roofline && !what.on_cpu && what.tensor_bytes == 0;
  }

  /// A computation, or by the first rules whatever but memory is on the CPU.
  bool is_computed(const TraceNode& what) const {
    if (what.kind == Kind::kCompute) return true;
    return settings_.rules == TraceRules::kFeeder1 && what.on_cpu &&
           what.kind != Kind::kMemoryLoad && what.kind != Kind::kMemoryStore;
  }

  /// In ns.
  int64_t computation(const TraceNode& what) {
    const TraceSystem& system = settings_.system;
    const bool by_roofline = system.roofline && !system.replay &&
                             (settings_.rules == TraceRules::kFeeder1 || !what.on_cpu);
    if (!by_roofline) return recorded(what);
    const auto operations = static_cast<double>(what.operations);
    const double intensity = operations / static_cast<double>(what.tensor_bytes);
    const double rate = std::min(system.memory_gb_s * 1e9 * intensity, system.peak_tflops * 1e12);
    const double takes = std::floor(operations / rate * 1e9);
    if (takes < kLongestTraceNs) return static_cast<int64_t>(takes);
    error_ = "a computation of " + std::to_string(what.operations) + " operations and " +
             std::to_string(what.tensor_bytes) + " bytes has no time by the roofline";
    return 0;
  }

  static int64_t recorded(const TraceNode& what) {
    return what.duration_us == 0 ? 1 : static_cast<int64_t>(what.duration_us) * 1000;
  }

  void begin_collective(uint32_t number, uint32_t index, const TraceNode& what) {
    if (*what.collective == TraceCollective::kBroadcast) {
      return events_.add(now_ + recorded(what), now_, TraceEvent::Kind::kNodeEnds, number, index);
    }
    const auto entered = runs_.enter(now_, number, index, what);
    if (!entered) error_ = place_text(job_, number, what) + ": " + entered.error().text;
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
    const Rank& rank = ranks_[number];
    for (uint32_t index = 0; index < rank.begun.size(); ++index) {
      const TraceNode& what = node(number, index);
      if (!rank.begun[index] || rank.result.nodes[index].skipped) continue;
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
    for (uint32_t index = 0; index < rank.begun.size(); ++index) {
      if (rank.begun[index] || rank.parents[index] > 0) continue;
      const std::string place = place_text(job_, number, node(number, index));
      if (!rank.free.startable()) continue;
      return place +
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
  int64_t now_ = 0;
  TraceEvents events_;
  TraceMessages messages_;
  RingRuns runs_;
  TraceTransfers transfers_;
  std::vector<Rank> ranks_;
  std::map<TraceMessageKey, Meeting> meetings_;
  std::optional<std::string> error_;
};

}  // namespace

Result<std::vector<RankReplay>> replay(const TraceJob& job, const ReplaySettings& settings) {
  if (job.ranks.size() != settings.network.ranks()) {
    return fail("there are traces of " + std::to_string(job.ranks.size()) +
                " ranks, and the network has " + std::to_string(settings.network.ranks()));
  }
  const auto orders = TRY(order_job(job, settings.rules));
  TraceRings rings(job, settings.network, settings.system, settings.rules);
  TRY(check_replay(job, settings, rings));
  const bool apart = settings.system.replay || !settings.network.congestion_aware() ||
                     links_of_one_rank(job, settings, rings);
  return Replay(job, settings, orders, rings, apart).run();
}

}  // namespace understudy
