#include "tools/roce_check/checks/answer_times.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "dataplane/base/text_format.h"
#include "tools/roce_check/checks/link_timeline.h"
#include "tools/roce_check/packets/node_addresses.h"

namespace understudy {
namespace {

/// Rounding of the engine's own times, which an understudy capture holds exactly.
constexpr Duration kOwnSlack = Duration::us(1);
/// In captures of others the frame may have begun on the wire before it was stamped.
constexpr uint32_t kForeignSlackBytes = 4096 + 150;

class AnswerTimes {
 public:
  AnswerTimes(const Config& config, const PortConfig& port, const std::vector<LinkChange>& changes,
              Analysis& analysis)
      : config_(config),
        port_(port),
        changes_(changes),
        analysis_(analysis),
        addresses_(config),
        up_(link_timeline(config, port.node, port.nic, changes, false)),
        requests_(analysis.table.flows.size()),
        newest_(analysis.table.flows.size()),
        partner_(analysis.table.flows.size(), kNoFlow) {
    for (const ConnectionResult& c : analysis.connections) {
      if (c.connection.reverse == kNoFlow) continue;
      partner_[c.connection.forward] = c.connection.reverse;
      partner_[c.connection.reverse] = c.connection.forward;
    }
  }

  void run() {
    const NodePort real{port_.node, port_.nic, true};
    for (const PacketRecord& p : analysis_.table.packets) {
      if (partner_[p.flow] == kNoFlow) continue;  // to nobody: dropped before the queue
      const auto from = addresses_.find(analysis_.table.flows[p.flow].src);
      const auto to = addresses_.find(analysis_.table.flows[p.flow].dst);
      if (!from || !to || from->real == to->real) continue;
      if (from == real && takes_rate(config_, p)) {
        arrival(p);
      } else if (to == real && p.info().is_response()) {
        answer(p, *from);
      }
    }
    if (answers_ == 0) return;
    analysis_.findings.examined(Rule::kRate);
    analysis_.findings.note(
        Check::kRate,
        format_text(
            "%s up: %llu answers, the earliest %.1f us after its request can have come back",
            config_.nodes[port_.node].name.c_str(), static_cast<unsigned long long>(answers_),
            closest_.microseconds()));
  }

 private:
  struct Request {
    Time left;  ///< the queue, at the earliest
    bool answered = false;
  };

  void arrival(const PacketRecord& p) {
    const Time head = p.at - port_.physical.time_for(p.wire_bytes);
    const Time start = any_ ? std::max(busy_, head) : head;
    const auto ps = static_cast<double>(up_.rate_at(start).time_for(p.wire_bytes).ps());
    busy_ = std::max(p.at, start + Duration::ps(static_cast<int64_t>(ps / (1 + kRateTolerance))));
    any_ = true;
    // A retransmission does not count: the answer may be to the packet before, or to a
    // retransmission of an earlier one, which is answered with the last PSN of all (rule A5).
    std::optional<Psn>& newest = newest_[p.flow];
    if (!newest || p.psn.distance_from(*newest) > 0) {
      newest = p.psn;
      requests_[p.flow][p.psn.value()] = {busy_, false};
    } else {
      requests_[p.flow].try_emplace(p.psn.value(), Request{busy_, false});
    }
  }

  void answer(const PacketRecord& p, const NodePort& from) {
    auto& requests = requests_[partner_[p.flow]];
    const auto request = requests.find(p.psn.value());
    if (request == requests.end() || request->second.answered) return;
    request->second.answered = true;
    const Duration way = up_.shortest_latency() + latency_of(from);
    const Time earliest = request->second.left + way * 2;
    const Time at = p.scheduled.is_never() ? p.at : p.scheduled;
    ++answers_;
    closest_ = std::min(closest_, at - earliest);
    const Rate rate = up_.rate_at(busy_);
    const Duration slack =
        analysis_.source.has_run_times ? kOwnSlack : rate.time_for(kForeignSlackBytes);
    if (at + slack >= earliest) return;
    analysis_.findings.add(
        Rule::kRate, p.stamp(),
        format_text(
            "%s up: PSN %u answered %.1f us before it can have crossed a link of %.6g Mbit/s",
            config_.nodes[port_.node].name.c_str(), p.psn.value(), (earliest - at).microseconds(),
            static_cast<double>(rate.bps()) * 1e-6));
  }

  Duration latency_of(const NodePort& end) {
    const auto at = latencies_.find({end.node, end.nic});
    if (at != latencies_.end()) return at->second;
    const Duration shortest =
        link_timeline(config_, end.node, end.nic, changes_, false).shortest_latency();
    latencies_[{end.node, end.nic}] = shortest;
    return shortest;
  }

  const Config& config_;
  const PortConfig& port_;
  const std::vector<LinkChange>& changes_;
  Analysis& analysis_;
  NodeAddresses addresses_;
  LinkTimeline up_;
  std::vector<std::unordered_map<uint32_t, Request>> requests_;  ///< of each flow, by PSN
  std::vector<std::optional<Psn>> newest_;                       ///< of each flow
  std::vector<uint32_t> partner_;                                ///< the other direction of a flow
  std::map<std::pair<NodeId, unsigned>, Duration> latencies_;
  Time busy_;
  bool any_ = false;
  uint64_t answers_ = 0;
  Duration closest_ = Duration::max();
};

}  // namespace

void check_answer_times(const Config& config, const PortConfig& port,
                        const std::vector<LinkChange>& changes, Analysis& analysis) {
  AnswerTimes(config, port, changes, analysis).run();
}

}  // namespace understudy
