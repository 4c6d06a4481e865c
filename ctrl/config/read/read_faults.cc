// [[fault]]: packets that are lost, doubled, overtaken, delayed, damaged or marked on purpose.
#include <cmath>

#include "ctrl/config/read/sections.h"

namespace understudy {
namespace {

constexpr int64_t kMostRepeats = 1'000'000'000'000;
constexpr int64_t kMostCopies = 16;
constexpr Duration kLongestWait = Duration::ms(10);  // of packets that are to be overtaken

void read_node(TableReader& table, ReadContext& context, Fault& fault) {
  const auto name = table.text("node");
  if (!name) return;
  const NodeConfig* node = context.resolve(table, "node", *name);
  if (node == nullptr) return;
  if (node->real) {
    table.error(name->line, "node", "\"" + name->value + "\"",
                "a fault names the emulated end of a connection; direction says which packets");
  }
  fault.node = node->index;
}

void read_matching(TableReader& table, ReadContext& context, Fault& fault) {
  table.choice("direction",
               {{"to_real", FaultDirection::kToReal},
                {"from_real", FaultDirection::kFromReal},
                {"both", FaultDirection::kBoth}},
               fault.direction);
  read_node(table, context, fault);
  if (const auto n = table.integer("queue_pair", 1, kQpnMask)) {
    fault.queue_pair = static_cast<uint32_t>(n->value);
  }
  table.choice("packets",
               {{"any", FaultPackets::kAny},
                {"request", FaultPackets::kRequest},
                {"response", FaultPackets::kResponse},
                {"send", FaultPackets::kSend},
                {"write", FaultPackets::kWrite},
                {"read", FaultPackets::kRead},
                {"atomic", FaultPackets::kAtomic},
                {"read_response", FaultPackets::kReadResponse},
                {"atomic_response", FaultPackets::kAtomicResponse},
                {"ack", FaultPackets::kAck},
                {"nak", FaultPackets::kNak},
                {"rnr", FaultPackets::kRnr},
                {"cm", FaultPackets::kUd}},
               fault.packets);
  if (const auto psn = table.integer("psn", 0, Psn::kMask)) {
    fault.psn = static_cast<uint32_t>(psn->value);
  }
  if (const auto round = table.integer("round", 1, kMostRepeats)) {
    fault.round = static_cast<uint32_t>(std::min<int64_t>(round->value, UINT32_MAX));
  }
  if (const auto from = table.duration("from")) fault.from = Time::zero() + from->value;
  if (const auto to = table.duration("to")) {
    fault.to = Time::zero() + to->value;
    if (fault.to <= fault.from) {
      table.error(to->line, "to", table.any("to")->describe(), "expected a time after from");
    }
  }
}

void read_choosing(TableReader& table, Fault& fault) {
  if (const auto nth = table.integer("nth", 1, kMostRepeats)) {
    fault.nth = static_cast<uint64_t>(nth->value);
  }
  if (const auto every = table.integer("every", 1, kMostRepeats)) {
    fault.every = static_cast<uint64_t>(every->value);
  }
  if (const auto probability = table.number("probability")) {
    if (probability->value > 0 && probability->value <= 1) {
      // At least one in 2^32: a probability that is given never means "never".
      fault.probability = static_cast<uint64_t>(
          std::max(1.0, std::round(probability->value * static_cast<double>(Fault::kAlways))));
    } else {
      table.error(probability->line, "probability", table.any("probability")->describe(),
                  "expected a share above 0 and at most 1");
    }
  }
  if (const auto most = table.integer("max", 1, kMostRepeats)) {
    fault.most = static_cast<uint64_t>(most->value);
  }
}

void refuse(TableReader& table, std::string_view key, bool fits, std::string_view with) {
  const TomlNode* value = table.any(key);
  if (value == nullptr || fits) return;
  table.error(value->line, key, value->describe(), "belongs to " + std::string(with) + " only");
}

/// `known`: the action was understood; what belongs to it is not judged otherwise.
void read_acting(TableReader& table, bool known, Fault& fault) {
  const FaultAction action = fault.action;
  const bool duplicate = action == FaultAction::kDuplicate;
  const bool reorder = action == FaultAction::kReorder;
  const bool delay = action == FaultAction::kDelay;
  refuse(table, "copies", !known || duplicate, "action = \"duplicate\"");
  refuse(table, "behind", !known || reorder, "action = \"reorder\"");
  refuse(table, "delay", !known || delay || duplicate || reorder,
         "action = \"delay\", duplicate and reorder");
  refuse(table, "icrc", !known || action == FaultAction::kCorrupt, "action = \"corrupt\"");
  const auto copies = table.integer("copies", 1, kMostCopies);
  const auto behind = table.integer("behind", 1, kMostRepeats);
  if (copies && duplicate) fault.count = static_cast<uint32_t>(copies->value);
  if (behind && reorder) {
    fault.count = static_cast<uint32_t>(std::min<int64_t>(behind->value, UINT32_MAX));
  }
  if (reorder) fault.delay = kLongestWait;
  if (delay) table.require("delay", "how much later these packets come, as in \"10us\"");
  if (const auto given = table.duration("delay")) fault.delay = given->value;
  table.choice("icrc", {{"bad", false}, {"good", true}}, fault.good_icrc);
}

void read_fault(const TomlNode& toml, ReadContext& context) {
  TableReader table(toml, "fault", context.errors);
  FaultConfig fault;
  fault.line = table.line();
  fault.name = "fault " + std::to_string(context.config.faults.size() + 1);
  if (const auto name = table.text("name")) {
    fault.name = name->value;
    if (name->value.empty()) table.error(name->line, "name", "an empty text", "expected a name");
  }
  const size_t errors = context.errors.size();
  table.require("action", "drop, duplicate, reorder, delay, corrupt or mark_ce");
  table.choice("action",
               {{"drop", FaultAction::kDrop},
                {"duplicate", FaultAction::kDuplicate},
                {"reorder", FaultAction::kReorder},
                {"delay", FaultAction::kDelay},
                {"corrupt", FaultAction::kCorrupt},
                {"mark_ce", FaultAction::kMarkCe}},
               fault.fault.action);
  const bool known = context.errors.size() == errors;
  read_matching(table, context, fault.fault);
  read_choosing(table, fault.fault);
  read_acting(table, known, fault.fault);
  table.finish();
  context.config.faults.push_back(std::move(fault));
}

}  // namespace

void read_faults(TableReader& root, ReadContext& context) {
  for (const TomlNode* fault : root.tables("fault")) read_fault(*fault, context);
}

}  // namespace understudy
