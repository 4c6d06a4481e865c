// Long lists in JSON, item by item: a trace of many megabytes is never in memory as a whole.
#pragma once

#include <cstdint>
#include <functional>
#include <istream>
#include <nlohmann/json.hpp>
#include <string>

#include "dataplane/base/result.h"

namespace understudy {

/// Who takes what is read. An error of theirs ends the reading; it is passed on with the file's name and
/// the byte before it.
struct JsonItemsSink {
  /// A key of the outermost object, before its value is read.
  std::function<Result<void>(const std::string& key)> key;
  /// Of the list, each with the byte at which it begins.
  std::function<Result<void>(nlohmann::json&& item, uint64_t byte)> item;
  /// Other keys of the outermost object.
  std::function<Result<void>(const std::string& key, nlohmann::json&& value)> other;
};

struct JsonItemsRead {
  bool has_list = false;
  bool bare_list = false;  ///< the list is the whole file
};

/// Reads {.., "KEY": [item, ..], ..}, or [item, ..]. Memory is that of the largest item. `name` is that
/// of the file, for errors, which name the byte: of what is not JSON, of a file that ends early, of
/// values in more than 64 others.
Result<JsonItemsRead> read_json_items(std::istream& file, const std::string& name,
                                      const std::string& key, const JsonItemsSink& sink);

}  // namespace understudy
