#include "ctrl/simai/text_lines.h"

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>

namespace understudy {
namespace {

constexpr size_t kLongest = 64U << 20;

}  // namespace

tl::expected<std::string, ConfigError> read_whole(const std::string& path) {
  const auto failed = [&](const char* what) {
    return tl::unexpected(
        ConfigError{path, 0, "", "", std::string(what) + ": " + std::strerror(errno)});
  };
  const auto close = [](std::FILE* f) { std::fclose(f); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "rb"), close);
  if (!file) return failed("cannot open");
  std::string text(kLongest + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) return failed("cannot read");
  if (text.size() > kLongest) {
    return tl::unexpected(
        ConfigError{path, 0, "", "more than 64 MiB", "no such file is that long"});
  }
  return text;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

std::vector<std::string_view> words_of(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\v\f\r";
  std::vector<std::string_view> words;
  for (size_t at = line.find_first_not_of(kBlanks); at != std::string_view::npos;
       at = line.find_first_not_of(kBlanks, at)) {
    const size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

std::optional<double> number_of(std::string_view word, double most) {
  double value = 0;
  const char* end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, value);
  if (word.empty() || error != std::errc() || rest != end || !(value >= 0 && value <= most)) {
    return std::nullopt;
  }
  return value;
}

}  // namespace understudy
