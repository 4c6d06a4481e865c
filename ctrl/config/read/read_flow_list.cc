// The flow file of a [[traffic]] table: CSV, a header, then one flow a line.
#include <algorithm>
#include <array>
#include <charconv>

#include "ctrl/config/read/csv_file.h"
#include "ctrl/config/read/sections.h"
#include "ctrl/config/suggest.h"
#include "ctrl/config/units_text.h"

namespace understudy {
namespace {

enum Column : size_t { kId, kFrom, kTo, kBytes, kStart, kAfter, kVia, kAckVia, kColumns };
constexpr std::array<std::string_view, kColumns> kColumnNames = {
    "id", "from", "to", "bytes", "start", "after", "via", "ack_via"};
constexpr std::string_view kHeader = "id,from,to,bytes,start,after,via,ack_via";

class FlowListReader {
 public:
  FlowListReader(const std::string& file, ReadContext& context) : file_(file), context_(context) {}

  std::vector<ListedFlow> run(std::string_view text) {
    bool header = false;
    for (const std::string_view raw : split(text, '\n')) {
      ++line_;
      if (raw.empty() || raw.front() == '#') continue;
      const std::vector<std::string_view> cells = split(raw, ',');
      if (!header) {
        if (!read_header(cells)) return {};
        header = true;
      } else {
        read_flow(cells);
      }
    }
    line_ = 0;
    if (flows_.empty() && complete_) error("", "no flow", "expected one flow a line");
    if (complete_) resolve_after();
    if (complete_) refuse_cycles();
    return std::move(flows_);
  }

 private:
  void error(std::string_view column, std::string found, std::string allowed) {
    context_.errors.add({file_, line_, std::string(column), std::move(found), std::move(allowed)});
    complete_ = false;
  }

  bool read_header(const std::vector<std::string_view>& cells) {
    columns_.fill(SIZE_MAX);
    for (size_t i = 0; i < cells.size(); ++i) {
      const auto known = std::find(kColumnNames.begin(), kColumnNames.end(), cells[i]);
      if (known == kColumnNames.end() ||
          columns_[static_cast<size_t>(known - kColumnNames.begin())] != SIZE_MAX) {
        error("", quoted(cells[i]), "expected a header of these columns: " + std::string(kHeader));
        return false;
      }
      columns_[static_cast<size_t>(known - kColumnNames.begin())] = i;
    }
    for (const Column needed : {kId, kFrom, kTo, kBytes}) {
      if (columns_[needed] != SIZE_MAX) continue;
      error(kColumnNames[needed], "nothing", "the header lacks this column");
      return false;
    }
    width_ = cells.size();
    return true;
  }

  std::string_view cell(const std::vector<std::string_view>& cells, Column column) const {
    return columns_[column] == SIZE_MAX ? std::string_view() : cells[columns_[column]];
  }

  void read_flow(const std::vector<std::string_view>& cells) {
    if (cells.size() != width_) {
      error("", std::to_string(cells.size()) + " cells",
            "the header has " + std::to_string(width_) + " columns");
      return;
    }
    ListedFlow flow;
    flow.line = line_;
    flow.id = cell(cells, kId);
    const auto number = static_cast<uint32_t>(flows_.size());
    if (flow.id.empty()) error("id", "nothing", "expected a name or number of the flow's own");
    if (const auto [other, fresh] = by_id_.emplace(flow.id, number); !fresh) {
      error("id", quoted(flow.id),
            "the flow in line " + std::to_string(flows_[other->second].line) + " has this id");
    }
    const bool from = read_end(cells, kFrom, flow.from, flow.from_nic);
    const bool to = read_end(cells, kTo, flow.to, flow.to_nic);
    if (from && to && flow.from == flow.to && flow.from_nic == flow.to_nic) {
      error("to", quoted(cell(cells, kTo)), "a flow goes to another NIC than it comes from");
    }
    if (const auto bytes = parse_bytes(cell(cells, kBytes)); !bytes) {
      error("bytes", quoted(cell(cells, kBytes)), bytes.error().text);
    } else if (*bytes == 0) {
      error("bytes", quoted(cell(cells, kBytes)), "a flow has at least one byte");
    } else {
      flow.bytes = *bytes;
    }
    if (const std::string_view start = cell(cells, kStart); !start.empty()) {
      const auto parsed = parse_duration(start);
      if (!parsed) error("start", quoted(start), parsed.error().text);
      if (parsed) flow.start = *parsed;
    }
    if (const std::string_view via = cell(cells, kVia); !via.empty()) {
      for (const std::string_view name : split(via, ';')) flow.via.emplace_back(name);
    }
    if (const std::string_view via = cell(cells, kAckVia); !via.empty()) {
      for (const std::string_view name : split(via, ';')) flow.ack_via.emplace_back(name);
    }
    after_.emplace_back(cell(cells, kAfter));
    flows_.push_back(std::move(flow));
  }

