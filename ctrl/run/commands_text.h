// Live changes as text, at once or "at 20ms ...": "link NODE rate 50Mbit/s latency 2us loss 0.01",
// "link leaf0 - spine1 down 2ms", "node NODE pause", "traffic NAME stop" ...
#pragma once

#include <string_view>
#include <vector>

#include "ctrl/config/config.h"
#include "dataplane/base/result.h"

namespace understudy {

/// Reads one command. Without "at" its time is Time::zero(): as soon as possible. Errors say what
/// was found and what is allowed.
Result<EventConfig> parse_command(const Config& config, std::string_view text);

/// The command as it would be typed, for the report's log.
std::string command_text(const Config& config, const EventConfig& event);

}  // namespace understudy
