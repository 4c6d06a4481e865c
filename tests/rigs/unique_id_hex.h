// An NCCL unique id as other programs may write it to a file.
#pragma once

#include <string>
#include <string_view>

#include "ctrl/peers/nccl/bootstrap/unique_id.h"

namespace understudy {

/// Its bytes as 256 hexadecimal digits.
inline std::string unique_id_hex(const NcclUniqueId& id) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : unique_id_bytes(id)) {
    text += kHex[byte >> 4];
    text += kHex[byte & 15];
  }
  return text;
}

}  // namespace understudy
