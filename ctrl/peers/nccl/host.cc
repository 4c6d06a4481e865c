#include "ctrl/peers/nccl/host.h"

namespace understudy {

std::string SocketAddress::text() const {
  const std::string host = address.is_v4() ? address.text() : "[" + address.text() + "]";
  return host + ":" + std::to_string(port);
}

}  // namespace understudy
