// The RDMA device that has the rank's address: context, protection domain, completion queue.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/address.h"
#include "dataplane/base/result.h"

namespace understudy {

/// Calls `Destroy` on what libibverbs made.
template <auto Destroy>
struct VerbsDeleter {
  template <typename T>
  void operator()(T* object) const {
    Destroy(object);
  }
};
using VerbsContext = std::unique_ptr<ibv_context, VerbsDeleter<ibv_close_device>>;
using VerbsDomain = std::unique_ptr<ibv_pd, VerbsDeleter<ibv_dealloc_pd>>;
using VerbsCompletionQueue = std::unique_ptr<ibv_cq, VerbsDeleter<ibv_destroy_cq>>;
using VerbsQueuePair = std::unique_ptr<ibv_qp, VerbsDeleter<ibv_destroy_qp>>;
using VerbsRegistration = std::unique_ptr<ibv_mr, VerbsDeleter<ibv_dereg_mr>>;

/// Page-aligned, zeroed memory known to the device, or to several of them.
class RegisteredMemory {
 public:
  /// `access`: IBV_ACCESS_* flags.
  static Result<RegisteredMemory> make(ibv_pd* domain, size_t bytes, int access);
  /// Makes it known to a further device.
  Result<void> add(ibv_pd* domain, int access);
  std::byte* data() const { return memory_.get(); }
  uint64_t address() const { return reinterpret_cast<uint64_t>(memory_.get()); }
  /// `device`: in the order of make() and add().
  uint32_t lkey(size_t device = 0) const { return registrations_[device]->lkey; }
  uint32_t rkey(size_t device = 0) const { return registrations_[device]->rkey; }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte[], Free> memory_;
  size_t bytes_ = 0;
  // After the memory: deregistered before it is freed.
  std::vector<VerbsRegistration> registrations_;
};

class VerbsDevice {
 public:
  /// The first active port of any device (or of device `name`, if not empty) with a RoCE v2 GID
  /// equal to `address`, which also decides family and VLAN, as each address is one interface's.
  /// With `gid_index` that entry of the first such device, whatever its address is.
  static Result<VerbsDevice> open(const std::string& name, const IpAddress& address,
                                  std::optional<uint32_t> gid_index);

  /// Makes the completion queue, for all queue pairs.
  Result<void> make_completion_queue(unsigned entries);

  ibv_pd* domain() const { return domain_.get(); }
  ibv_cq* completion_queue() const { return cq_.get(); }
  uint8_t port() const { return port_; }
  uint8_t gid_index() const { return gid_index_; }
  const IpAddress& gid() const { return gid_; }
  uint32_t mtu() const { return mtu_; }  ///< of the port, in bytes
  std::string text() const;              ///< device, port, GID

  /// Next asynchronous event that means the end of the run, empty if there was none.
  std::string fatal_event() const;

 private:
  VerbsContext context_;
  VerbsDomain domain_;
  VerbsCompletionQueue cq_;
  uint8_t port_ = 1;
  uint8_t gid_index_ = 0;
  IpAddress gid_;
  uint32_t mtu_ = 0;
};

}  // namespace understudy
