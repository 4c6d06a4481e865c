#include "tools/allreduce_node/table.h"

#include <nlohmann/json.hpp>

#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

struct Rates {
  double algorithm = 0, bus = 0;  ///< GB/s, of 1e9 bytes
};

Rates rates_of(const NodeOptions& options, const Shape& shape, const Measured& measured) {
  const double algorithm = static_cast<double>(shape.bytes) / measured.time_us / 1000;
  return {algorithm, algorithm * bus_factor(options.kind, options.ranks)};
}

/// nccl-tests prints two decimals; slow links need more to show anything.
std::string rate_text(double gigabytes) {
  return format_text(gigabytes < 1 ? "%.5f" : "%.2f", gigabytes);
}

std::string columns(const NodeOptions& options, const Shape& shape,
                    const std::optional<Measured>& measured) {
  if (!measured) return format_text("  %9s  %7s  %7s %6s", "N/A", "N/A", "N/A", "N/A");
  const Rates rates = rates_of(options, shape, *measured);
  const std::string wrong = measured->wrong ? std::to_string(*measured->wrong) : "N/A";
  return format_text("  %9.2f  %7s  %7s %6s", measured->time_us, rate_text(rates.algorithm).c_str(),
                     rate_text(rates.bus).c_str(), wrong.c_str());
}

std::string reduction_text(const NodeOptions& options) {
  return std::string(reduces(options.kind) ? name_of(options.reduction) : "none");
}

nlohmann::ordered_json measured_json(const NodeOptions& options, const Shape& shape,
                                     const std::optional<Measured>& measured) {
  if (!measured) return nullptr;
  const Rates rates = rates_of(options, shape, *measured);
  nlohmann::ordered_json json{{"time_us", measured->time_us},
                              {"algbw_GBps", rates.algorithm},
                              {"busbw_GBps", rates.bus},
                              {"wrong", nullptr}};
  if (measured->wrong) json["wrong"] = *measured->wrong;
  return json;
}

}  // namespace

std::string table_head() {
  const auto words = [](const char* time, const char* rate, const char* wrong) {
    return format_text("  %9s  %7s  %7s %6s", time, rate[0] == '(' ? rate : "algbw",
                       rate[0] == '(' ? rate : "busbw", wrong);
  };
  return "#\n" + format_text("#%55s%-38s%s\n", "", "  out-of-place", "in-place") +
         format_text("# %10s  %12s  %8s  %6s  %6s", "size", "count", "type", "redop", "root") +
         words("time", "", "#wrong") + words("time", "", "#wrong") + "\n" +
         format_text("# %10s  %12s  %8s  %6s  %6s", "(B)", "(elements)", "", "", "") +
         words("(us)", "(GB/s)", "") + words("(us)", "(GB/s)", "") + "\n";
}

std::string table_row(const NodeOptions& options, const SizeRow& row) {
  return format_text("%12llu  %12llu  %8s  %6s  %6d",
                     static_cast<unsigned long long>(row.shape.bytes),
                     static_cast<unsigned long long>(row.shape.count),
                     std::string(name_of(options.type)).c_str(), reduction_text(options).c_str(),
                     has_root(options.kind) ? static_cast<int>(options.root) : -1) +
         columns(options, row.shape, row.out_of_place) + columns(options, row.shape, row.in_place) +
         "\n";
}

std::string json_text(const NodeOptions& options, const std::vector<SizeRow>& rows) {
  nlohmann::ordered_json json{
      {"collective", name_of(options.kind)},  {"type", name_of(options.type)},
      {"reduction", reduction_text(options)}, {"ranks", options.ranks},
      {"local_ranks", options.local},         {"warmup", options.warmup},
      {"iterations", options.iterations},     {"blocking", options.blocking}};
  if (has_root(options.kind)) json["root"] = options.root;
  json["sizes"] = nlohmann::ordered_json::array();
  for (const SizeRow& row : rows) {
    json["sizes"].push_back({{"bytes", row.shape.bytes},
                             {"count", row.shape.count},
                             {"out_of_place", measured_json(options, row.shape, row.out_of_place)},
                             {"in_place", measured_json(options, row.shape, row.in_place)}});
  }
  return json.dump(2) + "\n";
}

}  // namespace understudy
