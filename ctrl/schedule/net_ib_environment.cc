#include "ctrl/schedule/net_ib_environment.h"

#include <cstdlib>

namespace understudy {
namespace {

constexpr NcclVersion kLongerTimeoutSince{23};
constexpr uint8_t kTimeout = 20, kEarlierTimeout = 18, kRetries = 7;

}  // namespace

std::optional<Duration> NetIbRetries::once() const {
  if (timeout == 0) return std::nullopt;
  return Duration::ns(4'096) * (int64_t{1} << timeout);
}

std::optional<Duration> NetIbRetries::all() const {
  const auto one = once();
  if (!one) return std::nullopt;
  return *one * (int64_t{count} + 1);
}

NetIbRetries NetIbEnvironment::retries_of(NcclVersion version) const {
  const uint8_t normal = version < kLongerTimeoutSince ? kEarlierTimeout : kTimeout;
  return {timeout.value_or(normal), retries.value_or(kRetries)};
}

NetIbEnvironment net_ib_environment(const Config& config) {
  NetIbEnvironment out;
  if (!config.nccl) return out;
  for (const EnvironmentVariable& variable : config.nccl->environment) {
    // Its value was checked when the configuration was read.
    const auto value = static_cast<uint32_t>(std::strtoul(variable.value.c_str(), nullptr, 10));
    if (variable.name == "NCCL_IB_QPS_PER_CONNECTION") out.queue_pairs = value;
    if (variable.name == "NCCL_IB_SPLIT_DATA_ON_QPS") out.split_data = value != 0;
    if (variable.name == "NCCL_IB_TIMEOUT") out.timeout = static_cast<uint8_t>(value);
    if (variable.name == "NCCL_IB_RETRY_CNT") out.retries = static_cast<uint8_t>(value);
  }
  return out;
}

}  // namespace understudy
