#include "ctrl/traces/et_file.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "ctrl/traces/et_attributes.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

constexpr char kNeeded[] = "; schema 0.0.4 (2023-10) or later is needed";

class EtFile {
 public:
  EtFile(std::span<const uint8_t> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  Result<TraceGraph> read() {
    if (bytes_.empty()) return fail(name_ + ": the file is empty");
    TRY(read_metadata());
    std::vector<TraceNodeParents> nodes;
    while (at_ < bytes_.size()) nodes.push_back(TRY(read_node()));
    auto graph = TraceGraph::make(std::move(nodes));
    if (!graph) return fail(name_ + ": " + graph.error().text);
    return graph;
  }

 private:
  tl::unexpected<Error> wrong(size_t at, const std::string& what) const {
    return fail(name_ + ": at byte " + std::to_string(at) + ": " + what);
  }

  /// The next message's bytes.
  Result<std::span<const uint8_t>> message() {
    begin_ = at_;
    uint64_t length = 0;
    constexpr int kMostBytes = 5;  // of 32 bits
    for (int i = 0;; ++i) {
      if (at_ == bytes_.size())
        return wrong(begin_, "the file ends within the length of a message");
      if (i == kMostBytes) return wrong(begin_, "the length of a message is no number of 32 bits");
      const uint8_t byte = bytes_[at_++];
      length |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
      if ((byte & 0x80) == 0) break;
    }
    const size_t left = bytes_.size() - at_;
    if (length > static_cast<uint64_t>(std::numeric_limits<int32_t>::max())) {
      return wrong(begin_, "the length of a message is no number of 32 bits");
    }
    if (length > left) {
      return wrong(begin_, "the file ends within a message of " + std::to_string(length) +
                               " bytes, of which " + std::to_string(left) + " are there");
    }
    const auto taken = bytes_.subspan(at_, static_cast<size_t>(length));
    at_ += taken.size();
    return taken;
  }

  Result<void> read_metadata() {
    const auto bytes = TRY(message());
    et::Metadata metadata;
    // Files of schemas without metadata begin with a node, whose id is a number in the first field.
    constexpr uint8_t kNumberInFirstField = 0x08;
    const bool is_node = !bytes.empty() && bytes[0] == kNumberInFirstField;
    if (is_node || !metadata.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      return wrong(begin_,
                   "the first message is no metadata: this is no execution trace of Chakra, "
                   "or one of a schema before 2023-08" +
                       std::string(kNeeded));
    }
    const std::string& version = metadata.version();
    // Where the first field holds an attribute, as in 2023-08, its bytes are no version.
    if (!std::all_of(version.begin(), version.end(), [](char c) { return c >= ' ' && c <= '~'; })) {
      return wrong(begin_, "the metadata are those of a schema of 2023-08" + std::string(kNeeded));
    }
    TRY(check_version("version", version));
    for (const et::Attribute& attribute : metadata.attributes()) {
      if (attribute.name() == "schema") TRY(check_version("schema", attribute.string_value()));
    }
    return {};
  }

  /// "0.0.4", "1.0.0", "1.0.2-chakra.0.0.4"; some generators put a name of their own there.
  Result<void> check_version(const char* key, const std::string& version) const {
    const size_t dash = version.find("-chakra.");
    const std::string own = dash == std::string::npos ? version : version.substr(dash + 8);
    for (const char* old : {"0.0.1", "0.0.2", "0.0.3"}) {
      if (own != old) continue;
      return wrong(begin_, std::string("the ") + key + " is '" + version + "'" + kNeeded);
    }
    return {};
  }

  Result<TraceNodeParents> read_node() {
    const auto bytes = TRY(message());
    et::Node read;
    if (!read.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      return wrong(begin_, "this is no node, or one of an older schema" + std::string(kNeeded));
    }
    TraceNodeParents node;
    node.node.id = read.id();
    node.node.name = read.name();
    const auto wrong_node = [&](const std::string& what) {
      return wrong(begin_, title_of(node.node) + ": " + what);
    };
    if (!read.old_attributes().empty() || read.has_old_operations() || read.has_old_collective() ||
        read.has_old_bytes()) {
      return wrong_node("it has fields of an older schema (0.0.1 to 0.0.3)" + std::string(kNeeded));
    }
    if (read.type() == 0) {
      return wrong_node("it has no type: it is invalid, or of an older schema" +
                        std::string(kNeeded));
    }
    if (read.type() < 0 || read.type() >= kTraceNodeKinds) {
      return wrong_node("its type " + std::to_string(read.type()) + " is not known");
    }
    node.node.kind = static_cast<TraceNodeKind>(read.type());
    node.node.duration_us = read.duration_us();
    const auto taken = take_attributes(read, node.node);
    if (!taken) return wrong_node(taken.error().text);
    node.data.assign(read.data_parents().begin(), read.data_parents().end());
    node.control.assign(read.control_parents().begin(), read.control_parents().end());
    return node;
  }

  std::span<const uint8_t> bytes_;
  const std::string& name_;
  size_t at_ = 0;
  size_t begin_ = 0;  ///< of the message that was read last
};

}  // namespace

bool reads_et() { return true; }

Result<TraceGraph> read_et(std::span<const uint8_t> bytes, const std::string& name) {
  return EtFile(bytes, name).read();
}

}  // namespace understudy
