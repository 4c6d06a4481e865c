// The distribution of flow sizes that a [[traffic]] table names.
#include "ctrl/config/read/csv_file.h"
#include "ctrl/config/read/sections.h"

namespace understudy {
namespace {

/// Names of distributions have neither.
bool is_file(const std::string& text) { return text.find_first_of("./") != std::string::npos; }

void read_sizes_file(TableReader& table, ReadContext& context, const Located<std::string>& name,
                     SizeDistribution& sizes) {
  const auto file = read_csv_file(table, context, name, "sizes");
  if (!file) return;
  auto points = parse_sizes(file->text);
  if (points) {
    sizes = {name.value, std::move(*points)};
    return;
  }
  SizesError& error = points.error();
  context.errors.add(
      {file->path, error.line, "", std::move(error.found), std::move(error.allowed)});
}

}  // namespace

void read_sizes(TableReader& table, ReadContext& context, SizeDistribution& sizes) {
  if (!table.require("sizes", "a distribution of flow sizes, as \"web-search\", or a file")) return;
  const auto name = table.text("sizes");
  if (!name) return;
  if (is_file(name->value)) return read_sizes_file(table, context, *name, sizes);
  std::vector<std::string_view> names;
  for (const KnownSizes& known : known_sizes()) {
    if (known.name == name->value) {
      sizes = {name->value, {known.points.begin(), known.points.end()}};
      return;
    }
    names.push_back(known.name);
  }
  names.emplace_back("a file, as in \"./sizes.csv\"");
  table.unknown_word(*name, "sizes", names);
}

}  // namespace understudy
