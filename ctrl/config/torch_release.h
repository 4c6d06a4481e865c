// Generations of the protocol of PyTorch's TCPStore, by PyTorch's releases (docs/nccl 6.1).
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace understudy {

enum class StoreGeneration : uint8_t {
  kPlain,      ///< torch up to 2.0: requests and nothing else
  kPrefixed,   ///< torch 2.1: a magic number before each request
  kValidated,  ///< torch 2.2 and later: VALIDATE with the magic number, once
};

/// "1.13.1" -> kPlain, "2.4" -> kValidated; nothing if it is not of that form.
inline std::optional<StoreGeneration> store_generation_of_release(std::string_view torch) {
  unsigned major = 0, minor = 0;
  const char* end = torch.data() + torch.size();
  const auto [dot, error] = std::from_chars(torch.data(), end, major);
  if (error != std::errc() || dot == end || *dot != '.') return std::nullopt;
  const auto [rest, second_error] = std::from_chars(dot + 1, end, minor);
  if (second_error != std::errc()) return std::nullopt;
  if (rest != end && *rest != '.' && *rest != '+') return std::nullopt;
  if (major < 2 || (major == 2 && minor == 0)) return StoreGeneration::kPlain;
  if (major == 2 && minor == 1) return StoreGeneration::kPrefixed;
  return StoreGeneration::kValidated;
}

/// For the user.
constexpr std::string_view store_generation_name(StoreGeneration generation) {
  switch (generation) {
    case StoreGeneration::kPlain:
      return "torch 2.0 or earlier";
    case StoreGeneration::kPrefixed:
      return "torch 2.1";
    case StoreGeneration::kValidated:
      return "torch 2.2 or later";
  }
  return "";
}

}  // namespace understudy
