// [[job]] order, compute, injected_delay and jitter: what its ranks do besides collectives.
#include <algorithm>
#include <set>

#include "ctrl/config/read/csv_file.h"
#include "ctrl/config/read/sections.h"
#include "ctrl/config/units_text.h"

namespace understudy {
namespace {

constexpr double kMostFactor = 1000;

class IterationReader {
 public:
  IterationReader(TableReader& job_table, ReadContext& context, JobConfig& job, uint64_t ranks)
      : table_(job_table), context_(context), job_(job), ranks_(ranks), out_(job.iteration) {}

  void run() {
    table_.choice("order", {{"size", false}, {"iteration", true}}, out_.whole);
    if (const auto delay = table_.duration("injected_delay")) out_.injected_delay = delay->value;
    if (const TomlNode* jitter = table_.table("jitter")) read_jitter(*jitter);
    const TomlNode* const compute = table_.table("compute");
    if (compute != nullptr) read_compute(*compute);
    if (compute == nullptr && out_.ddp) check_total(table_, "ddp");
  }

 private:
  void read_jitter(const TomlNode& toml) {
    using Kind = Jitter::Kind;
    TableReader table(toml, "job.jitter", context_.errors);
    Jitter jitter;
    const size_t errors = context_.errors.size();
    table.require("distribution", "uniform, normal, exponential or lognormal");
    table.choice("distribution",
                 {{"uniform", Kind::kUniform},
                  {"normal", Kind::kNormal},
                  {"exponential", Kind::kExponential},
                  {"lognormal", Kind::kLognormal}},
                 jitter.kind);
    if (context_.errors.size() != errors) return;  // the other keys depend on it
    const auto time = [&](std::string_view key, Duration& out) {
      table.require(key, "a duration, as in \"20us\"");
      const auto value = table.duration(key);
      if (!value) return;
      out = value->value;
      if (out <= Jitter::most()) return;
      table.error(value->line, key, table.any(key)->describe(), "expected at most an hour");
    };
    switch (jitter.kind) {
      case Kind::kUniform:
        time("from", jitter.low);
        time("to", jitter.high);
        if (jitter.low > jitter.high) {
          table.error(table.line(), "to", "less than from", "expected a longer delay");
        }
        break;
      case Kind::kNormal:
        time("mean", jitter.low);
        time("deviation", jitter.high);
        break;
      case Kind::kExponential:
        time("mean", jitter.low);
        break;
      case Kind::kLognormal:
        time("median", jitter.low);
        table.require("sigma", "the standard deviation of the delay's logarithm, as in 0.5");
        if (const auto sigma = table.number("sigma")) {
          jitter.sigma = sigma->value;
          if (!(sigma->value >= 0 && sigma->value <= 10)) {
            table.error(sigma->line, "sigma", table.any("sigma")->describe(),
                        "expected a number from 0 to 10");
          }
        }
        break;
    }
    table.finish();
    out_.jitter = jitter;
  }

  void read_compute(const TomlNode& toml) {
    TableReader table(toml, "job.compute", context_.errors);
    if (out_.ddp) refuse_what_ddp_says(table);
    if (const auto overlap = table.boolean("overlap")) out_.overlap = overlap->value;
    const TomlNode* before = table.any("before");
    const auto file = table.text("file");
    if (before != nullptr && file) {
      table.error(file->line, "file", quoted(file->value),
                  "the times are given by before, or by a file");
    } else if (file) {
      read_file(table, *file);
    } else if (before != nullptr) {
      read_list(table, *before);
    }
    if (const auto after = table.duration("after")) out_.after = after->value;
    if (const auto beside = table.duration("beside")) {
      out_.beside = beside->value;
      if (!out_.overlap) {
        table.error(beside->line, "beside", table.any("beside")->describe(),
                    "nothing is computed beside a collective without overlap = true");
      }
    }
    for (const TomlNode* entry : table.tables("slow")) read_slow(*entry);
    table.finish();
    check_total(table, out_.ddp ? "slow" : "before");
    check_known(table);
  }

  void refuse_what_ddp_says(TableReader& table) {
    for (const char* key : {"before", "file", "beside", "after", "overlap"}) {
      const TomlNode* const given = table.any(key);
      if (given == nullptr) continue;
      table.error(given->line, key, given->describe(),
                  "ddp says what is computed, slow which ranks take longer: leave it out");
    }
  }

  /// Of operations that are not known beforehand emulated ranks compute what the real ones do.
  void check_known(TableReader& table) {
    if (job_.operations == OperationsMode::kTold) return;
    if (out_.columns == 1 && out_.factor.empty()) return;
    table.error(table.line(), out_.columns == 1 ? "slow" : "file", "ranks that compute longer",
                "what is computed before operations that are not known beforehand is not known: "
                "operations = \"told\", or skew");
  }

  /// Rows that a table may have beside one for all.
  uint64_t kinds() const { return job_.group ? 1 : job_.sizes.size(); }
  uint64_t operations() const { return kinds() * (uint64_t{job_.warmup} + job_.iterations); }

  void check_rows(TableReader& table, unsigned line, std::string_view key, uint64_t rows) {
    if (job_.sizes.empty() || rows == 1 || rows == kinds() || rows == operations()) return;
    table.error(line, key, std::to_string(rows) + " times",
                "expected one for all, one for each of the " + std::to_string(kinds()) +
                    (job_.group ? " group" : " sizes") + ", or one for each of the " +
                    std::to_string(operations()) + " operations, warm-ups among them");
  }

