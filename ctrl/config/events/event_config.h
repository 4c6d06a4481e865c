// [[event]], [[drill]] and live commands as plain values: what happens to links, nodes and
// [[traffic]] at a time of the run, and what is expected to come of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include "ctrl/config/events/link_name.h"
#include "dataplane/base/ids.h"
#include "dataplane/base/units.h"

namespace understudy {

enum class EventAction : uint8_t {
  kDown,    ///< links: what is on the wire is lost, the rest waits in front
  kUp,      ///< links
  kPause,   ///< a node: it sends nothing, and what comes to it is lost
  kResume,  ///< a node
  kStart,   ///< [[traffic]]: it goes on where it stopped
  kStop,    ///< [[traffic]]: its senders send nothing
  kStorm,   ///< links to NICs: these tell the switch to pause, again and again
};

/// Links change if there is no action, or one of links; then at least one of rate, latency, loss
/// and action is given.
struct EventConfig {
  Time at;          ///< since the start of the run
  NodeId node = 0;  ///< whose links change, all of them, or which stands still
  std::optional<Rate> rate;
  std::optional<Duration> latency;
  unsigned line = 0;                  ///< in the configuration; 0: a command
  std::optional<LinkName> link = {};  ///< the links that change, instead of all of a node
  std::optional<double> loss = {};    ///< probability, 0 to 1
  std::optional<EventAction> action = {};
  std::optional<Duration> lasts = {};  ///< kDown, kPause: it ends by itself; without: it does not
  uint32_t traffic = 0;                ///< kStart, kStop: position in Config::traffic
  /// kDown, kUp: this switch, with all its cables, instead of links.
  std::optional<std::string> of_switch = {};
  std::optional<uint32_t> nic = {};      ///< kDown, kUp, kStorm: this NIC of the node only
  std::optional<uint8_t> priority = {};  ///< kStorm: without: all that PFC can pause
  uint32_t quanta = 65'535;            ///< kStorm: of each PAUSE, in times of 512 bits on the link
  std::optional<uint32_t> drill = {};  ///< position in Config::drills of the one that it is part of

  bool is_of_node() const {
    return action == EventAction::kPause || action == EventAction::kResume;
  }
  /// Of all cables of a node, or of how it stands still: also without a network of switches.
  bool is_of_nodes_links() const {
    return !link && !of_switch && !nic && !is_storm() && !is_of_traffic();
  }
  bool is_storm() const { return action == EventAction::kStorm; }
  bool is_of_traffic() const {
    return action == EventAction::kStart || action == EventAction::kStop;
  }
};

/// Both are about the same links, node, switch or traffic: the later one may undo the other.
inline bool is_about_same(const EventConfig& one, const EventConfig& other) {
  const auto subject = [](const EventConfig& e) {
    return std::tuple(e.is_of_traffic(), e.traffic, e.is_of_node(), e.node, e.nic);
  };
  return subject(one) == subject(other) && one.link == other.link &&
         one.of_switch == other.of_switch;
}

enum class DrillOutcome : uint8_t {
  kRecovers,  ///< operations go on and finish with right sums
  kReports,   ///< somebody reports an error
  kSlower,    ///< operations finish, a little later
};

/// Events with an outcome that is expected of them.
struct DrillConfig {
  /// Its times count from when control sees that the job has done so many operations.
  struct After {
    uint32_t job = 0;  ///< position in Config::jobs
    uint32_t operations = 0;
  };
  std::string name;
  Time from;                       ///< of its first event
  std::optional<Time> until = {};  ///< all is as before; nothing: something of it stays
  DrillOutcome outcome = DrillOutcome::kRecovers;
  Duration within;    ///< kRecovers, kReports: since `from`
  double slower = 0;  ///< kSlower: most that an operation takes longer, as a share
  unsigned line = 0;
  std::optional<After> after = {};  ///< else they are times of the run
};

}  // namespace understudy
