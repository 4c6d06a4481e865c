#include "tools/soft_nic/settings.h"

#include <net/if.h>

#include <charconv>
#include <string_view>

namespace understudy::soft_nic {

namespace {

constexpr uint32_t kMostWindow = 4096;
constexpr size_t kLongestName = 63;  // IBV_SYSFS_NAME_MAX with its end

Result<void> read_device(std::string_view text, Settings& out) {
  constexpr std::string_view kKind = "af_packet:";
  if (text.starts_with(kKind)) text.remove_prefix(kKind.size());
  if (text.empty() || text.size() >= IFNAMSIZ || text.find_first_of(":/ ") != text.npos) {
    return fail(std::string(kDeviceVariable) + "=" + std::string(text) +
                ": the name of a network interface is expected");
  }
  out.interface = text;
  return {};
}

}  // namespace

Result<Settings> read_settings(const std::function<const char*(const char*)>& lookup) {
  Settings out;
  if (const char* text = lookup(kDeviceVariable)) {
    if (auto read = read_device(text, out); !read) return fail(read.error().text);
  }
  if (const char* text = lookup(kAddressVariable)) {
    const auto address = IpAddress::parse(text);
    if (!address || !address->is_v4()) {
      return fail(std::string(kAddressVariable) + "=" + text + ": an IPv4 address is expected");
    }
    out.address = *address;
  }
  if (const char* text = lookup(kNameVariable)) {
    const std::string_view name = text;
    if (name.empty() || name.size() > kLongestName || name.find_first_of("/ :") != name.npos) {
      return fail(std::string(kNameVariable) + "=" + text +
                  ": a name of 1 to 63 characters is expected");
    }
    out.name = name;
  }
  if (const char* text = lookup(kWindowVariable)) {
    const std::string_view number = text;
    const auto end = number.data() + number.size();
    const auto [at, error] = std::from_chars(number.data(), end, out.window);
    if (error != std::errc() || at != end || out.window == 0 || out.window > kMostWindow) {
      return fail(std::string(kWindowVariable) + "=" + text + ": 1 to 4096 packets are expected");
    }
  }
  return out;
}

}  // namespace understudy::soft_nic
