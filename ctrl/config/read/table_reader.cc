#include "ctrl/config/read/table_reader.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "ctrl/config/suggest.h"
#include "ctrl/config/units_text.h"

namespace understudy {
namespace {

using Kind = TomlNode::Kind;

constexpr std::string_view kDurationExample = "a duration with its unit in quotes, as in \"2us\"";
constexpr std::string_view kSizeExample = "a size with its unit in quotes, as in \"4MiB\"";

std::string join(const std::vector<std::string_view>& names) {
  std::string text;
  for (std::string_view name : names) {
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

}  // namespace

void ErrorList::add(unsigned line, std::string key, std::string found, std::string allowed) {
  errors_.push_back({file_, line, std::move(key), std::move(found), std::move(allowed)});
}

std::vector<ConfigError> ErrorList::take() {
  std::stable_sort(errors_.begin(), errors_.end(), [&](const ConfigError& a, const ConfigError& b) {
    return std::tuple(a.file != file_, a.line) < std::tuple(b.file != file_, b.line);
  });
  cap_other_files();
  return std::exchange(errors_, {});
}

void ErrorList::cap_other_files() {
  constexpr size_t kMostOfFile = 10;
  std::map<std::string, size_t> counts;
  const auto is_beyond = [&](const ConfigError& error) {
    return error.file != file_ && ++counts[error.file] > kMostOfFile;
  };
  errors_.erase(std::remove_if(errors_.begin(), errors_.end(), is_beyond), errors_.end());
  for (const auto& [file, count] : counts) {
    if (count <= kMostOfFile) continue;
    const size_t more = count - kMostOfFile;
    errors_.push_back(
        {file, 0, "", "", "and " + std::to_string(more) + " more error" + (more == 1 ? "" : "s")});
  }
}

std::string TableReader::path(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

void TableReader::wrong_type(const TomlNode& value, std::string_view key, std::string allowed) {
  error(value.line, key, value.describe(), std::move(allowed));
}

const TomlNode* TableReader::any(std::string_view key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.push_back(key);
  for (const TomlNode& child : table_.children) {
    if (child.key == key) return &child;
  }
  return nullptr;
}

std::optional<Located<std::string>> TableReader::text(std::string_view key) {
  const TomlNode* value = any(key);
  if (value == nullptr) return std::nullopt;
  if (value->kind != Kind::kString) {
    wrong_type(*value, key, "expected a text in quotes");
    return std::nullopt;
  }
  return Located<std::string>{value->text, value->line};
}

std::optional<Located<int64_t>> TableReader::integer(std::string_view key, int64_t least,
                                                     int64_t most) {
  const TomlNode* value = any(key);
  if (value == nullptr) return std::nullopt;
  // The parser library turns an integer that is too large into the largest one.
  const bool overflow = value->integer == std::numeric_limits<int64_t>::max();
  if (value->kind != Kind::kInteger || overflow || value->integer < least ||
      value->integer > most) {
    wrong_type(*value, key,
               "expected an integer from " + std::to_string(least) + " to " + std::to_string(most));
    return std::nullopt;
  }
  return Located<int64_t>{value->integer, value->line};
}

std::optional<Located<double>> TableReader::number(std::string_view key) {
  const TomlNode* value = any(key);
  if (value == nullptr) return std::nullopt;
  if (value->kind != Kind::kFloat && value->kind != Kind::kInteger) {
    wrong_type(*value, key, "expected a number");
    return std::nullopt;
  }
  const double real =
      value->kind == Kind::kFloat ? value->real : static_cast<double>(value->integer);
  return Located<double>{real, value->line};
}

std::optional<Located<bool>> TableReader::boolean(std::string_view key) {
  const TomlNode* value = any(key);
  if (value == nullptr) return std::nullopt;
  if (value->kind != Kind::kBoolean) {
    wrong_type(*value, key, "expected true or false");
    return std::nullopt;
  }
  return Located<bool>{value->boolean, value->line};
}

template <typename T>
std::optional<Located<T>> TableReader::quantity(const TomlNode* value, std::string_view key,
                                                std::string_view what,
                                                Result<T> (*parse)(std::string_view)) {
  if (value == nullptr) return std::nullopt;
  if (value->kind != Kind::kString) {
    const bool bare = value->kind == Kind::kInteger || value->kind == Kind::kFloat;
    wrong_type(*value, key,
               "expected " + std::string(what) + (bare ? "; a bare number has no unit" : ""));
    return std::nullopt;
  }
  const Result<T> parsed = parse(value->text);
  if (!parsed) {
    wrong_type(*value, key, parsed.error().text);
    return std::nullopt;
  }
  return Located<T>{*parsed, value->line};
}

std::optional<Located<Rate>> TableReader::rate(std::string_view key) {
  return quantity(any(key), key, "a rate with its unit in quotes, as in \"100Gbit/s\"", parse_rate);
}

std::optional<Located<Rate>> TableReader::memory_rate(std::string_view key) {
  return quantity(any(key), key, "a rate with its unit in quotes, as in \"12800Gbit/s\"",
                  parse_memory_rate);
}

std::optional<Located<Duration>> TableReader::duration(std::string_view key) {
  return quantity(any(key), key, kDurationExample, parse_duration);
}

std::optional<Located<Duration>> TableReader::duration_of(const TomlNode& element,
                                                          std::string_view key) {
  return quantity(&element, key, kDurationExample, parse_duration);
}

std::optional<Located<uint64_t>> TableReader::size(std::string_view key) {
  return quantity(any(key), key, kSizeExample, parse_size);
}

std::optional<Located<uint64_t>> TableReader::size_of(const TomlNode& element,
                                                      std::string_view key) {
  return quantity(&element, key, kSizeExample, parse_size);
}

std::vector<Located<uint64_t>> TableReader::sizes(std::string_view key) {
  const TomlNode* value = any(key);
  std::vector<Located<uint64_t>> sizes;
  if (value == nullptr) return sizes;
  if (value->kind != Kind::kArray) {
    wrong_type(*value, key, "expected an array of sizes, as in [\"4KiB\", \"16MiB\"]");
    return sizes;
  }
  for (const TomlNode& child : value->children) {
    if (const auto size = size_of(child, key)) sizes.push_back(*size);
  }
  return sizes;
}

std::optional<std::vector<Located<std::string>>> TableReader::texts(std::string_view key) {
  const TomlNode* value = any(key);
  if (value == nullptr) return std::nullopt;
  if (value->kind != Kind::kArray) {
    wrong_type(*value, key, "expected an array of texts, as in [\"a\", \"b\"]");
    return std::nullopt;
  }
  std::vector<Located<std::string>> texts;
  for (const TomlNode& child : value->children) {
    if (child.kind == Kind::kString) {
      texts.push_back({child.text, child.line});
    } else {
      wrong_type(child, key, "expected a text in quotes");
    }
  }
  return texts;
}

std::vector<Located<std::string>> TableReader::one_or_more(std::string_view key) {
  const TomlNode* value = any(key);
  if (value == nullptr) return {};
  if (value->kind == Kind::kString) return {{value->text, value->line}};
  if (value->kind == Kind::kArray) return *texts(key);
  wrong_type(*value, key, "expected a text in quotes, or an array of texts");
  return {};
}

const TomlNode* TableReader::table(std::string_view key) {
  const TomlNode* value = any(key);
  if (value == nullptr || value->kind == Kind::kTable) return value;
  wrong_type(*value, key, "expected a table");
  return nullptr;
}

std::vector<const TomlNode*> TableReader::tables(std::string_view key) {
  const TomlNode* value = any(key);
  std::vector<const TomlNode*> tables;
  if (value == nullptr) return tables;
  const std::string allowed = "expected an array of tables: write [[" + path(key) + "]]";
  if (value->kind != Kind::kArray) {
    wrong_type(*value, key, allowed);
    return tables;
  }
  for (const TomlNode& child : value->children) {
    if (child.kind == Kind::kTable) {
      tables.push_back(&child);
    } else {
      wrong_type(child, key, allowed);
    }
  }
  return tables;
}

bool TableReader::require(std::string_view key, std::string allowed) {
  for (const TomlNode& child : table_.children) {
    if (child.key == key) return true;
  }
  error(table_.line, key, "nothing", "the key is missing: " + std::move(allowed));
  return false;
}

void TableReader::finish() {
  for (const TomlNode& child : table_.children) {
    if (std::find(known_.begin(), known_.end(), child.key) != known_.end()) continue;
    error(child.line, child.key, "an unknown key" + suggest(child.key, known_),
          "known keys here: " + join(known_));
  }
}

void TableReader::unknown_word(const Located<std::string>& word, std::string_view key,
                               const std::vector<std::string_view>& names) {
  error(word.line, key, "\"" + word.value + "\"" + suggest(word.value, names),
        "expected one of " + join(names));
}

}  // namespace understudy
