#include "tools/soft_nic/base/settings.h"

#include <net/if.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "dataplane/base/try.h"

namespace understudy::soft_nic {

namespace {

constexpr uint32_t kMostWindow = 4096, kMostVlan = 4094;
constexpr size_t kLongestName = 63;  // IBV_SYSFS_NAME_MAX with its end

bool is_interface(std::string_view name) {
  return !name.empty() && name.size() < IFNAMSIZ && name.find_first_of(":/ ,") == name.npos;
}

/// "IF", "af_packet:IF", or "vhost:PATH" with ",tap=IF" behind it or not.
Result<void> read_device(std::string_view text, Settings& out) {
  constexpr std::string_view kPackets = "af_packet:", kVhost = "vhost:", kTap = kTapOption;
  const auto refuse = [&](const char* expected) {
    return fail(std::string(kDeviceVariable) + "=" + std::string(text) + ": " + expected +
                " is expected");
  };
  std::string_view name = text;
  if (name.starts_with(kVhost)) {
    name.remove_prefix(kVhost.size());
    const size_t comma = std::min(name.find(','), name.size());
    out.socket = name.substr(0, comma);
    name.remove_prefix(comma);
    const bool tap = name.starts_with(kTap) && is_interface(name.substr(kTap.size()));
    if (out.socket.empty() || (!name.empty() && !tap)) return refuse("vhost:SOCKET[,tap=NAME]");
    if (tap) out.interface = name.substr(kTap.size());
    return {};
  }
  if (name.starts_with(kPackets)) name.remove_prefix(kPackets.size());
  if (!is_interface(name)) return refuse("the name of a network interface");
  out.interface = name;
  return {};
}

/// 1 to `most`; nothing for other texts.
std::optional<uint32_t> read_number(std::string_view text, uint32_t most) {
  uint32_t number = 0;
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && at == text.data() + text.size();
  return whole && number > 0 && number <= most ? std::optional(number) : std::nullopt;
}

/// One address, or several with commas between them.
Result<void> read_addresses(std::string_view text, std::vector<IpAddress>& out) {
  for (std::string_view rest = text;;) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const auto address = IpAddress::parse(rest.substr(0, comma));
    const bool known = address && std::ranges::find(out, *address) != out.end();
    if (!address || known || address->is_unset()) {
      return fail(std::string(kAddressVariable) + "=" + std::string(text) +
                  ": an IPv4 or IPv6 address is expected, or several with commas between them");
    }
    out.push_back(*address);
    if (comma == rest.size()) return {};
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace

Result<Settings> read_settings(const std::function<const char*(const char*)>& lookup) {
  Settings out;
  if (const char* text = lookup(kDeviceVariable)) {
    TRY(read_device(text, out));
  }
  if (const char* text = lookup(kAddressVariable)) {
    TRY(read_addresses(text, out.addresses));
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
    const auto number = read_number(text, kMostWindow);
    if (!number) {
      return fail(std::string(kWindowVariable) + "=" + text + ": 1 to 4096 packets are expected");
    }
    out.window = *number;
  }
  if (const char* text = lookup(kVlanVariable)) {
    const auto number = read_number(text, kMostVlan);
    if (!number) {
      return fail(std::string(kVlanVariable) + "=" + text + ": a VLAN of 1 to 4094 is expected");
    }
    out.vlan = static_cast<uint16_t>(*number);
  }
  if (!out.socket.empty() && out.interface.empty() && out.addresses.empty()) {
    return fail(std::string(kAddressVariable) + ": an address is expected beside " +
                kDeviceVariable + "=vhost:" + out.socket);
  }
  return out;
}

}  // namespace understudy::soft_nic
