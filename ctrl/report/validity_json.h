// The lines on how far to trust a result, as JSON: reports and predictions have them alike.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "ctrl/report/validity_line.h"

namespace understudy {

inline nlohmann::ordered_json validity_json(const std::vector<ValidityLine>& lines) {
  auto out = nlohmann::ordered_json::array();
  for (const ValidityLine& line : lines) {
    out.push_back({{"kind", kind_name(line.kind)}, {"id", line.id}, {"text", line.text}});
  }
  return out;
}

}  // namespace understudy
