// Reads one table of the document key by key. Every wrong value becomes an error and the read goes
// on; the keys that were asked for are the keys that are known.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctrl/config/read/load.h"
#include "ctrl/config/toml/toml_tree.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"

namespace understudy {

/// A value and the line on which it stands.
template <typename T>
struct Located {
  T value{};
  unsigned line = 0;
};

/// The errors found so far in one file.
class ErrorList {
 public:
  explicit ErrorList(std::string file) : file_(std::move(file)) {}
  void add(unsigned line, std::string key, std::string found, std::string allowed);
  /// Of another file, that this one names.
  void add(ConfigError error) { errors_.push_back(std::move(error)); }
  bool empty() const { return errors_.empty(); }
  size_t size() const { return errors_.size(); }
  const std::string& file() const { return file_; }
  /// The errors in order of lines, this file's first; leaves the list empty. Of each other file,
  /// which may have millions of lines, the first ten and the number of those behind.
  std::vector<ConfigError> take();

 private:
  void cap_other_files();

  std::string file_;
  std::vector<ConfigError> errors_;
};

class TableReader {
 public:
  /// `path` is the table's key in messages ("" for the root). All arguments must outlive this.
  TableReader(const TomlNode& table, std::string path, ErrorList& errors)
      : table_(table), path_(std::move(path)), errors_(errors) {}

  unsigned line() const { return table_.line; }
  /// "node.link" for the key "link" of the table "node".
  std::string path(std::string_view key) const;
  void error(unsigned line, std::string_view key, std::string found, std::string allowed) {
    errors_.add(line, path(key), std::move(found), std::move(allowed));
  }

  // Each reads the value of `key` if it is there and right; what is wrong is reported.
  std::optional<Located<std::string>> text(std::string_view key);
  std::optional<Located<int64_t>> integer(std::string_view key, int64_t least, int64_t most);
  std::optional<Located<double>> number(std::string_view key);
  std::optional<Located<bool>> boolean(std::string_view key);
  std::optional<Located<Rate>> rate(std::string_view key);
  std::optional<Located<Rate>> memory_rate(std::string_view key);
  std::optional<Located<Duration>> duration(std::string_view key);
  std::optional<Located<uint64_t>> size(std::string_view key);
  /// An element of an array that was asked for by any().
  std::optional<Located<Duration>> duration_of(const TomlNode& element, std::string_view key);
  /// An array of sizes. Elements that are wrong are reported and left out.
  std::vector<Located<uint64_t>> sizes(std::string_view key);
  /// An element of an array that was asked for by any().
  std::optional<Located<uint64_t>> size_of(const TomlNode& element, std::string_view key);
  /// An array whose elements are texts. Elements of another type are reported and left out.
  std::optional<std::vector<Located<std::string>>> texts(std::string_view key);
  const TomlNode* table(std::string_view key);
  /// A text, or an array of texts. Elements of another type are reported and left out.
  std::vector<Located<std::string>> one_or_more(std::string_view key);
  /// The tables of `[[key]]`; none if it is absent.
  std::vector<const TomlNode*> tables(std::string_view key);
  /// The value of any type.
  const TomlNode* any(std::string_view key);

  /// Sets `out` to the value that belongs to the text; `out` keeps its default if it is absent.
  template <typename E>
  void choice(std::string_view key, std::initializer_list<std::pair<std::string_view, E>> known,
              E& out) {
    choice_among(key, known, out);
  }
  /// The same for a list of such pairs that has a name.
  template <typename List, typename E>
  void choice_among(std::string_view key, const List& known, E& out) {
    const auto word = text(key);
    if (!word) return;
    std::vector<std::string_view> names;
    for (const auto& [name, value] : known) {
      if (name == word->value) {
        out = value;
        return;
      }
      names.push_back(name);
    }
    unknown_word(*word, key, names);
  }

  /// Reports `key` if the table lacks it; `allowed` says what it should hold.
  bool require(std::string_view key, std::string allowed);
  /// Reports every key that was never asked for. Call last.
  void finish();

  /// Reports a text that is none of `names`, with the nearest of them.
  void unknown_word(const Located<std::string>& word, std::string_view key,
                    const std::vector<std::string_view>& names);

 private:
  void wrong_type(const TomlNode& value, std::string_view key, std::string allowed);
  /// A value written as a number with a unit in quotes; `what` says so in messages.
  template <typename T>
  std::optional<Located<T>> quantity(const TomlNode* value, std::string_view key,
                                     std::string_view what, Result<T> (*parse)(std::string_view));

  const TomlNode& table_;
  std::string path_;
  ErrorList& errors_;
  std::vector<std::string_view> known_;
};

}  // namespace understudy
