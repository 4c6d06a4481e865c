#include "tools/ring_node/neighbour.h"

#include <algorithm>

namespace understudy {

Result<void> Neighbour::exchange(std::chrono::milliseconds limit) {
  const auto sent = stream_.send(client_.take_output());
  bool closed = false;
  // The peer's last words are read even if it no longer takes ours.
  const auto bytes = stream_.receive(std::max(limit, std::chrono::milliseconds(0)), closed);
  if (bytes) client_.on_bytes(*bytes);
  if (closed) client_.on_closed();
  if (!client_.failure().empty()) return fail(name_ + ": " + client_.failure());
  if (!bytes) return fail(name_ + ": " + bytes.error().text);
  if (!sent) return fail(name_ + ": " + sent.error().text);
  return {};
}

}  // namespace understudy
