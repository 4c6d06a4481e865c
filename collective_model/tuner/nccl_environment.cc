#include "collective_model/tuner/nccl_environment.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <span>
#include <vector>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

/// The collectives that have algorithms, as Collective numbers them.
constexpr std::string_view kFunctions[] = {"AllReduce", "AllGather", "ReduceScatter", "Broadcast",
                                           "Reduce"};
/// As Algorithm numbers them.
constexpr std::string_view kAlgorithmWords[] = {"Ring",     "Tree",          "PAT",         "NVLS",
                                                "NVLSTree", "CollNetDirect", "CollNetChain"};
/// That NCCL knows and that are not modelled.
constexpr std::string_view kOtherAlgorithms[] = {"CollNet"};
constexpr std::string_view kProtocolWords[] = {"Simple", "LL", "LL128"};

bool same_word(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(by), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

Result<int64_t> number(std::string_view name, std::string_view text, int64_t least, int64_t most) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    return fail(std::string(name) + " takes a number from " + std::to_string(least) + " to " +
                std::to_string(most));
  }
  return value;
}

/// Reads "ring,tree;allreduce:^tree" into `wishes`: lists by function, "^" excludes.
template <typename Row>
Result<void> read_lists(std::string_view name, std::string_view text,
                        std::span<const std::string_view> words,
                        std::span<const std::string_view> others, NcclVersion version,
                        Row& wishes) {
  bool first = true;
  for (std::string_view entry : split(text, ';')) {
    const size_t colon = entry.find(':');
    std::string_view function;
    if (colon != std::string_view::npos) {
      function = entry.substr(0, colon);
      entry.remove_prefix(colon + 1);
      if (version.minor < 24) {
        return fail(std::string(name) + ": lists by function came with NCCL 2.24");
      }
    } else if (!first) {
      return fail(std::string(name) + ": every list but the first one needs its function");
    }
    first = false;
    const bool exclude = entry.starts_with('^');
    if (exclude) entry.remove_prefix(1);
    bool known = function.empty();
    for (size_t f = 0; f < std::size(kFunctions); ++f) {
      if (!function.empty() && !same_word(function, kFunctions[f])) continue;
      known = true;
      std::fill(wishes[f].begin(), wishes[f].end(), exclude ? Wish::kOn : Wish::kOff);
      for (const std::string_view word : split(entry, ',')) {
        const auto it = std::ranges::find_if(words, [&](auto w) { return same_word(w, word); });
        if (it != words.end()) {
          wishes[f][static_cast<size_t>(it - words.begin())] = exclude ? Wish::kOff : Wish::kOn;
        } else if (std::ranges::none_of(others, [&](auto w) { return same_word(w, word); })) {
          return fail(std::string(name) + ": \"" + std::string(word) + "\" is unknown");
        }
      }
    }
    if (!known)
      return fail(std::string(name) + ": \"" + std::string(function) + "\" is no function");
  }
  return {};
}

}  // namespace

std::string_view function_name(Collective collective) {
  const auto i = static_cast<size_t>(collective);
  return i < std::size(kFunctions) ? kFunctions[i] : std::string_view();
}

