#include "ctrl/schedule/net_ib_environment.h"

#include <cstdlib>

namespace understudy {
namespace {

constexpr NcclVersion kLongerTimeoutSince{23};
constexpr NcclVersion kFailoverSince{29}, kRecoverySince{30};
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

std::optional<FailoverSettings> NetIbEnvironment::failover_of(NcclVersion version) const {
  if (!port_failover || version < kFailoverSince) return std::nullopt;
  FailoverSettings settings = failover;
  settings.recovery = settings.recovery && version >= kRecoverySince;
  settings.one_device = version >= kRecoverySince;
  return settings;
}

namespace {

constexpr std::string_view kFailover = "NCCL_IB_RESILIENCY_PORT_FAILOVER",
                           kRecovery = "NCCL_IB_RESILIENCY_PORT_RECOVERY";

/// Of a variable that begins with kFailover or kRecovery.
void set_failover(std::string_view name, uint32_t value, NetIbEnvironment& out) {
  FailoverSettings& f = out.failover;
  const Duration time = Duration::ms(value);
  if (name == kFailover) out.port_failover = value != 0;
  if (name == kRecovery) f.recovery = value != 0;
  if (name.ends_with("_FAILOVER_MAX_ATTEMPTS")) f.attempts = value;
  if (name.ends_with("_PROBE_DELAY")) f.probe_delay = time;
  if (name.ends_with("_START_DELAY")) f.recovery_delay = time;
  if (name.ends_with("_BATCH_INTERVAL")) f.batch_interval = time;
  if (name.ends_with("_SEQUENCE_SIZE")) f.sequence = value;
  if (name.ends_with("_MSG_TIMEOUT")) f.alive_timeout = time;
  if (name.ends_with("_ACK_TIMEOUT")) f.ack_timeout = time;
  if (name.ends_with("_ATTEMPTS_MAX")) f.recovery_attempts = value;
}

}  // namespace

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
    if (variable.name.starts_with("NCCL_IB_RESILIENCY_PORT_")) {
      set_failover(variable.name, value, out);
    }
  }
  return out;
}

}  // namespace understudy
