// Pieces of which the report's JSON is made.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "ctrl/report/run_report.h"

namespace understudy::report_parts {

using Json = nlohmann::ordered_json;

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

template <typename T, typename Function>
Json list(const std::vector<T>& items, Function&& to_json) {
  Json out = Json::array();
  for (const T& item : items) out.push_back(to_json(item));
  return out;
}

inline Json counts(const NamedCounts& named) {
  Json out = Json::object();
  for (const auto& [name, count] : named) out[name] = count;
  return out;
}

}  // namespace understudy::report_parts
