#include "ctrl/report/nccl_columns.h"

#include "dataplane/base/assert.h"
#include "dataplane/base/text_format.h"

namespace understudy {

std::string NcclColumns::row(const std::vector<std::string>& cells) const {
  ASSERT_INVARIANT(cells.size() == columns_.size());
  std::string text;
  for (size_t i = 0; i < cells.size(); ++i) {
    text += format_text("%*s%*s", columns_[i].gap, "", columns_[i].width, cells[i].c_str());
  }
  return text + "\n";
}

std::string NcclColumns::marked(std::string_view TableColumn::*text) const {
  std::vector<std::string> cells;
  for (const TableColumn& column : columns_) cells.emplace_back(column.*text);
  std::string line = row(cells);
  line[0] = '#';
  return line;
}

std::string NcclColumns::names() const { return marked(&TableColumn::name); }

std::string NcclColumns::heading() const { return names() + marked(&TableColumn::unit); }

std::string bandwidth_text(double gigabytes) {
  return format_text(gigabytes < 1 ? "%.5f" : "%.2f", gigabytes);
}

std::string type_word(std::string_view type) {
  if (type == "float16") return "half";
  if (type == "float32") return "float";
  if (type == "float64") return "double";
  return std::string(type);
}

std::string root_text(bool has_root, uint32_t root) {
  return has_root ? std::to_string(root) : "-1";
}

}  // namespace understudy
