#include "ctrl/config/read/csv_file.h"

namespace understudy {
namespace {

constexpr size_t kLongest = 64u << 20;

}  // namespace

std::optional<CsvFile> read_csv_file(TableReader& table, ReadContext& context,
                                     const Located<std::string>& name, std::string_view key) {
  const auto wrong = [&](const std::string& why) {
    table.error(name.line, key, quoted(name.value), why);
    return std::nullopt;
  };
  CsvFile file;
  file.path = beside(context.errors.file(), name.value);
  if (!context.read_file) return wrong("files are not read here");
  auto text = context.read_file(file.path, kLongest);
  if (!text) return wrong(text.error().text());
  if (text->size() > kLongest) return wrong("larger than 64 MiB");
  file.text = std::move(*text);
  return file;
}

std::string beside(const std::string& file, const std::string& name) {
  const size_t slash = file.rfind('/');
  if (name.starts_with('/') || slash == std::string::npos) return name;
  return file.substr(0, slash + 1) + name;
}

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string quoted(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 2);
  out += '"';
  out += text;
  out += '"';
  return out;
}

}  // namespace understudy
