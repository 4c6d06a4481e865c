// [[nic]], and the one that a [[node]] names.
#include <vector>

#include "ctrl/config/presets/nic_preset.h"
#include "ctrl/config/read/sections.h"
#include "ctrl/config/suggest.h"

namespace understudy {
namespace {

constexpr int64_t kPsPerSecond = 1'000'000'000'000;

/// A doorbell, and the fetch of the payload, there and back.
constexpr int64_t kCrossingsToSend = 3;

class NicReader {
 public:
  NicReader(const TomlNode& toml, ReadContext& context)
      : context_(context), table_(toml, "nic", context.errors) {}

  void run() {
    NicKind kind;
    kind.line = table_.line();
    table_.require("name", "a name of letters, digits, '-', '_' and '.'");
    if (const auto name = table_.text("name")) read_name(*name, kind);
    read_preset(kind.limits);
    if (const auto packets = table_.integer("packets_per_second", 1, kPsPerSecond)) {
      packets_per_second_ = static_cast<uint64_t>(packets->value);
    }
    if (const TomlNode* pcie = table_.table("pcie")) read_pcie(*pcie);
    if (packets_per_second_) {
      kind.limits.packets.least =
          Duration::ps(kPsPerSecond / static_cast<int64_t>(*packets_per_second_));
    }
    kind.limits.packets.pcie = rate_;
    kind.limits.lead = latency_ * kCrossingsToSend;
    kind.limits.tail = latency_;
    if (const auto time = table_.duration("completion")) kind.limits.tail += time->value;
    read_acknowledgements(kind.limits);
    read_queue(kind.limits);
    table_.finish();
    context_.config.nic_kinds.push_back(std::move(kind));
  }

 private:
  void read_name(const Located<std::string>& name, NicKind& kind) {
    kind.name = name.value;
    const std::string found = "\"" + name.value + "\"";
    if (!is_name(name.value)) {
      table_.error(name.line, "name", found, "expected up to 63 letters, digits, '-', '_' and '.'");
    }
    for (const NicKind& other : context_.config.nic_kinds) {
      if (other.name != name.value) continue;
      table_.error(name.line, "name", found,
                   "another [[nic]] has this name, in line " + std::to_string(other.line));
    }
  }

  void read_preset(NicLimits& limits) {
    const auto name = table_.text("preset");
    if (!name) return;
    std::vector<std::string_view> names;
    for (const NicPreset& preset : nic_presets()) {
      names.push_back(preset.name);
      if (preset.name != name->value) continue;
      packets_per_second_ = preset.packets_per_second;
      rate_ = preset.pcie;
      latency_ = preset.pcie_latency.value_or(Duration());
      limits.ahead = preset.ahead;
      limits.again = preset.again;
      limits.ack_every = preset.ack_every;
      return;
    }
    table_.unknown_word(*name, "preset", names);
  }

  void read_pcie(const TomlNode& toml) {
    TableReader pcie(toml, "nic.pcie", context_.errors);
    if (const auto rate = pcie.rate("rate")) rate_ = rate->value;
    if (const auto latency = pcie.duration("latency")) latency_ = latency->value;
    pcie.finish();
  }

  void read_acknowledgements(NicLimits& limits) {
    if (const auto packets = table_.integer("ack_every", 1, UINT8_MAX)) {
      limits.ack_every = static_cast<uint16_t>(packets->value);
    }
    const auto delay = table_.duration("ack_delay");
    if (!delay) return;
    limits.ack_delay = delay->value;
    if (delay->value <= limits.tail) return;
    table_.error(
        delay->line, "ack_delay", table_.any("ack_delay")->describe(),
        "at most pcie.latency and completion together: a NIC acknowledges no later than it "
        "tells its program");
  }

  /// Whether acknowledgements go first, or stand in one queue with what queue pairs hand over.
  void read_queue(NicLimits& limits) {
    const std::vector<std::string_view> words = {"first", "behind_data"};
    if (const auto word = table_.text("acks")) {
      if (word->value == words[0]) {
        limits.ahead = limits.again = 0;
      } else if (word->value == words[1]) {
        if (!limits.acks_wait()) set_ahead(limits, kAhead);
      } else {
        table_.unknown_word(*word, "acks", words);
      }
    }
    const auto ahead = table_.integer("ahead", 1, kMostAhead);
    if (ahead && needs_queue(limits, *ahead, "ahead")) {
      set_ahead(limits, static_cast<uint16_t>(ahead->value));
    }
    const auto again = table_.integer("again", 0, kMostAhead - 1);
    if (!again || !needs_queue(limits, *again, "again")) return;
    if (again->value >= limits.ahead) {
      return table_.error(again->line, "again", std::to_string(again->value),
                          "less than ahead, " + std::to_string(limits.ahead));
    }
    limits.again = static_cast<uint16_t>(again->value);
  }

  static void set_ahead(NicLimits& limits, uint16_t ahead) {
    limits.ahead = ahead;
    limits.again = static_cast<uint16_t>(ahead - 1);
  }

  bool needs_queue(const NicLimits& limits, const Located<int64_t>& value, const char* key) {
    if (limits.acks_wait()) return true;
    table_.error(value.line, key, std::to_string(value.value),
                 "acks = \"behind_data\" with it: else nothing is handed to the NIC ahead");
    return false;
  }

  static constexpr int64_t kMostAhead = 4096;
  static constexpr uint16_t kAhead = 64;

  ReadContext& context_;
  TableReader table_;
  std::optional<uint64_t> packets_per_second_;
  Rate rate_;
  Duration latency_;
};

}  // namespace

void read_nics(TableReader& root, ReadContext& context) {
  for (const TomlNode* toml : root.tables("nic")) NicReader(*toml, context).run();
}

NicLimits read_node_nic(TableReader& node, ReadContext& context) {
  const auto name = node.text("nic");
  if (!name) return {};
  std::vector<std::string_view> names;
  for (const NicKind& kind : context.config.nic_kinds) {
    names.push_back(kind.name);
    if (kind.name == name->value) return kind.limits;
  }
  node.error(name->line, "nic", "\"" + name->value + "\"" + suggest(name->value, names),
             "there is no [[nic]] of this name");
  return {};
}

}  // namespace understudy
