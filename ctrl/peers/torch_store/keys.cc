#include "ctrl/peers/torch_store/keys.h"

#include <algorithm>

namespace understudy {
namespace {

constexpr std::string_view kGroups = "default_pg/";
constexpr std::string_view kBarrier = "store_based_barrier_key:";
constexpr std::string_view kLastWorker = ":last_worker";
constexpr size_t kMostQuoted = 128;

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= 10 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_member(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return is_number(text);
  return is_number(text.substr(0, colon)) && is_number(text.substr(colon + 1));
}

/// What follows the last "default_pg/".
std::optional<std::string_view> in_group(std::string_view key) {
  const size_t at = key.rfind(kGroups);
  if (at == std::string_view::npos || at == 0 || key[at - 1] != '/') return std::nullopt;
  return key.substr(at + kGroups.size());
}

std::vector<std::string> job_prefixes(uint32_t attempts) {
  std::vector<std::string> prefixes = {"/"};
  for (uint32_t n = 0; n <= attempts; ++n) {
    prefixes.push_back("//worker/attempt_" + std::to_string(n) + "/");
  }
  return prefixes;
}

}  // namespace

std::optional<UniqueIdKey> parse_unique_id_key(std::string_view key) {
  const auto rest = in_group(key);
  if (!rest) return std::nullopt;
  const size_t slash = rest->rfind('/');
  if (slash == std::string_view::npos) return std::nullopt;
  UniqueIdKey parsed;
  parsed.member = rest->substr(slash + 1);
  std::string_view group = rest->substr(0, slash);
  if (!is_member(parsed.member)) return std::nullopt;
  if (group.ends_with('/')) {
    // "<group>//<device>//<n>"
    group.remove_suffix(1);
    const size_t device = group.rfind("//");
    if (device == std::string_view::npos || group.substr(device + 2) != "cuda") return std::nullopt;
    group = group.substr(0, device);
  }
  if (group.empty() || group.find('/') != std::string_view::npos) return std::nullopt;
  parsed.group = group;
  return parsed;
}

std::string quoted_store_key(std::string_view key) {
  return '"' + std::string(key.substr(0, kMostQuoted)) +
         (key.size() > kMostQuoted ? "...\"" : "\"");
}

std::vector<std::string> unique_id_keys(const UniqueIdKey& key, uint32_t attempts) {
  std::vector<std::string> keys;
  for (const std::string& prefix : job_prefixes(attempts)) {
    const std::string group = prefix + std::string(kGroups) + key.group;
    keys.push_back(group + "//cuda//" + key.member);
    keys.push_back(group + "/" + key.member);
  }
  return keys;
}

bool is_barrier_key(std::string_view key) {
  const size_t slash = key.rfind('/');
  return key.substr(slash == std::string_view::npos ? 0 : slash + 1).starts_with(kBarrier) &&
         !key.ends_with(kLastWorker);
}

std::string last_worker_key(const std::string& barrier) {
  return barrier + std::string(kLastWorker);
}

std::vector<std::string> barrier_keys(uint32_t g, uint32_t attempts) {
  std::vector<std::string> keys;
  for (const std::string& prefix : job_prefixes(attempts)) {
    keys.push_back(prefix + std::string(kGroups) + std::string(kBarrier) + std::to_string(g));
  }
  return keys;
}

}  // namespace understudy
