#include "ctrl/peers/torch_store/base64.h"

#include <string_view>

namespace understudy {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string base64_text(std::span<const uint8_t> bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t n = 0; n < 3; ++n) group = group << 8 | (n < count ? bytes[i + n] : 0u);
    for (size_t n = 0; n < 4; ++n) {
      text.push_back(n <= count ? kDigits[group >> (18 - 6 * n) & 0x3f] : '=');
    }
  }
  return text;
}

std::optional<std::vector<uint8_t>> base64_bytes(std::span<const uint8_t> text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::vector<uint8_t> bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    const bool last = i + 4 == text.size();
    const size_t digits = !last || text[i + 3] != '=' ? 4 : text[i + 2] != '=' ? 3 : 2;
    uint32_t group = 0;
    for (size_t n = 0; n < 4; ++n) {
      const size_t digit = n < digits ? kDigits.find(static_cast<char>(text[i + n])) : 0;
      if (digit == std::string_view::npos) return std::nullopt;
      group = group << 6 | static_cast<uint32_t>(digit);
    }
    for (size_t n = 0; n + 1 < digits; ++n) {
      bytes.push_back(static_cast<uint8_t>(group >> (16 - 8 * n)));
    }
  }
  return bytes;
}

}  // namespace understudy
