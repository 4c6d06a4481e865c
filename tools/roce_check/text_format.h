// printf's patterns for the texts of reports.
#pragma once

#include <cstdio>
#include <string>

namespace understudy {

/// At most 255 characters; the rest is cut.
inline std::string format_text(const char* pattern, auto... values) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

}  // namespace understudy
