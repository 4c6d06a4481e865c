// Names that one process at a time may have among all on an address: the kernel's own communication
// manager would know who has what. A name is an abstract Unix socket: known in the whole network
// namespace, gone with its process however that ends.
#pragma once

#include <optional>
#include <string>

#include "dataplane/base/unique_fd.h"

namespace understudy::soft_nic {

/// Has the name until it is destroyed.
class Claim {
 public:
  /// Nothing where somebody has it, this process included.
  static std::optional<Claim> take(const std::string& name);
  static bool is_taken(const std::string& name);

 private:
  explicit Claim(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace understudy::soft_nic