Result<void> NcclEnvironment::set(std::string_view name, const std::string& value,
                                  NcclVersion version) {
  const auto count = [&](auto& out, int64_t least, int64_t most) -> Result<void> {
    const auto n = TRY(number(name, value, least, most));
    out = static_cast<typename std::remove_reference_t<decltype(out)>::value_type>(n);
    return {};
  };
  if (name == "NCCL_ALGO") {
    return read_lists(name, value, kAlgorithmWords, kOtherAlgorithms, version, algorithm);
  }
  if (name == "NCCL_PROTO") return read_lists(name, value, kProtocolWords, {}, version, protocol);
  if (name == "NCCL_MIN_NCHANNELS" || name == "NCCL_MIN_NRINGS") return count(min_channels, 1, 64);
  if (name == "NCCL_MAX_NCHANNELS" || name == "NCCL_MAX_NRINGS") return count(max_channels, 1, 64);
  if (name == "NCCL_NTHREADS") return count(threads, 1, 1024);
  if (name == "NCCL_LL128_NTHREADS") return count(ll128_threads, 1, 1024);
  constexpr int64_t kLargest = int64_t{1} << 31;
  if (name == "NCCL_BUFFSIZE") return count(buffer, 1024, kLargest);
  if (name == "NCCL_LL_BUFFSIZE") return count(ll_buffer, 1024, kLargest);
  if (name == "NCCL_LL128_BUFFSIZE") return count(ll128_buffer, 1024, kLargest);
  if (name == "NCCL_PAT_ENABLE") return count(pat, 0, 2);
  if (name == "NCCL_NVLS_ENABLE") return count(nvls, 0, 2);
  if (name == "NCCL_COLLNET_ENABLE") return count(collnet, 0, 1);
  if (name == "NCCL_PXN_DISABLE") return count(pxn_disable, 0, 1);
  if (name == "NCCL_NET_OVERHEAD") return count(net_overhead_ns, 0, 1'000'000'000);
  // They choose nothing here: what carries the messages looks them up.
  std::optional<uint32_t> ignored;
  if (name == "NCCL_IB_QPS_PER_CONNECTION") return count(ignored, 1, 128);
  if (name == "NCCL_IB_SPLIT_DATA_ON_QPS") return count(ignored, 0, 1);
  if (name == "NCCL_IB_TIMEOUT") return count(ignored, 0, 31);
  if (name == "NCCL_IB_RETRY_CNT") return count(ignored, 0, 7);
  constexpr std::string_view kFailover = "NCCL_IB_RESILIENCY_PORT_FAILOVER",
                             kRecovery = "NCCL_IB_RESILIENCY_PORT_RECOVERY";
  constexpr int64_t kLongest = 3'600'000;  // ms
  if (name == kFailover || name == kRecovery) return count(ignored, 0, 1);
  if (name.starts_with(kFailover)) {
    const std::string_view rest = name.substr(kFailover.size());
    if (rest == "_MAX_ATTEMPTS") return count(ignored, 0, 100);
    if (rest == "_PROBE_DELAY") return count(ignored, 0, kLongest);
  }
  if (name.starts_with(kRecovery)) {
    const std::string_view rest = name.substr(kRecovery.size());
    if (rest == "_ALIVE_MSG_SEQUENCE_SIZE") return count(ignored, 1, 10);
    if (rest == "_ATTEMPTS_MAX") return count(ignored, 1, 1'000'000);
    for (const std::string_view time :
         {"_START_DELAY", "_ALIVE_MSG_BATCH_INTERVAL", "_ALIVE_MSG_TIMEOUT", "_ACK_TIMEOUT"}) {
      if (rest == time) return count(ignored, 0, kLongest);
    }
  }
  if (name == "NCCL_THREAD_THRESHOLDS") {
    // Tree's LL, LL128 and Simple, then ring's; -2 leaves one as it is.
    constexpr Protocol kOrder[] = {Protocol::kLL, Protocol::kLL128, Protocol::kSimple};
    const auto parts = split(value, ' ');
    if (parts.empty() || parts.size() > 6) {
      return fail(
          "NCCL_THREAD_THRESHOLDS takes up to 6 numbers: LL, LL128, Simple of tree, of ring");
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto n = TRY(number(name, parts[i], -2, 1 << 30));
      const size_t algorithm_row = index(i < 3 ? Algorithm::kTree : Algorithm::kRing);
      if (n >= 0) thresholds[algorithm_row][index(kOrder[i % 3])] = static_cast<uint64_t>(n);
    }
    return {};
  }
  return fail(std::string(name) +
              " is not modelled; known are NCCL_ALGO, NCCL_PROTO, NCCL_MIN_NCHANNELS, "
              "NCCL_MAX_NCHANNELS, NCCL_NTHREADS, NCCL_LL128_NTHREADS, NCCL_THREAD_THRESHOLDS, "
              "NCCL_BUFFSIZE, NCCL_LL_BUFFSIZE, NCCL_LL128_BUFFSIZE, NCCL_PAT_ENABLE, "
              "NCCL_NVLS_ENABLE, NCCL_COLLNET_ENABLE, NCCL_PXN_DISABLE, "
              "NCCL_IB_QPS_PER_CONNECTION, NCCL_IB_SPLIT_DATA_ON_QPS, NCCL_IB_TIMEOUT, "
              "NCCL_IB_RETRY_CNT, NCCL_IB_RESILIENCY_PORT_FAILOVER, "
              "NCCL_IB_RESILIENCY_PORT_RECOVERY, their delays, timeouts and numbers of attempts, "
              "and NCCL_NET_OVERHEAD");
}

}  // namespace understudy
