// The environment variables that force NCCL's choice, as values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "collective_model/tuner/tuning_constants.h"
#include "dataplane/base/result.h"

namespace understudy {

/// What NCCL_ALGO or NCCL_PROTO says of one algorithm or protocol of one collective.
enum class Wish : uint8_t {
  kUnset,  ///< nothing
  kOn,
  kOff,
};

struct NcclEnvironment {
  /// By collective, then algorithm and protocol.
  std::array<std::array<Wish, kAlgorithms>, 10> algorithm{};
  std::array<std::array<Wish, kProtocols>, 10> protocol{};
  std::optional<uint32_t> min_channels, max_channels;
  std::optional<uint32_t> threads, ll128_threads;
  /// NCCL_THREAD_THRESHOLDS of ring and tree, by protocol; bytes per thread.
  std::array<std::array<std::optional<uint64_t>, kProtocols>, 2> thresholds{};
  std::optional<uint32_t> buffer, ll_buffer, ll128_buffer;  ///< bytes
  std::optional<int64_t> pat;                               ///< NCCL_PAT_ENABLE
  std::optional<int64_t> nvls, collnet;  ///< NCCL_NVLS_ENABLE, NCCL_COLLNET_ENABLE
  std::optional<int64_t> pxn_disable;    ///< NCCL_PXN_DISABLE
  std::optional<int64_t> net_overhead_ns;

  /// Takes in one variable. Fails, saying why, for one that is not known or whose value NCCL would
  /// refuse. `version`: lists by function came with 2.24.
  Result<void> set(std::string_view name, const std::string& value, NcclVersion version);
};

/// What NCCL calls a collective in these lists; empty for those that have no algorithm.
std::string_view function_name(Collective collective);

}  // namespace understudy
