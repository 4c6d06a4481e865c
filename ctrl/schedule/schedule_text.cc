#include "ctrl/schedule/schedule_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ctrl/report/text.h"

namespace understudy {
namespace {

using Json = nlohmann::ordered_json;

std::string right(const std::string& text, size_t width) {
  return std::string(width > text.size() ? width - text.size() : 0, ' ') + text;
}
std::string right(uint64_t number, size_t width) { return right(std::to_string(number), width); }

std::string version_text(NcclVersion version) { return "2." + std::to_string(version.minor); }

std::string rank_text(const ScheduleView& view, uint32_t rank) {
  const Communicator& c = view.communicator;
  std::string text = "rank " + std::to_string(rank) + " (" + view.nodes[c.node_of(rank)];
  if (c.gpus > 1) text += ", GPU " + std::to_string(c.gpu_of(rank));
  return text + ")";
}

std::string runs_text(const std::vector<SizeRun>& runs) {
  std::string text;
  for (const SizeRun& run : runs) {
    if (!text.empty()) text += ", ";
    if (run.count > 1) text += std::to_string(run.count) + " x ";
    if (run.sizes.size() == 1) {
      text += std::to_string(run.sizes[0]);
    } else {
      text.append("(").append(std::to_string(run.sizes[0])).append(", ");
      text.append(std::to_string(run.sizes[1])).append(")");
    }
  }
  return text;
}

const char* direction_text(const Connection& c) {
  return c.direction == Direction::kSend ? "send" : "receive";
}

std::string wait_text(const RankSchedule& schedule, const Wait& wait) {
  const Connection& c = schedule.connections()[wait.connection];
  std::string text =
      std::to_string(c.from) + "->" + std::to_string(c.to) + " #" + std::to_string(wait.message);
  if (wait.moment == Wait::Moment::kArrival) return text + " arrived";
  return text + (c.direction == Direction::kSend ? " filled" : " used");
}

std::string messages_text(const RankSchedule& schedule, uint32_t connection) {
  std::string text;
  const Connection& c = schedule.connections()[connection];
  for (uint64_t k = 0; k < c.messages; ++k) {
    const Message m = schedule.message(connection, k);
    text += "      #" + std::to_string(k) + "  " + std::to_string(m.wire) + " B";
    if (m.wire != m.data) text += " for " + std::to_string(m.data);
    text += " at " + std::to_string(m.offset);
    const Waits waits = schedule.waits(connection, k);
    const char* before = "  after ";
    for (const Wait& wait : waits) {
      text += before + wait_text(schedule, wait);
      before = ", ";
    }
    text += "\n";
  }
  return text;
}

uint64_t wire_sum(const std::vector<SizeRun>& runs) {
  uint64_t sum = 0;
  for (const SizeRun& run : runs) {
    for (const uint64_t size : run.sizes) sum += run.count * size;
  }
  return sum;
}

std::string operation_text(const ScheduleView& view, const JobSchedule& one) {
  std::string text = "  " + size_text(one.bytes) + " (" + std::to_string(one.bytes) + " B)";
  if (!one.cut.parts.empty()) {
    text += ": " + std::string(name_of(kAlgorithmNames, one.operation.algorithm)) + ", " +
            std::string(name_of(kProtocolNames, one.operation.protocol)) + ", " +
            count_text(one.cut.parts.size(), "channel");
    text += cut_rule(view.communicator.version) == CutRule::kStrided ? ", each strides over all\n"
                                                                     : "\n";
    for (size_t i = 0; i < one.cut.parts.size(); ++i) {
      text += "    channel " + right(one.cut.first_channel + i, 2) + "  bytes " +
              right(one.cut.parts[i].bytes, 12) + "  from " +
              std::to_string(one.cut.parts[i].offset) + "\n";
    }
  } else {
    text += "\n";
  }
  const auto schedule = rank_schedule(view.communicator, one.operation, one.cut, view.rank);
  text += "  " + rank_text(view, view.rank) +
          ": channel, connection, messages, bytes on the wire, "
          "sizes\n";
  const auto way = [&](const Connection& c) {
    // What the network's switches reduce leaves a rank and comes back to it.
    const bool out = c.direction == Direction::kSend;
    const auto end = [&](uint32_t rank, bool other) {
      return c.from == c.to && other ? std::string("switches") : std::to_string(rank);
    };
    return end(c.from, !out) + " -> " + end(c.to, out) + " " + direction_text(c) +
           (c.network ? " by NIC " + std::to_string(c.nic) + (c.relayed && out ? " (PXN)" : "")
                      : std::string(" in the node"));
  };
  size_t width = 0;
  for (const Connection& c : schedule->connections()) width = std::max(width, way(c).size());
  for (uint32_t i = 0; i < schedule->connections().size(); ++i) {
    const Connection& c = schedule->connections()[i];
    const std::vector<SizeRun> runs = size_runs(*schedule, i);
    std::string name = way(c);
    name.resize(width, ' ');
    text += "    " + right(c.channel, 2) + "  " + name + "  " + right(c.messages, 6) + "  " +
            right(wire_sum(runs), 12) + "  " + runs_text(runs) + "\n";
    if (view.messages) text += messages_text(*schedule, i);
  }
  return text;
}

Json connection_json(const ScheduleView& view, const RankSchedule& schedule, uint32_t i) {
  const Connection& c = schedule.connections()[i];
  const std::vector<SizeRun> runs = size_runs(schedule, i);
  Json one = {{"channel", c.channel},           {"from", c.from},   {"to", c.to},
              {"direction", direction_text(c)}, {"index", c.index}, {"network", c.network}};
  if (c.network) one["nic"] = c.nic;
  if (c.relayed) one["relayed"] = true;
  one["messages"] = c.messages;
  one["window"] = c.window;
  one["capacity"] = c.capacity;
  one["wire_bytes"] = wire_sum(runs);
  one["sizes"] = Json::array();
  for (const SizeRun& run : runs) {
    one["sizes"].push_back({{"count", run.count}, {"bytes", run.sizes}});
  }
  if (!view.messages) return one;
  one["list"] = Json::array();
  for (uint64_t k = 0; k < c.messages; ++k) {
    const Message m = schedule.message(i, k);
    Json after = Json::array();
    for (const Wait& wait : schedule.waits(i, k)) {
      after.push_back({{"connection", wait.connection},
                       {"message", wait.message},
                       {"moment", wait.moment == Wait::Moment::kArrival ? "arrival" : "done"}});
    }
    one["list"].push_back(
        {{"bytes", m.wire}, {"data", m.data}, {"offset", m.offset}, {"after", std::move(after)}});
  }
  return one;
}

}  // namespace

std::vector<SizeRun> size_runs(const RankSchedule& schedule, uint32_t connection) {
  std::vector<SizeRun> runs;
  const uint64_t n = schedule.connections()[connection].messages;
  const auto size = [&](uint64_t k) { return uint64_t{schedule.message(connection, k).wire}; };
  for (uint64_t k = 0; k < n;) {
    const uint64_t a = size(k);
    uint64_t end = k + 1;
    while (end < n && size(end) == a) ++end;
    if (end == k + 1 && end < n) {
      // Slices of a chunk differ: runs of pairs.
      const uint64_t b = size(end);
      uint64_t next = end + 1;
      while (next + 1 < n && size(next) == a && size(next + 1) == b) next += 2;
      if (next > end + 1) {
        runs.push_back({(next - k) / 2, {a, b}});
        k = next;
        continue;
      }
    }
    runs.push_back({end - k, {a}});
    k = end;
  }
  return runs;
}

std::string schedule_text(const std::vector<ScheduleView>& views) {
  std::string text;
  for (const ScheduleView& view : views) {
    const Communicator& c = view.communicator;
    const Operation& o = view.schedules.front().operation;
    text += "job " + view.job + ": " + std::string(name_of(kCollectiveNames, o.collective));
    text += ", " + std::string(name_of(kDataTypeNames, o.type)) + "; " +
            count_text(c.ranks(), "rank") + " on " + count_text(c.nodes, "node") + ", up to " +
            count_text(c.channels, "channel") + ", NCCL " + version_text(c.version) + "\n";
    for (const JobSchedule& one : view.schedules) text += operation_text(view, one);
  }
  return text;
}

std::string schedule_json(const std::vector<ScheduleView>& views) {
  Json out;
  out["jobs"] = Json::array();
  for (const ScheduleView& view : views) {
    const Communicator& c = view.communicator;
    const Operation& o = view.schedules.front().operation;
    Json job = {{"name", view.job},
                {"collective", name_of(kCollectiveNames, o.collective)},
                {"type", name_of(kDataTypeNames, o.type)},
                {"nccl", version_text(c.version)},
                {"ranks", c.ranks()},
                {"nodes", c.nodes},
                {"gpus", c.gpus},
                {"rank", view.rank}};
    job["operations"] = Json::array();
    for (const JobSchedule& one : view.schedules) {
      Json operation = {{"bytes", one.bytes}};
      if (!is_p2p(o.collective)) {
        operation["algorithm"] = name_of(kAlgorithmNames, one.operation.algorithm);
        operation["protocol"] = name_of(kProtocolNames, one.operation.protocol);
      }
      operation["channels"] = Json::array();
      for (size_t i = 0; i < one.cut.parts.size(); ++i) {
        operation["channels"].push_back({{"channel", one.cut.first_channel + i},
                                         {"offset", one.cut.parts[i].offset},
                                         {"bytes", one.cut.parts[i].bytes}});
      }
      operation["connections"] = Json::array();
      const auto schedule = rank_schedule(c, one.operation, one.cut, view.rank);
      for (uint32_t i = 0; i < schedule->connections().size(); ++i) {
        operation["connections"].push_back(connection_json(view, *schedule, i));
      }
      job["operations"].push_back(std::move(operation));
    }
    out["jobs"].push_back(std::move(job));
  }
  return out.dump(2) + "\n";
}

}  // namespace understudy
