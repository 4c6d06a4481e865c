#include "ctrl/traces/astra_network.h"

#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

constexpr std::array<const char*, 4> kKeys = {"topology", "npus_count", "bandwidth", "latency"};

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

struct Item {
  std::string text;
  uint64_t line = 0;
};

class NetworkFile {
 public:
  NetworkFile(const std::string& text, const std::string& name) : stream_(text), name_(name) {}

  Result<std::vector<TraceDimension>> read() {
    TRY(read_lists());
    for (const char* key : kKeys) {
      if (!lists_.contains(key)) return fail(name_ + ": " + key + " is missing");
    }
    const std::vector<Item>& topology = lists_["topology"];
    if (topology.empty()) return fail(name_ + ": topology has no values");
    for (const auto& [key, list] : lists_) {
      if (list.size() == topology.size()) continue;
      return fail(name_ + ": " + key + " has " + std::to_string(list.size()) +
                  " values, topology " + std::to_string(topology.size()));
    }
    std::vector<TraceDimension> dimensions;
    for (size_t d = 0; d < topology.size(); ++d) {
      TraceDimension dimension;
      dimension.kind = TRY(kind(topology[d]));
      dimension.ranks = TRY(number<uint32_t>(lists_["npus_count"][d], "npus_count"));
      dimension.bandwidth = TRY(number<double>(lists_["bandwidth"][d], "bandwidth"));
      dimension.latency = TRY(number<double>(lists_["latency"][d], "latency"));
      dimensions.push_back(dimension);
    }
    return dimensions;
  }

 private:
  tl::unexpected<Error> wrong(uint64_t line, const std::string& what) const {
    return fail(name_ + ":" + std::to_string(line) + ": " + what);
  }

  Result<void> read_lists() {
    std::string* open = nullptr;  // key of a list whose values follow with a dash
    std::string key;
    for (std::string line; std::getline(stream_, line);) {
      ++line_;
      const size_t comment = line.find('#');
      if (comment != std::string::npos) line.resize(comment);
      const std::string text = trimmed(line);
      if (text.empty() || text == "---") continue;
      if (text.front() == '-') {
        if (open == nullptr) return wrong(line_, "a value of no list");
        TRY(add(*open, text.substr(1)));
        continue;
      }
      const size_t colon = text.find(':');
      if (colon == std::string::npos) return wrong(line_, "there is no ':' after a key");
      key = trimmed(text.substr(0, colon));
      bool known = false;
      for (const char* one : kKeys) known |= key == one;
      if (!known) return wrong(line_, "the key '" + key + "' is not known");
      if (!lists_.emplace(key, std::vector<Item>()).second) {
        return wrong(line_, "the key '" + key + "' occurs twice");
      }
      const std::string value = trimmed(text.substr(colon + 1));
      open = value.empty() ? &key : nullptr;
      if (!value.empty()) TRY(add_list(key, value));
    }
    return {};
  }

  Result<void> add_list(const std::string& key, const std::string& text) {
    if (text.front() != '[' || text.back() != ']') {
      return wrong(line_, "the value of " + key + " is not a list [ ... ] on one line");
    }
    std::istringstream values(text.substr(1, text.size() - 2));
    for (std::string value; std::getline(values, value, ',');) TRY(add(key, value));
    return {};
  }

  Result<void> add(const std::string& key, const std::string& text) {
    std::string value = trimmed(text);
    if (value.size() > 1 && (value.front() == '"' || value.front() == '\'') &&
        value.back() == value.front()) {
      value = value.substr(1, value.size() - 2);
    }
    if (value.empty()) return wrong(line_, key + " has an empty value");
    lists_[key].push_back({value, line_});
    return {};
  }

  Result<TraceDimension::Kind> kind(const Item& item) const {
    if (item.text == "Ring") return TraceDimension::Kind::kRing;
    if (item.text == "FullyConnected") return TraceDimension::Kind::kFullyConnected;
    if (item.text == "Switch") return TraceDimension::Kind::kSwitch;
    return wrong(item.line, "the topology '" + item.text + "' is not known");
  }

  template <typename T>
  Result<T> number(const Item& item, const char* key) const {
    T value{};
    const char* end = item.text.data() + item.text.size();
    const auto [at, error] = std::from_chars(item.text.data(), end, value);
    if (error != std::errc() || at != end) {
      return wrong(item.line, std::string(key) + " has '" + item.text + "', which is no number");
    }
    return value;
  }

  std::istringstream stream_;
  const std::string& name_;
  uint64_t line_ = 0;
  std::map<std::string, std::vector<Item>> lists_;
};

}  // namespace

Result<std::vector<TraceDimension>> read_astra_network(const std::string& text,
                                                       const std::string& name) {
  return NetworkFile(text, name).read();
}

}  // namespace understudy
