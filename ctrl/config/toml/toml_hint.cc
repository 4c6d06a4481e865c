#include "ctrl/config/toml/toml_hint.h"

#include <cctype>
#include <optional>

namespace understudy {
namespace {

constexpr size_t kLongestShown = 40;

bool is_alpha(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

std::string_view line_of(std::string_view text, unsigned line) {
  for (; line > 1; --line) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  return text.substr(0, text.find('\n'));
}

std::string_view without_blanks(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string shown(std::string_view text) {
  return std::string(text.substr(0, kLongestShown)) + (text.size() > kLongestShown ? "..." : "");
}

/// A word, or a number with a unit: what TOML has only in quotes.
bool is_bare_text(std::string_view word) {
  if (word == "true" || word == "false" || word == "inf" || word == "nan") return false;
  if (word.starts_with('-') || word.starts_with('+')) word.remove_prefix(1);
  if (word.empty()) return false;
  if (is_alpha(word.front())) return word != "inf" && word != "nan";
  const bool based =
      word.size() > 1 && word[0] == '0' && (word[1] == 'x' || word[1] == 'o' || word[1] == 'b');
  if (!is_digit(word.front()) || based) return false;
  size_t unit = word.find_first_not_of("0123456789._");
  if (unit != std::string_view::npos && word[unit] == ' ') ++unit;
  if (unit >= word.size() || (!is_alpha(word[unit]) && word[unit] != '%')) return false;
  const bool exponent = (word[unit] == 'e' || word[unit] == 'E') && unit + 1 < word.size() &&
                        !is_alpha(word[unit + 1]);
  return !exponent;
}

/// Goes along the line, outside of texts, with the brackets that are open.
class LineReader {
 public:
  explicit LineReader(std::string_view line) : line_(line) {}

  std::string hint() {
    while (at_ < line_.size() && line_[at_] != '#') {
      const char c = line_[at_];
      if (c == '"' || c == '\'') {
        if (line_.substr(at_, 3) == std::string(3, c)) return "";  // ends on another line
        if (!skip_text(c)) return open_text(c);
        value_next_ = false;
        continue;
      }
      if (value_next_ && c != ' ' && c != '\t' && c != '[' && c != '{') {
        const std::string_view word =
            without_blanks(line_.substr(at_, line_.find_first_of(",]}#\"'=", at_) - at_));
        if (is_bare_text(word)) return bare_text(word);
        value_next_ = false;
      }
      read_sign(c);
      ++at_;
    }
    return "";
  }

 private:
  void read_sign(char c) {
    if (c == '=' && !key_) {
      key_ = without_blanks(line_.substr(key_at_, at_ - key_at_));
      value_next_ = true;
    }
    const bool in_value = key_.has_value() || !open_.empty();
    if (in_value && (c == '[' || c == '{')) open_ += c;
    if (in_value && (c == ']' || c == '}') && !open_.empty()) open_.pop_back();
    if (!in_value || (c != '[' && c != '{' && c != ',')) return;
    value_next_ = open_.ends_with('[');
    if (!open_.ends_with('{')) return;
    key_.reset();
    key_at_ = at_ + 1;
  }

  /// False: it does not end on this line.
  bool skip_text(char quote) {
    begin_ = at_++;
    while (at_ < line_.size() && line_[at_] != quote)
      at_ += quote == '"' && line_[at_] == '\\' ? 2 : 1;
    return at_++ < line_.size();
  }

  std::string open_text(char quote) const {
    return "the text that begins with " + shown(without_blanks(line_.substr(begin_))) +
           " has no closing " + quote;
  }

  std::string bare_text(std::string_view word) const {
    if (word == "True" || word == "False") return "true and false are written in small letters";
    const std::string quoted = "\"" + shown(word) + "\"";
    if (!key_ || open_.ends_with('[')) return "a text stands in quotes, as in " + quoted;
    return "a text stands in quotes, as in " + shown(*key_) + " = " + quoted;
  }

  std::string_view line_;
  size_t at_ = 0, key_at_ = 0, begin_ = 0;
  std::optional<std::string_view> key_;
  std::string open_;
  bool value_next_ = false;
};

}  // namespace

std::string syntax_hint(std::string_view text, unsigned line) {
  return line == 0 ? "" : LineReader(line_of(text, line)).hint();
}

}  // namespace understudy