  void read_list(TableReader& table, const TomlNode& before) {
    if (before.kind != TomlNode::Kind::kArray) {
      if (const auto one = table.duration("before")) out_.compute = {one->value};
      return;
    }
    for (const TomlNode& element : before.children) {
      const auto time = table.duration_of(element, "before");
      if (!time) return;
      out_.compute.push_back(time->value);
    }
    check_rows(table, before.line, "before", out_.compute.size());
  }

  void read_file(TableReader& table, const Located<std::string>& file) {
    const auto read = read_csv_file(table, context_, file);
    if (!read || !read_table(read->text, read->path)) return;
    check_rows(table, file.line, "file", out_.compute.size() / out_.columns);
  }

  /// A header, "compute" or the ranks' numbers from 0; then a line for each operation.
  bool read_table(std::string_view text, const std::string& path) {
    unsigned line = 0;
    size_t width = 0;
    const auto wrong = [&](const std::string& column, std::string found, std::string allowed) {
      context_.errors.add({path, line, column, std::move(found), std::move(allowed)});
      return false;
    };
    for (const std::string_view raw : split(text, '\n')) {
      ++line;
      if (raw.empty() || raw.front() == '#') continue;
      const std::vector<std::string_view> cells = split(raw, ',');
      if (width == 0) {
        width = cells.size();
        bool right =
            width == 1 ? cells[0] == "compute" || cells[0] == "0" : ranks_ == 0 || width == ranks_;
        for (size_t i = 0; i < width && width > 1; ++i) right &= cells[i] == std::to_string(i);
        if (!right) {
          return wrong("", quoted(raw.substr(0, 40)),
                       "expected a header: compute, or the numbers of all " +
                           std::to_string(ranks_) + " ranks from 0, separated by commas");
        }
        continue;
      }
      if (cells.size() != width) {
        return wrong("", std::to_string(cells.size()) + " cells",
                     "the header has " + std::to_string(width) + " columns");
      }
      for (size_t i = 0; i < width; ++i) {
        const auto time = parse_duration(cells[i]);
        if (!time) return wrong(std::to_string(i), quoted(cells[i]), time.error().text);
        out_.compute.push_back(*time);
      }
    }
    out_.columns = static_cast<uint32_t>(std::max<size_t>(width, 1));
    line = 0;
    return !out_.compute.empty() || wrong("", "no times", "expected one operation a line");
  }

  void read_slow(const TomlNode& toml) {
    TableReader entry(toml, "job.compute.slow", context_.errors);
    const auto node = entry.text("node");
    if (!node) entry.require("rank", "the position in ranks, from 0; or give node, its name");
    entry.require("factor", "how many times as long it computes, as in 1.5");
    const auto rank = entry.integer("rank", 0, static_cast<int64_t>(kMostNodes) - 1);
    const auto factor = entry.number("factor");
    entry.finish();
    if (factor && !(factor->value >= 0 && factor->value <= kMostFactor)) {
      entry.error(factor->line, "factor", entry.any("factor")->describe(),
                  "expected a number from 0 to 1000");
    } else if (node && rank) {
      entry.error(node->line, "node", quoted(node->value), "expected either rank or node");
    } else if (!factor || ranks_ == 0) {
      return;
    } else if (rank) {
      const auto position = static_cast<size_t>(rank->value);
      if (position < job_.ranks.size()) {
        slow_down(entry, rank->line, "rank", position, factor->value);
        return;
      }
      entry.error(rank->line, "rank", std::to_string(position),
                  "the job's ranks are 0 to " + std::to_string(job_.ranks.size() - 1));
    } else if (node) {
      for (const NodeId id : context_.resolve_all(entry, "node", *node)) {
        slow_node(entry, *node, id, factor->value);
      }
    }
  }

  void slow_node(TableReader& entry, const Located<std::string>& name, NodeId id, double factor) {
    const auto place = std::ranges::find(job_.ranks, id);
    if (place == job_.ranks.end()) {
      entry.error(name.line, "node", quoted(context_.config.nodes[id].name),
                  "no rank of the job is on this node");
      return;
    }
    slow_down(entry, name.line, "node", static_cast<size_t>(place - job_.ranks.begin()), factor);
  }

  void slow_down(TableReader& entry, unsigned line, std::string_view key, size_t position,
                 double factor) {
    if (!slow_.insert(position).second) {
      entry.error(line, key, entry.any(key)->describe(), "this rank's factor is given twice");
      return;
    }
    out_.factor.resize(job_.ranks.size(), 1);
    out_.factor[position] = factor;
  }

  /// Sums of times stay within 64 bits, and a day is beyond any use.
  void check_total(TableReader& table, std::string_view key) {
    double sum = 0, factor = 1;
    for (const Duration time : out_.compute) sum += time.seconds();
    for (const double f : out_.factor) factor = std::max(factor, f);
    const size_t rows = out_.compute.size() / out_.columns;
    if (rows != 0) sum *= static_cast<double>(operations()) / static_cast<double>(rows);
    sum += (out_.beside.seconds() + out_.after.seconds()) * static_cast<double>(operations());
    if (sum * factor <= 86'400) return;
    table.error(table.line(), key, "computing for more than 86400s in all operations",
                "expected less");
  }

  TableReader& table_;
  ReadContext& context_;
  JobConfig& job_;
  const uint64_t ranks_;  ///< 0: they are not known
  IterationConfig& out_;
  std::set<size_t> slow_;
};

}  // namespace

void read_iteration(TableReader& table, ReadContext& context, JobConfig& job, uint64_t ranks) {
  IterationReader(table, context, job, ranks).run();
}

}  // namespace understudy
