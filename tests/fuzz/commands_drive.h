// Live commands as text: each is refused in words, or reads back from what the report writes of it.
#pragma once

#include <string>
#include <string_view>

#include "ctrl/compile/events.h"
#include "ctrl/compile/scenario.h"
#include "ctrl/config/read/load.h"
#include "ctrl/run/commands_text.h"
#include "tests/fuzz/input.h"

namespace understudy {

/// What the words of words_of() are about.
constexpr const char* kCommandsConfig = R"(format = 1
[[prefix]]
nic = 0
v4 = "10.9.0.0/16"
[[node]]
name = "gpu"
real = true
link = { rate = "10Gbit/s", latency = "1us" }
[[node]]
name = "w"
count = 2
link = { rate = "10Gbit/s", latency = "1us" }
[[port]]
real = "gpu"
device = "virtual"
[[job]]
name = "ring"
collective = "all_reduce"
algorithm = "ring"
ranks = ["gpu", "w*"]
sizes = ["1MiB"]
[[traffic]]
name = "an incast"
pattern = "incast"
from = ["w1"]
to = ["w0"]
size = "4MB"
[[traffic]]
pattern = "flow"
from = ["w1"]
to = ["w0"]
size = "4MB"
)";

inline const Scenario& commands_scenario() {
  static const ConfigResult config = load_config_text(kCommandsConfig, "fuzz");
  must(config.has_value());
  static const Result<Scenario> scenario = compile_scenario({*config}, RunClock::kVirtual);
  must(scenario.has_value());
  return *scenario;
}

/// A word for each byte: most are a command's, at whatever place.
inline std::string words_of(FuzzInput& input) {
  static constexpr std::string_view kWords[] = {
      "at",      "link",      "node",   "switch", "traffic", "w0",       "w1",       "gpu",
      "switch0", "*",         "-",      "->",     "rate",    "latency",  "loss",     "down",
      "up",      "pause",     "resume", "nic",    "storm",   "priority", "quanta",   "start",
      "stop",    "an",        "incast", "2",      "0",       "1",        "7",        "100",
      "65535",   "20ms",      "1500ns", "2s",     "0.1",     "1e-3",     "50Mbit/s", "unlimited",
      "1ps",     "99999999s", "0s",     "-1"};
  std::string text;
  while (!input.done()) {
    const uint8_t which = input.byte();
    text += text.empty() ? "" : " ";
    if (which < std::size(kWords)) {
      text += kWords[which];
      continue;
    }
    const auto raw = input.take(which % 8);
    text.append(raw.begin(), raw.end());
  }
  return text;
}

/// Whether it is a command.
inline bool drive_command(std::string_view text) {
  const Scenario& scenario = commands_scenario();
  const auto event = parse_command(scenario.config, text);
  if (!event) {
    must(!event.error().text.empty());
    return false;
  }
  (void)why_not(scenario, *event);
  const std::string written = command_text(scenario.config, *event);
  const auto again = parse_command(scenario.config, written);
  must(again.has_value());
  must(command_text(scenario.config, *again) == written);
  return true;
}

/// The first byte says whether the rest is text or words. Whether it is a command.
inline bool drive_commands(std::span<const uint8_t> bytes) {
  FuzzInput input(bytes);
  if (input.byte() % 4 != 0) return drive_command(words_of(input));
  const auto raw = input.take(bytes.size());
  return drive_command({reinterpret_cast<const char*>(raw.data()), raw.size()});
}

}  // namespace understudy
