// Base64 as Python's b64encode() and b64decode() have it, with padding and without line ends.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace understudy {

std::string base64_text(std::span<const uint8_t> bytes);
/// Nothing if it has another character, or another length than such text has.
std::optional<std::vector<uint8_t>> base64_bytes(std::span<const uint8_t> text);

}  // namespace understudy
