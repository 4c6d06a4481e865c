#include "ctrl/compile/environment/outage_notes.h"

#include <optional>

#include "ctrl/config/events/link_name.h"
#include "ctrl/report/text.h"
#include "ctrl/schedule/net_ib_environment.h"

namespace understudy {
namespace {

/// Adapters fire between one and this many timeouts after the packet (rule A5.8).
constexpr int64_t kSlowest = 4;
constexpr unsigned kSocketRetries = 34;
constexpr Duration kSocketSleep = Duration::ms(100);

std::string setting_text(unsigned value, bool given) {
  return std::to_string(value) + (given ? " ([nccl] environment)" : " (default)");
}

bool is_outage(const EventConfig& event) {
  return event.action == EventAction::kDown || event.action == EventAction::kPause ||
         event.action == EventAction::kStorm;
}

std::string subject_of(const Config& config, const EventConfig& event) {
  if (event.link) return "link " + text_of(*event.link);
  if (event.of_switch) return "switch " + *event.of_switch;
  return config.nodes[event.node].name +
         (event.nic ? ", NIC " + std::to_string(*event.nic) : std::string());
}

/// Until the event that undoes it, if there is one.
std::optional<Duration> length_of(const Config& config, const EventConfig& event) {
  if (event.lasts) return event.lasts;
  for (const EventConfig& later : config.events) {
    const bool undoes = later.action == EventAction::kUp || later.action == EventAction::kResume;
    if (undoes && later.at > event.at && is_about_same(later, event)) {
      return later.at - event.at;
    }
  }
  return std::nullopt;
}

/// Whether queue pairs outlive the event. `patience`: nothing: they never give up. `fails_over`: to
/// another NIC.
std::string event_text(const Config& config, const EventConfig& event,
                       std::optional<Duration> patience, bool fails_over) {
  const auto length = length_of(config, event);
  const std::string name =
      event.drill ? "drill \"" + config.drills[*event.drill].name + "\", " : std::string();
  std::string text = "#   " + name + "event at " + time_text(event.at) + ", " +
                     subject_of(config, event) + ": " +
                     (length ? "out for " + duration_text(*length) : "out for ever") + ": ";
  if (!patience) return text + "queue pairs wait without an end\n";
  if (!length || *length >= *patience * kSlowest) {
    return text + "LONGER than queue pairs live that send through it: they give up, NCCL " +
           (fails_over ? "goes on over another NIC, if there is one\n" : "reports an error\n");
  }
  if (*length >= *patience) return text + "queue pairs may give up, it depends on the adapter\n";
  return text + "queue pairs outlive it\n";
}

std::string queue_pairs_text(const NetIbEnvironment& given, const NetIbRetries& retries) {
  std::string text =
      "#   NCCL_IB_TIMEOUT " + setting_text(retries.timeout, given.timeout.has_value()) +
      ", NCCL_IB_RETRY_CNT " + setting_text(retries.count, given.retries.has_value()) + ": ";
  if (!retries.once()) return text + "without a timeout a lost last packet is never sent again\n";
  return text + "a packet that is not acknowledged is sent again\n#     after 4.096 us * 2^" +
         std::to_string(retries.timeout) + " = " + duration_text(*retries.once()) + ", " +
         count_text(retries.count, "time") + " at most; then the queue pair gives up, after " +
         duration_text(*retries.all()) +
         " of silence. Adapters may\n#     take up to 4 times as long. A rank that only waits for "
         "data sends nothing that could time out: it hangs\n";
}

/// NCCL's port failover, from 2.29.7 on (docs/nccl 3.15).
std::string failover_text(const NetIbEnvironment& given, const JobConfig& job) {
  const bool recovers = job.nccl >= NcclVersion{30};
  const auto failover = given.failover_of(job.nccl);
  if (!failover) {
    return std::string("#   NCCL_IB_RESILIENCY_PORT_FAILOVER 0 (default)") +
           (recovers ? ", NCCL_IB_RESILIENCY_PORT_RECOVERY 0 (default)" : "") +
           ": a NIC that is lost ends the job,\n#     also where NCCL merged it with others. 1 in "
           "[nccl] environment: emulated ranks fail over, too; real ranks need the same\n";
  }
  std::string text = "#   NCCL_IB_RESILIENCY_PORT_FAILOVER 1 ([nccl] environment): ";
  text += job.merged_nics > 1
              ? "when a queue pair gives up, what it had goes over\n#     the other NICs of its "
                "rank: after that silence, and as much again where only credits show it\n"
              : "each rank has one NIC, so that there is no other:\n#     merged_nics = 2 in the "
                "job says that NCCL takes two for one\n";
  if (!recovers) return text;
  if (!failover->recovery) {
    return text + "#   NCCL_IB_RESILIENCY_PORT_RECOVERY 0: a NIC that failed is not used again\n";
  }
  const Duration tries = failover->ack_timeout * int64_t{failover->recovery_attempts};
  return text +
         "#   NCCL_IB_RESILIENCY_PORT_RECOVERY 1 ([nccl] environment): a NIC that failed is " +
         "used again " + duration_text(failover->recovery_delay + failover->ack_timeout) +
         " after that at the earliest,\n#     if it is back, and both ends have noticed, within " +
         duration_text(tries) + "; later than that never\n";
}

}  // namespace

std::string outage_notes(const Config& config, const JobConfig& job) {
  const auto since = [&](uint32_t minor) { return job.nccl >= NcclVersion{minor}; };
  const NetIbEnvironment given = net_ib_environment(config);
  const NetIbRetries retries = given.retries_of(job.nccl);
  const auto patience = retries.all();
  const bool fails_over = given.failover_of(job.nccl).has_value() && job.merged_nics > 1;
  std::string text = "# What an outage is to NCCL's settings:\n";
  text += queue_pairs_text(given, retries);
  if (since(24)) {
    const Duration all = kSocketSleep * (kSocketRetries * (kSocketRetries + 1) / 2);
    text +=
        "#   NCCL_SOCKET_RETRY_CNT 34, NCCL_SOCKET_RETRY_SLEEP_MSEC 100 (defaults): at the start "
        "a connect that fails is tried for " +
        duration_text(all) + "\n";
  } else {
    text += "#   At the start a refused connect is tried for 20 s, one that times out 3 times\n";
  }
  if (since(23)) {
    text +=
        "#   NCCL_IB_RETURN_ASYNC_EVENTS 1 (default): an event that is fatal to a NIC ends its "
        "communicators; a port that goes\n#     down is only said. Links of the model raise no "
        "event at the real NIC: it sees silence\n";
  }
  if (since(29)) text += failover_text(given, job);
  for (const EventConfig& event : config.events) {
    if (is_outage(event)) text += event_text(config, event, patience, fails_over);
  }
  return text;
}

}  // namespace understudy
