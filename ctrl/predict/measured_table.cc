#include "ctrl/predict/measured_table.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

namespace understudy {
namespace {

constexpr size_t kLongestText = 64u << 20;

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char c : line) {
    if (c == ',') {
      fields.emplace_back();
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  return fields;
}

std::optional<uint64_t> whole(const std::string& text) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || rest != end) return std::nullopt;
  return value;
}

std::optional<double> positive(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || rest != end || !(value > 0) || value > 1e15) {
    return std::nullopt;
  }
  return value;
}

/// What follows mpirun's tag ("[1,0]<stdout>:"), or the whole line.
std::string without_tag(const std::string& line) {
  unsigned job = 0, rank = 0;
  int end = 0;
  for (const char* tag : {"[%u,%u]<stdout>:%n", "[%u,%u]<stderr>:%n"}) {
    if (std::sscanf(line.c_str(), tag, &job, &rank, &end) == 2 && end > 0) {
      return line.substr(static_cast<size_t>(end));
    }
  }
  return line;
}

class Reader {
 public:
  Reader(const std::string& path, bool in_place) : in_place_(in_place) { table_.path = path; }

  tl::expected<MeasuredTable, ConfigError> run(const std::string& text) {
    std::istringstream in(text);
    bool csv = false;
    for (std::string line; std::getline(in, line);) {
      ++line_;
      if (line_ == 1 && line.find("size_bytes") != std::string::npos) {
        csv = true;
        read_header(line);
      } else if (csv) {
        read_fields(line);
      } else {
        read_line(without_tag(line));
      }
      if (error_) return tl::unexpected(*error_);
    }
    if (table_.rows.empty()) {
      line_ = 0;
      complain("", "no row", "expected nccl-tests' output, or CSV with a column size_bytes");
      return tl::unexpected(*error_);
    }
    table_.nodes = static_cast<uint32_t>(hosts_.size());
    take_medians();
    return std::move(table_);
  }

 private:
  void complain(std::string key, std::string found, std::string allowed) {
    error_ = ConfigError{table_.path, line_, std::move(key), std::move(found), std::move(allowed)};
  }

  /// Each size once, ascending, with the median of its times and its first line.
  void take_medians() {
    std::map<uint64_t, std::vector<MeasuredRow>> by_size;
    for (const MeasuredRow& row : table_.rows) by_size[row.bytes].push_back(row);
    table_.rows.clear();
    for (auto& [bytes, rows] : by_size) {
      MeasuredRow& row = table_.rows.emplace_back(rows.front());
      if (rows.size() == 1) continue;
      ++table_.repeated;
      std::ranges::sort(rows, {}, &MeasuredRow::time);
      row.time = (rows[(rows.size() - 1) / 2].time + rows[rows.size() / 2].time) / 2;
    }
  }

  void read_header(const std::string& line) {
    const std::string wanted = in_place_ ? "time_in_place" : "time_out_of_place";
    const std::vector<std::string> names = fields_of(line);
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] == "size_bytes") size_ = i;
      for (const auto& [suffix, unit] : {std::pair{"_us", 1.0}, std::pair{"_ns", 1e-3}}) {
        if (names[i] != wanted + suffix) continue;
        time_ = i;
        unit_ = unit;
      }
    }
    if (time_ == kNone) {
      complain("", "no column " + wanted + "_us or _ns", "expected measured times");
    }
  }

  void read_fields(const std::string& line) {
    if (line.empty() || line == "\r") return;
    const std::vector<std::string> fields = fields_of(line);
    const size_t needed = std::max(size_, time_) + 1;
    if (fields.size() < needed) {
      complain("", std::to_string(fields.size()) + " field(s)",
               "expected at least " + std::to_string(needed));
      return;
    }
    add(fields[size_], fields[time_], unit_);
  }

  void read_line(const std::string& line) {
    const std::vector<std::string> words = words_of(line);
    if (words.empty()) return;
    if (words[0].starts_with('#')) {
      // "#  Rank  0 Group  0 Pid  4711 on  host device  0 [0x07] ..."
      if (words.size() < 3 || words[1] != "Rank" || !whole(words[2])) return;
      ++table_.ranks;
      const auto on = std::find(words.begin(), words.end(), "on");
      if (on != words.end() && on + 1 != words.end()) hosts_.insert(*(on + 1));
      return;
    }
    if (!whole(words[0])) return;  // what the launcher or the program says besides
    constexpr size_t kTimes = 8;   // time, two rates and a count, out of place and in place
    if (words.size() < 3 + kTimes) {
      complain("", std::to_string(words.size()) + " column(s)",
               "expected a row of nccl-tests: size, count, type, redop, root, and four columns "
               "out of place and in place");
      return;
    }
    add(words[0], words[words.size() - kTimes / (in_place_ ? 2 : 1)], 1);
  }

  void add(const std::string& size, const std::string& time, double unit) {
    const auto bytes = whole(size);
    const auto value = positive(time);
    if (!bytes) return complain("size", "\"" + size + "\"", "expected bytes");
    if (!value) return complain("time", "\"" + time + "\"", "expected a positive time");
    if (*bytes > 0) table_.rows.push_back({*bytes, *value * unit, line_});
  }

  static constexpr size_t kNone = ~size_t{0};

  MeasuredTable table_;
  bool in_place_;
  unsigned line_ = 0;
  size_t size_ = 0, time_ = kNone;
  double unit_ = 1;
  std::set<std::string> hosts_;
  std::optional<ConfigError> error_;
};

}  // namespace

tl::expected<MeasuredTable, ConfigError> parse_measured(const std::string& text,
                                                        const std::string& path, bool in_place) {
  return Reader(path, in_place).run(text);
}

tl::expected<MeasuredTable, ConfigError> read_measured(const std::string& path, bool in_place) {
  const auto failed = [&](const char* what) {
    return tl::unexpected(
        ConfigError{path, 0, "", "", std::string(what) + ": " + std::strerror(errno)});
  };
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return failed("cannot open");
  std::string text(kLongestText + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return failed("cannot read");
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kLongestText) {
    return tl::unexpected(ConfigError{path, 0, "", "more than 64 MiB", "no table is that long"});
  }
  return parse_measured(text, path, in_place);
}

}  // namespace understudy
