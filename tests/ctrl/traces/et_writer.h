// Execution traces as bytes, for tests: protobuf's encoding by hand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace understudy {

inline std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(0x80 | (value & 0x7f));
  return bytes + static_cast<char>(value);
}
inline std::string number_field(uint32_t field, uint64_t value) {
  return varint(field << 3) + varint(value);
}
inline std::string bytes_field(uint32_t field, const std::string& bytes) {
  return varint(field << 3 | 2) + varint(bytes.size()) + bytes;
}
inline std::string fixed_field(uint32_t field, uint64_t value, size_t bytes) {
  std::string text = varint(field << 3 | (bytes == 8 ? 1 : 5));
  for (size_t i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

/// A message of a file, with its length.
inline std::string et_message(const std::string& bytes) { return varint(bytes.size()) + bytes; }
inline std::string et_metadata(const std::string& version = "0.0.4") {
  return et_message(version.empty() ? "" : bytes_field(1, version));
}
/// `value` is one of the fields above.
inline std::string attribute(const std::string& name, const std::string& value) {
  return bytes_field(10, bytes_field(1, name) + value);
}
/// `more` are further fields of the node.
inline std::string et_node(uint64_t id, uint64_t type, const std::string& more = "") {
  return et_message(number_field(1, id) + bytes_field(2, "n" + std::to_string(id)) +
                    number_field(3, type) + more);
}
inline std::string packed(uint32_t field, const std::vector<uint64_t>& values) {
  std::string all;
  for (const uint64_t value : values) all += varint(value);
  return bytes_field(field, all);
}

}  // namespace understudy
