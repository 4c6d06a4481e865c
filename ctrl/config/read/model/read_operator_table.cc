// [gpu] table: times of operators that were measured, as CSV or as AICB's AIOB writes them. What a layer takes is the
// sum of its operators. AIOB's form: aliyun/aicb 23eec3c, utils/utils.py.
#include <algorithm>
#include <charconv>
#include <map>

#include "collective_model/training/operators.h"
#include "ctrl/config/read/csv_file.h"
#include "ctrl/config/read/sections.h"
#include "ctrl/config/units_text.h"

namespace understudy {
namespace {

class OperatorTable {
 public:
  OperatorTable(ReadContext& context, CsvFile file) : context_(context), file_(std::move(file)) {}

  void give_to(TrainingConfig& training) {
    const std::vector<std::string_view> lines = split(file_.text, '\n');
    const auto first = std::ranges::find_if(
        lines, [](std::string_view line) { return !line.empty() && line.front() != '#'; });
    if (first == lines.end()) return error(0, "", "the table is empty");
    if (first->starts_with("operator,")) {
      give_csv(training, lines, first);
    } else {
      give_aiob(training, lines);
    }
  }

 private:
  using Lines = std::vector<std::string_view>;

  void error(size_t line, std::string_view found, const std::string& why) {
    const std::string what = found.empty() ? std::string() : quoted(found);
    context_.errors.add({file_.path, static_cast<unsigned>(line), "", what, why});
  }

  // CSV: operator, as many cells as its shape has, type of the values, time with its unit.

  void give_csv(TrainingConfig& training, const Lines& lines, Lines::const_iterator first) {
    const size_t before = context_.errors.size();
    for (auto line = first + 1; line != lines.end(); ++line) {
      if (!line->empty() && line->front() != '#') {
        read_row(static_cast<size_t>(line - lines.begin()) + 1, *line);
      }
    }
    if (context_.errors.size() > before) return;
    const Transformer& model = training.model;
    const Parallel& parallel = training.parallel;
    TrainingGpu& gpu = *training.gpu;
    const auto seconds = [&](const Operator& one) { return seconds_of(one); };
    if (!gpu.layer) gpu.layer = sum_of(layer_operators(model, parallel), seconds);
    if (model.vocabulary > 0 && !gpu.output) {
      gpu.output = sum_of(output_operators(model, parallel), seconds);
    }
  }

  void read_row(size_t number, std::string_view line) {
    const std::vector<std::string_view> cells = split(line, ',');
    if (cells.size() < 4) {
      return error(number, line,
                   "expected operator,shape..,type,time as in gemm,4096,1024,3072,bf16,40us");
    }
    const std::string_view type = cells[cells.size() - 2];
    const auto time = parse_duration(cells.back());
    if (!time) return error(number, cells.back(), time.error().text);
    std::string key(cells.front());
    for (size_t i = 1; i + 2 < cells.size(); ++i) {
      uint64_t size = 0;
      const char* end = cells[i].data() + cells[i].size();
      const auto [rest, wrong] = std::from_chars(cells[i].data(), end, size);
      if (wrong != std::errc() || rest != end) {
        return error(number, cells[i], "expected a whole number, of the operator's shape");
      }
      key += "," + std::to_string(size);
    }
    if (type != "bf16" && type != "fp16") return;  // of models that are not of 2-byte values
    if (!times_.emplace(key, time->seconds()).second) {
      error(number, key, "this operator has a time already");
    }
  }

  double seconds_of(const Operator& one) {
    std::string key(one.name);
    for (const uint64_t size : one.shape) key += "," + std::to_string(size);
    const auto [it, missing] = times_.try_emplace(key, 0);
    if (missing) {
      context_.errors.add({file_.path, 0, "", "no row of " + key + ",bf16", "the job needs it"});
    }
    return it->second;
  }

  // AIOB: a section for each group of kernels, with lines of times in us.

  void give_aiob(TrainingConfig& training, const Lines& lines) {
    double layer = 0, output = 0;
    std::string section;
    bool attention = false, network = false;
    for (size_t i = 0; i < lines.size(); ++i) {
      const size_t colon = lines[i].find(':');
      if (colon == std::string_view::npos) {
        if (lines[i].empty()) continue;
        return error(i + 1, lines[i],
                     "expected AIOB's table, or CSV whose first line begins with operator,");
      }
      const std::string_view name = lines[i].substr(0, colon);
      const std::string_view value = trimmed(lines[i].substr(colon + 1));
      if (!name.starts_with("time_gpu_")) {
        section = name;
        continue;
      }
      if (name != "time_gpu_avg") continue;
      double us = 0;
      const auto [rest, wrong] = std::from_chars(value.data(), value.data() + value.size(), us);
      constexpr double kMostUs = 1e9;
      if (wrong != std::errc() || rest != value.data() + value.size() ||
          !(us >= 0 && us <= kMostUs)) {
        return error(i + 1, value, "expected a time in microseconds");
      }
      const bool of_attention = section.find("atten") != std::string::npos;
      const bool of_network = section.find("mlp") != std::string::npos;
      if (of_attention || of_network || section == "layernorm" || section == "layernorm2") {
        layer += us / 1e6;
      } else if (section == "logit_time") {
        output += us / 1e6;
      }
      attention |= of_attention;
      network |= of_network;
    }
    if (!attention) return error(0, "", "there is no time of attention (atten..)");
    if (!network) return error(0, "", "there is no time of the network (mlp..)");
    TrainingGpu& gpu = *training.gpu;
    // AICB gives each of the three passes the same time.
    const double again = training.parallel.recompute == Recompute::kFull ? layer : 0;
    if (!gpu.layer) gpu.layer = GivenTimes{layer, 2 * layer + again, layer};
    if (output > 0 && !gpu.output) gpu.output = GivenTimes{output, 2 * output, output};
  }

  ReadContext& context_;
  CsvFile file_;
  std::map<std::string, double> times_;
};

}  // namespace

void read_operator_table(TableReader& gpu, ReadContext& context, const Located<std::string>& name,
                         TrainingConfig& training) {
  if (!training.gpu->layer && (training.model.experts > 0 || training.parallel.cp > 1)) {
    gpu.error(name.line, "table", quoted(name.value),
              "tables of operators are of dense layers without cp: give [gpu] layer");
    return;
  }
  auto file = read_csv_file(gpu, context, name, "table");
  if (!file) return;
  OperatorTable(context, std::move(*file)).give_to(training);
}

}  // namespace understudy
