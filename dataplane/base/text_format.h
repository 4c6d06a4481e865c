// Texts by printf's patterns.
#pragma once

#include <cstdio>
#include <string>

namespace understudy {

/// At most 511 characters; the rest is cut.
inline std::string format_text(const char* pattern, auto... values) {
  char text[512];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

}  // namespace understudy
