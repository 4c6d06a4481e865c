#include "ctrl/jobs/link_timeline.h"

#include <string>

#include "ctrl/jobs/rank_timeline.h"

namespace understudy {
void add_timeline(std::vector<TimelineTrack>& tracks, const Config& config, const JobConfig& job,
                  const CollectiveSetup& setup, const CollectiveMoments& moments) {
  for (uint32_t l = 0; l < moments.size(); ++l) {
    const CollectiveConnection& link = setup.job.links[l];
    if (link.among_real()) continue;  // the reference nodes' own
    const NodeConfig& node = config.nodes[job.ranks[setup.communicator.node_of(link.far)]];
    const std::string group =
        job.name + ", rank " + std::to_string(link.far) + " (" + node.name + ")";
    const std::string name = "channel " + std::to_string(link.channel) +
                             (link.real_sends ? " from rank " : " to rank ") +
                             std::to_string(link.real);
    TimelineTrack waits{group, name + ": waits", {}};
    TimelineTrack wire{group,
                       name + (link.real_sends ? ": credits until messages have come"
                                               : ": messages until their acknowledgement"),
                       {}};
    Time last;  // a message left
    LinkCursor cursor;
    CollectivePlace place;
    for (const MessageMoments& m : moments[l]) {
      if (!cursor.at(setup.job, l, place)) break;
      cursor.step();
      const std::string message = "message " + std::to_string(place.message);
      const uint64_t bytes = setup.job.message(place.operation, l, place.message).wire;
      const std::vector<std::pair<const char*, uint64_t>> numbers = {
          {"operation", place.operation}, {"message", place.message}, {"bytes", bytes}};
      if (link.real_sends) {
        if (m.received.is_never() || m.granted.is_never()) continue;
        append(wire, m.granted, m.received, message, numbers);
      } else if (!m.posted.is_never()) {
        if (place.operation > 0 || place.message > 0) {
          append(waits, last, m.due, waited_for(m.cause), numbers);
        }
        append(waits, m.due, m.posted, "waits for a credit", numbers);
        last = m.posted;
        if (!m.acknowledged.is_never()) append(wire, m.posted, m.acknowledged, message, numbers);
      }
    }
    if (!link.real_sends) tracks.push_back(std::move(waits));
    tracks.push_back(std::move(wire));
  }
}

}  // namespace understudy
