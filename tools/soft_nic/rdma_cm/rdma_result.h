// What calls of RDMA-CM return.
#pragma once

#include <cerrno>

namespace understudy::soft_nic {

/// As rdma_*(3) say: 0, or -1 and errno.
inline int told(int error) {
  if (error == 0) return 0;
  errno = error;
  return -1;
}

}  // namespace understudy::soft_nic