  /// "w3", or "w3:1" for its second NIC. False if there is none of this name.
  bool read_end(const std::vector<std::string_view>& cells, Column column, NodeId& node,
                unsigned& nic) {
    const std::string_view text = cell(cells, column);
    const auto wrong = [&](const std::string& hint, std::string allowed) {
      error(kColumnNames[column], quoted(text) + hint, std::move(allowed));
      return false;
    };
    const size_t colon = text.find(':');
    const std::string name(text.substr(0, colon));
    const auto found = context_.node_by_name.find(name);
    if (found == context_.node_by_name.end()) {
      if (!context_.nodes_complete) return false;
      std::vector<std::string_view> names;
      for (const NodeConfig& known : context_.config.nodes) names.push_back(known.name);
      return wrong(suggest(name, names), "there is no node of this name");
    }
    node = found->second;
    if (colon != std::string_view::npos) {
      const char* end = text.data() + text.size();
      const auto [rest, failed] = std::from_chars(text.data() + colon + 1, end, nic);
      if (failed != std::errc() || rest != end) {
        return wrong("", "expected the NIC's number behind the colon");
      }
    }
    const size_t nics = context_.config.nodes[node].nics.size();
    if (nic < nics) return true;
    return wrong("", "node " + name + " has " + std::to_string(nics) + " NIC(s)");
  }

  void resolve_after() {
    for (size_t i = 0; i < flows_.size(); ++i) {
      if (after_[i].empty()) continue;
      line_ = flows_[i].line;
      for (const std::string_view id : split(after_[i], ';')) {
        const auto found = by_id_.find(std::string(id));
        if (found == by_id_.end()) {
          error("after", quoted(id), "there is no flow of this id");
        } else {
          flows_[i].after.push_back(found->second);
        }
      }
    }
  }

  /// Flows are taken off in an order in which they can start; what is left waits for itself.
  void refuse_cycles() {
    std::vector<uint32_t> waits(flows_.size()), ready;
    std::vector<std::vector<uint32_t>> dependents(flows_.size());
    for (uint32_t i = 0; i < flows_.size(); ++i) {
      waits[i] = static_cast<uint32_t>(flows_[i].after.size());
      for (const uint32_t before : flows_[i].after) dependents[before].push_back(i);
      if (waits[i] == 0) ready.push_back(i);
    }
    for (size_t i = 0; i < ready.size(); ++i) {
      for (const uint32_t next : dependents[ready[i]]) {
        if (--waits[next] == 0) ready.push_back(next);
      }
    }
    if (ready.size() == flows_.size()) return;
    // Walking back among those that still wait comes to a cycle.
    std::vector<bool> seen(flows_.size());
    uint32_t at = 0;
    while (waits[at] == 0) ++at;
    while (!seen[at]) {
      seen[at] = true;
      for (const uint32_t before : flows_[at].after) {
        if (waits[before] == 0) continue;
        at = before;
        break;
      }
    }
    line_ = flows_[at].line;
    error("after", quoted(after_[at]),
          "flow " + flows_[at].id + " would start after itself: a cycle");
  }

  const std::string& file_;
  ReadContext& context_;
  unsigned line_ = 0;
  bool complete_ = true;
  std::array<size_t, kColumns> columns_{};
  size_t width_ = 0;
  std::vector<ListedFlow> flows_;
  std::vector<std::string> after_;  ///< as written, by flow
  std::unordered_map<std::string, uint32_t> by_id_;
};

}  // namespace

std::vector<ListedFlow> read_flow_list(const std::string& text, const std::string& file,
                                       ReadContext& context) {
  return FlowListReader(file, context).run(text);
}

}  // namespace understudy
