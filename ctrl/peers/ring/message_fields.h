// The members of a JSON object of the out-of-band messages, each with its type and bounds.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collective_model/nccl/operation.h"
#include "dataplane/base/address.h"

namespace understudy {

/// Typed access to an object's members; remembers the first thing that was wrong.
class MessageFields {
 public:
  MessageFields(const nlohmann::json& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  const std::string& error() const { return error_; }
  void complain(const std::string& key, const std::string& what) {
    if (error_.empty()) error_ = where_ + ": field \"" + key + "\" " + what;
  }

  template <typename T>
  T number(const char* key, uint64_t low, uint64_t high) {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return T{};
    if (!value->is_number_unsigned() || value->get<uint64_t>() < low ||
        value->get<uint64_t>() > high) {
      complain(key, "must be an integer in " + std::to_string(low) + ".." + std::to_string(high));
      return T{};
    }
    return static_cast<T>(value->get<uint64_t>());
  }

  std::string text(const char* key) {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return {};
    if (!value->is_string()) complain(key, "must be a string");
    return value->is_string() ? value->get<std::string>() : std::string();
  }

  std::vector<IpAddress> addresses(const char* key) {
    std::vector<IpAddress> out;
    const nlohmann::json* list = array(key);
    if (list == nullptr) return out;
    for (const nlohmann::json& value : *list) {
      const auto address =
          value.is_string() ? IpAddress::parse(value.get<std::string>()) : std::nullopt;
      if (!address) {
        complain(key, "must hold IP addresses");
        break;
      }
      out.push_back(*address);
    }
    return out;
  }

  IpAddress address(const char* key) {
    const auto parsed = IpAddress::parse(text(key));
    if (!parsed) complain(key, "must be an IP address");
    return parsed.value_or(IpAddress());
  }

  /// One of the words that `names` has.
  template <typename T, size_t N>
  T word(const char* key, const Named<T> (&names)[N]) {
    const std::string word = text(key);
    for (const auto& [name, value] : names) {
      if (name == word) return value;
    }
    complain(key, "holds an unknown word, \"" + word + "\"");
    return names[0].second;
  }

  bool yes_or_no(const char* key) {
    const nlohmann::json* value = find(key);
    if (value != nullptr && !value->is_boolean()) complain(key, "must be true or false");
    return value != nullptr && value->is_boolean() && value->get<bool>();
  }

  /// One of two words; true for the first.
  bool either(const char* key, std::string_view first, std::string_view second) {
    const std::string word = text(key);
    if (word != first && word != second) {
      complain(key, "must be \"" + std::string(first) + "\" or \"" + std::string(second) + "\"");
    }
    return word == first;
  }

  const nlohmann::json* array(const char* key) {
    const nlohmann::json* value = find(key);
    if (value != nullptr && !value->is_array()) complain(key, "must be an array");
    return value != nullptr && value->is_array() ? value : nullptr;
  }

  /// An array of integers from 0 to `high`.
  template <typename T>
  std::vector<T> numbers(const char* key, uint64_t high) {
    std::vector<T> out;
    const nlohmann::json* list = array(key);
    if (list == nullptr) return out;
    for (const nlohmann::json& value : *list) {
      if (!value.is_number_unsigned() || value.get<uint64_t>() > high) {
        complain(key, "must hold integers in 0.." + std::to_string(high));
        break;
      }
      out.push_back(static_cast<T>(value.get<uint64_t>()));
    }
    return out;
  }

  /// Calls read(fields of an object) for each object of an array, which are called `what`.
  template <typename Read>
  void objects(const char* key, const std::string& what, Read read) {
    const nlohmann::json* list = array(key);
    if (list == nullptr) return;
    for (const nlohmann::json& value : *list) {
      if (!value.is_object()) return complain(key, "must hold objects");
      MessageFields inner(value, what);
      read(inner);
      if (!inner.error().empty()) return complain(key, "is wrong: " + inner.error());
    }
  }

  /// Calls read(fields of the object).
  template <typename Read>
  void object(const char* key, Read read) {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_object()) return complain(key, "must be an object");
    MessageFields inner(*value, key);
    read(inner);
    if (!inner.error().empty()) complain(key, "is wrong: " + inner.error());
  }

  /// An array of arrays of integers from 0 to `high`.
  template <typename T>
  std::vector<std::vector<T>> lists(const char* key, uint64_t high) {
    std::vector<std::vector<T>> out;
    const nlohmann::json* list = array(key);
    if (list == nullptr) return out;
    for (const nlohmann::json& value : *list) {
      const nlohmann::json wrapped = {{key, value}};
      MessageFields inner(wrapped, where_);
      out.push_back(inner.numbers<T>(key, high));
      if (!inner.error().empty()) {
        if (error_.empty()) error_ = inner.error();
        break;
      }
    }
    return out;
  }

  bool has(const char* key) const { return object_.contains(key); }
  const nlohmann::json* find(const char* key) {
    const auto it = object_.find(key);
    if (it == object_.end()) {
      complain(key, "is missing");
      return nullptr;
    }
    return &*it;
  }

 private:
  const nlohmann::json& object_;
  std::string where_;
  std::string error_;
};

}  // namespace understudy
