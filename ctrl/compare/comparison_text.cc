// A comparison as text, in the columns of nccl-tests, and as JSON.
#include <nlohmann/json.hpp>

#include "ctrl/compare/comparison.h"
#include "ctrl/report/nccl_columns.h"
#include "ctrl/report/validity_json.h"
#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSpeedNames[kSpeeds] = {"closed_form", "flow", "packets"};

std::string figure(const std::optional<double>& us) {
  return us ? format_text(*us < 10000 ? "%.2f" : "%.1f", *us) : "-";
}

std::string percent(const std::optional<double>& share) {
  return share ? format_text("%+.2f", *share * 100) : "-";
}

std::string part_text(const ComparedPart& part) {
  const NcclColumns columns({size_column(14),
                             {"predict", "(us)", 12},
                             {"closed form", "(us)", 12},
                             {"flow", "(us)", 12},
                             {"packets", "(us)", 12},
                             {"predict", "(%)", 8},
                             {"closed", "(%)", 8},
                             {"flow", "(%)", 8},
                             {"way", ""}});
  std::string text = columns.heading();
  for (const ComparedRow& row : part.rows) {
    text += columns.row({std::to_string(row.bytes), figure(row.predict),
                         figure(row.of(Speed::kClosedForm)), figure(row.of(Speed::kFlow)),
                         figure(row.of(Speed::kPackets)),
                         percent(difference(row.predict, row.of(Speed::kPackets))),
                         percent(row.difference(Speed::kClosedForm, Speed::kPackets)),
                         percent(row.difference(Speed::kFlow, Speed::kPackets)), row.way});
    for (const std::string& reason : row.reasons) text += "#   " + reason + "\n";
    if (row.unexplained) text += "#   they differ, and no rule here says why\n";
  }
  return text;
}

Json number(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json row_json(const ComparedRow& row) {
  Json out = {{"size", row.bytes}, {"way", row.way}};
  out["predict_us"] = number(row.predict);
  out["source"] = row.predicted ? Json(source_word(row.predicted->source)) : Json();
  out["within"] = number(row.predicted ? row.predicted->error : std::nullopt);
  for (size_t s = 0; s < kSpeeds; ++s) {
    out[std::string(kSpeedNames[s]) + "_us"] = number(row.time[s]);
  }
  out["reasons"] = row.reasons;
  out["unexplained"] = row.unexplained;
  return out;
}

}  // namespace

std::string comparison_text(const Config&, const Comparison& comparison) {
  std::string text;
  for (const ComparedPart& part : comparison.parts) {
    if (!text.empty()) text += "\n";
    text += part.heading.empty() ? "# " + part.name + "\n" : part.heading;
    text += part_text(part);
  }
  text += "#\n";
  for (size_t s = 0; s < kSpeeds; ++s) {
    if (comparison.refused[s].empty()) continue;
    text += "# no figures of " + std::string(kSpeedNames[s]) + ": " + comparison.refused[s] + "\n";
  }
  text += validity_text(comparison.validity);
  return text;
}

std::string comparison_json(const Config& config, const Comparison& comparison) {
  Json out = {{"schema", "understudy-comparison/1"}};
  out["configuration"] = {{"path", config.path}, {"hash", config.hash}};
  out["parts"] = Json::array();
  for (const ComparedPart& part : comparison.parts) {
    Json one = {{"name", part.name}, {"rows", Json::array()}};
    for (const ComparedRow& row : part.rows) one["rows"].push_back(row_json(row));
    out["parts"].push_back(std::move(one));
  }
  out["refused"] = Json::object();
  for (size_t s = 0; s < kSpeeds; ++s) {
    if (!comparison.refused[s].empty()) out["refused"][kSpeedNames[s]] = comparison.refused[s];
  }
  out["validity"] = validity_json(comparison.validity);
  return out.dump(2) + "\n";
}

}  // namespace understudy
