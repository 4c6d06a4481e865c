// Words of events: actions by name, and [[traffic]] by name or number.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "ctrl/config/config.h"
#include "dataplane/base/result.h"

namespace understudy {

inline constexpr std::array<std::pair<std::string_view, EventAction>, 7> kEventActions = {{
    {"down", EventAction::kDown},
    {"up", EventAction::kUp},
    {"pause", EventAction::kPause},
    {"resume", EventAction::kResume},
    {"start", EventAction::kStart},
    {"stop", EventAction::kStop},
    {"storm", EventAction::kStorm},
}};

std::string_view name_of(EventAction action);

/// Position of the [[traffic]] of this name, or of the one with this number, counted from 1. Errors
/// say what is allowed.
Result<uint32_t> find_traffic(const Config& config, std::string_view name);

}  // namespace understudy
