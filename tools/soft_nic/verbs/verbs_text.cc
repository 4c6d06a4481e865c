// Verbs that touch no device: texts, rates, files. Only in the library that stands in libibverbs'
// place; beside a preloaded one the distribution's do.
#include <infiniband/verbs.h>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

#include "dataplane/base/unique_fd.h"
#include "tools/soft_nic/device/exported.h"

namespace {

struct RateRow {
  ibv_rate rate;
  int mult;  ///< of 2.5 Gbit/s, rounded; 0: rdma-core names none
  int mbps;  ///< as the lanes signal
};
constexpr RateRow kRates[] = {
    {IBV_RATE_2_5_GBPS, 1, 2500},       {IBV_RATE_5_GBPS, 2, 5000},
    {IBV_RATE_10_GBPS, 4, 10000},       {IBV_RATE_20_GBPS, 8, 20000},
    {IBV_RATE_30_GBPS, 12, 30000},      {IBV_RATE_40_GBPS, 16, 40000},
    {IBV_RATE_60_GBPS, 24, 60000},      {IBV_RATE_80_GBPS, 32, 80000},
    {IBV_RATE_120_GBPS, 48, 120000},    {IBV_RATE_14_GBPS, 0, 14062},
    {IBV_RATE_28_GBPS, 11, 28125},      {IBV_RATE_50_GBPS, 20, 53125},
    {IBV_RATE_56_GBPS, 0, 56250},       {IBV_RATE_112_GBPS, 0, 112500},
    {IBV_RATE_168_GBPS, 0, 168750},     {IBV_RATE_25_GBPS, 0, 25781},
    {IBV_RATE_100_GBPS, 0, 103125},     {IBV_RATE_200_GBPS, 0, 206250},
    {IBV_RATE_300_GBPS, 0, 309375},     {IBV_RATE_400_GBPS, 160, 425000},
    {IBV_RATE_600_GBPS, 240, 637500},   {IBV_RATE_800_GBPS, 320, 850000},
    {IBV_RATE_1200_GBPS, 480, 1275000},
};

template <size_t N>
const char* text(const std::array<const char*, N>& texts, int code) {
  return code >= 0 && static_cast<size_t>(code) < N ? texts[static_cast<size_t>(code)] : "unknown";
}

}  // namespace

SOFT_NIC_EXPORT const char* ibv_wc_status_str(ibv_wc_status status) {
  static constexpr std::array<const char*, 24> kTexts = {"success",
                                                         "local length error",
                                                         "local queue pair operation error",
                                                         "local end-to-end context operation error",
                                                         "local protection error",
                                                         "work request flushed",
                                                         "memory window bind error",
                                                         "bad response",
                                                         "local access error",
                                                         "remote invalid request",
                                                         "remote access error",
                                                         "remote operation error",
                                                         "transport retries exceeded",
                                                         "receiver-not-ready retries exceeded",
                                                         "local reliable datagram domain violation",
                                                         "remote invalid reliable datagram request",
                                                         "remote aborted",
                                                         "invalid end-to-end context number",
                                                         "invalid end-to-end context state",
                                                         "fatal error",
                                                         "response timeout",
                                                         "general error",
                                                         "tag matching error",
                                                         "tag matching rendezvous incomplete"};
  return text(kTexts, status);
}

SOFT_NIC_EXPORT const char* ibv_event_type_str(ibv_event_type event) {
  static constexpr std::array<const char*, 20> kTexts = {
      "completion queue error",
      "queue pair fatal error",
      "queue pair invalid request",
      "queue pair access violation",
      "communication established",
      "send queue drained",
      "path migrated",
      "path migration failed",
      "device fatal error",
      "port active",
      "port error",
      "LID changed",
      "P_Key table changed",
      "subnet manager changed",
      "shared receive queue error",
      "shared receive queue limit reached",
      "last work request of a queue pair reached",
      "client reregistration",
      "GID table changed",
      "work queue fatal error"};
  return text(kTexts, event);
}

SOFT_NIC_EXPORT const char* ibv_node_type_str(ibv_node_type type) {
  static constexpr std::array<const char*, 8> kTexts = {"unknown",   "channel adapter", "switch",
                                                        "router",    "iWARP NIC",       "usNIC",
                                                        "usNIC UDP", "unspecified"};
  return text(kTexts, type);
}

SOFT_NIC_EXPORT const char* ibv_port_state_str(ibv_port_state state) {
  static constexpr std::array<const char*, 6> kTexts = {
      "no state change", "down", "init", "armed", "active", "active, deferred"};
  return text(kTexts, state);
}

SOFT_NIC_EXPORT int ibv_rate_to_mult(ibv_rate rate) {
  for (const RateRow& row : kRates) {
    if (row.rate == rate && row.mult != 0) return row.mult;
  }
  return -1;
}

SOFT_NIC_EXPORT ibv_rate mult_to_ibv_rate(int mult) {
  for (const RateRow& row : kRates) {
    if (row.mult == mult && mult != 0) return row.rate;
  }
  return IBV_RATE_MAX;
}

SOFT_NIC_EXPORT int ibv_rate_to_mbps(ibv_rate rate) {
  for (const RateRow& row : kRates) {
    if (row.rate == rate) return row.mbps;
  }
  return -1;
}

SOFT_NIC_EXPORT ibv_rate mbps_to_ibv_rate(int mbps) {
  for (const RateRow& row : kRates) {
    if (row.mbps == mbps) return row.rate;
  }
  return IBV_RATE_MAX;
}

SOFT_NIC_EXPORT const char* ibv_get_sysfs_path() { return "/sys"; }

SOFT_NIC_EXPORT int ibv_read_sysfs_file(const char* dir, const char* file, char* out, size_t size) {
  const std::string path = std::string(dir) + "/" + file;
  const understudy::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return -1;
  const ssize_t got = read(fd.get(), out, size);
  if (got <= 0) return static_cast<int>(got);
  if (out[got - 1] != '\n') return static_cast<int>(got);
  out[got - 1] = '\0';
  return static_cast<int>(got - 1);
}

// Nothing is pinned, so fork() takes nothing away.
SOFT_NIC_EXPORT int ibv_dontfork_range(void*, size_t) { return 0; }
SOFT_NIC_EXPORT int ibv_dofork_range(void*, size_t) { return 0; }
