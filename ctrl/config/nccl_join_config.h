// How the emulated ranks of a job find NCCL's communicator: job.join.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dataplane/base/address.h"
#include "dataplane/base/units.h"

namespace understudy {

struct NcclJoinConfig {
  enum class Way : uint8_t {
    kCommId,  ///< NCCL_COMM_ID: rank 0's root is at `address` and `port`
    kFile,    ///< rank 0 writes its unique id to `file`
    kStore,   ///< PyTorch's store at `address` and `port`, which rank 0 serves
    /// torchrun's c10d rendezvous `run_id`, in the store at `address` and `port`, which that node
    /// serves
    kRendezvous,
  };
  Way way = Way::kCommId;
  IpAddress address;
  uint16_t port = 0;
  std::string file;
  std::string run_id = "none";     ///< torchrun's --rdzv-id
  std::string torch = "2.4";       ///< release whose store's protocol is spoken
  uint32_t queue_pairs = 1;        ///< NCCL_IB_QPS_PER_CONNECTION of the real ranks
  std::optional<bool> split_data;  ///< their NCCL_IB_SPLIT_DATA_ON_QPS; without: its default
  /// That are joined one after another, until the job is over; nothing: as many as come.
  std::optional<uint32_t> communicators = 1;
  unsigned line = 0;

  /// Of PyTorch's.
  bool has_store() const { return way == Way::kStore || way == Way::kRendezvous; }
  bool joins_once() const { return communicators == 1u; }
};

}  // namespace understudy
