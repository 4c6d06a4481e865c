#include "ctrl/config/read/nodes/topo_elements.h"

#include <expat.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace understudy {
namespace {

constexpr size_t kMostElements = 16'384;
constexpr size_t kDeepestElement = 64;
constexpr size_t kLongestTopo = 4u << 20;

/// Which element may stand in which.
constexpr std::array kPlaces =
    std::to_array<std::pair<std::string_view, std::string_view>>({{"", "system"},
                                                                  {"system", "cpu"},
                                                                  {"cpu", "pci"},
                                                                  {"cpu", "nic"},
                                                                  {"pci", "pci"},
                                                                  {"pci", "gpu"},
                                                                  {"pci", "nic"},
                                                                  {"pci", "pcilink"},
                                                                  {"gpu", "nvlink"},
                                                                  {"gpu", "c2c"},
                                                                  {"nic", "net"},
                                                                  {"nic", "coll"},
                                                                  {"nic", "gin"},
                                                                  {"nic", "rma"}});

class Document {
 public:
  explicit Document(std::string file) : file_(std::move(file)) {}

  tl::expected<std::vector<TopoElement>, ConfigError> parse(const std::string& text) {
    const std::unique_ptr<XML_ParserStruct, decltype(&XML_ParserFree)> parser(
        XML_ParserCreate(nullptr), &XML_ParserFree);
    parser_ = parser.get();
    if (parser_ == nullptr || text.size() > kLongestTopo) {
      return tl::unexpected(ConfigError{file_, 0, "", "", "larger than 4 MiB"});
    }
    XML_SetUserData(parser_, this);
    XML_SetElementHandler(parser_, &Document::opened, &Document::closed);
    XML_SetStartDoctypeDeclHandler(parser_, &Document::declared);
    const auto status = XML_Parse(parser_, text.data(), static_cast<int>(text.size()), XML_TRUE);
    if (error_) return tl::unexpected(*error_);
    if (status != XML_STATUS_OK) {
      return tl::unexpected(
          ConfigError{file_, line(), "", "",
                      std::string("not XML: ") + XML_ErrorString(XML_GetErrorCode(parser_))});
    }
    return std::move(elements_);
  }

 private:
  unsigned line() const { return static_cast<unsigned>(XML_GetCurrentLineNumber(parser_)); }

  void stop(std::string key, std::string found, std::string allowed) {
    if (error_) return;
    error_ = ConfigError{file_, line(), std::move(key), std::move(found), std::move(allowed)};
    XML_StopParser(parser_, XML_FALSE);
  }

  // No allocation failure is handled: the limits keep all of this small.
  static void XMLCALL opened(void* self, const char* name, const char** attributes) {
    static_cast<Document*>(self)->open(name, attributes);
  }
  static void XMLCALL closed(void* self, const char*) {
    auto& open = static_cast<Document*>(self)->open_;
    if (!open.empty()) open.pop_back();
  }
  static void XMLCALL declared(void* self, const char*, const char*, const char*, int) {
    static_cast<Document*>(self)->stop("", "a DOCTYPE", "NCCL's files have none");
  }

  void open(std::string_view name, const char** attributes) {
    if (error_) return;
    const size_t parent = open_.empty() ? 0 : open_.back();
    const std::string inside = open_.empty() ? "" : elements_[parent].name;
    if (std::ranges::find(kPlaces, std::pair(std::string_view(inside), name)) == kPlaces.end()) {
      return stop(std::string(name), "it in " + (inside.empty() ? "the file" : inside),
                  inside.empty() ? "NCCL's files are one system"
                                 : "NCCL's files have no such element there");
    }
    if (elements_.size() == kMostElements) {
      return stop(std::string(name), "more than 16384 elements", "no machine has as many");
    }
    if (open_.size() == kDeepestElement) {
      return stop(std::string(name), "64 elements around it", "no machine has as many");
    }
    TopoElement element{std::string(name), line(), parent, {}};
    for (; *attributes != nullptr; attributes += 2) {
      element.attributes.emplace(attributes[0], attributes[1]);
    }
    open_.push_back(elements_.size());
    elements_.push_back(std::move(element));
  }

  std::string file_;
  XML_Parser parser_ = nullptr;
  std::vector<TopoElement> elements_;
  std::vector<size_t> open_;
  std::optional<ConfigError> error_;
};

}  // namespace

tl::expected<std::vector<TopoElement>, ConfigError> parse_topo_elements(const std::string& text,
                                                                        const std::string& file) {
  return Document(file).parse(text);
}

}  // namespace understudy
