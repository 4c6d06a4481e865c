#include "tests/rigs/nccl_rank/network.h"

#include <algorithm>
#include <utility>

namespace understudy::nccl_rank {

SocketAddress MemoryNetwork::listen(NetworkUser& user, const IpAddress& address, Id listener,
                                    uint16_t port) {
  SocketAddress at{address, port};
  while (at.port == 0 || (port == 0 && listeners_.contains(at))) {
    at.port = ++last_port_ < 1024 ? last_port_ = 1024 : last_port_;
  }
  const Listener entry{&user, listener};
  listeners_[at] = entry;
  listener_addresses_[listener] = at;
  const auto [first, last] = dials_.equal_range(at);
  for (auto dial = first; dial != last; ++dial) join(dial->second, entry);
  dials_.erase(first, last);
  return at;
}

void MemoryNetwork::stop_listening(Id listener) {
  const auto found = listener_addresses_.find(listener);
  if (found == listener_addresses_.end()) return;
  listeners_.erase(found->second);
  listener_addresses_.erase(found);
}

void MemoryNetwork::dial(NetworkUser& user, const IpAddress& from, const SocketAddress& to,
                         Id stream) {
  const Dial dial{&user, {from, static_cast<uint16_t>(32768 + stream % 28000)}, stream};
  const auto found = listeners_.find(to);
  if (found == listeners_.end()) {
    dials_.emplace(to, dial);
  } else {
    join(dial, found->second);
  }
}

void MemoryNetwork::join(const Dial& dial, const Listener& listener) {
  const Id other = new_id();
  ends_[dial.stream].user = dial.user;
  ends_[dial.stream].peer = other;
  ends_[other].user = listener.user;
  ends_[other].peer = dial.stream;
  put(dial.stream, {Item::Kind::kConnected, {}, 0, 0, {}});
  put(other, {Item::Kind::kAccepted, {}, 0, listener.id, dial.from});
}

void MemoryNetwork::put(Id id, Item item) {
  const auto found = ends_.find(id);
  if (found == ends_.end() || !found->second.open) return;
  End& end = found->second;
  end.inbox.push_back(std::move(item));
  if (!std::exchange(end.ready, true)) ready_.push_back(id);
}

void MemoryNetwork::send(Id stream, std::span<const uint8_t> bytes) {
  const auto found = ends_.find(stream);
  if (found == ends_.end() || bytes.empty()) return;
  bytes_ += bytes.size();
  put(found->second.peer, {Item::Kind::kBytes, {bytes.begin(), bytes.end()}, 0, 0, {}});
}

void MemoryNetwork::close(Id stream) {
  for (auto dial = dials_.begin(); dial != dials_.end(); ++dial) {
    if (dial->second.stream == stream) {
      dials_.erase(dial);
      return;
    }
  }
  const auto found = ends_.find(stream);
  if (found == ends_.end() || !found->second.open) return;
  const Id peer = found->second.peer;
  found->second.open = false;
  found->second.inbox.clear();
  const auto other = ends_.find(peer);
  if (other == ends_.end() || !other->second.open) {
    ends_.erase(peer);
    ends_.erase(stream);
    return;
  }
  put(peer, {Item::Kind::kClosed, {}, 0, 0, {}});
}

bool MemoryNetwork::step() {
  while (!ready_.empty()) {
    const size_t which = random_() % ready_.size();
    const Id id = ready_[which];
    const auto found = ends_.find(id);
    if (found == ends_.end() || found->second.inbox.empty()) {
      if (found != ends_.end()) found->second.ready = false;
      ready_[which] = ready_.back();
      ready_.pop_back();
      continue;
    }
    End& end = found->second;
    NetworkUser* const user = end.user;
    Item& item = end.inbox.front();
    if (item.kind == Item::Kind::kBytes) {
      const size_t left = item.bytes.size() - item.taken;
      const size_t size = whole_ || random_() % 2 == 0 ? left : 1 + random_() % left;
      const std::vector<uint8_t> piece(
          item.bytes.begin() + static_cast<ptrdiff_t>(item.taken),
          item.bytes.begin() + static_cast<ptrdiff_t>(item.taken + size));
      item.taken += size;
      if (item.taken == item.bytes.size()) end.inbox.pop_front();
      user->on_bytes(id, piece);
      return true;
    }
    const Item taken = std::move(item);
    end.inbox.pop_front();
    switch (taken.kind) {
      case Item::Kind::kAccepted:
        user->on_accepted(taken.listener, id, taken.from);
        break;
      case Item::Kind::kConnected:
        user->on_connected(id);
        break;
      default:
        user->on_closed(id, "closed by the other side");
        break;
    }
    return true;
  }
  return false;
}

size_t MemoryNetwork::open_ends() const {
  return static_cast<size_t>(
      std::count_if(ends_.begin(), ends_.end(), [](const auto& end) { return end.second.open; }));
}

}  // namespace understudy::nccl_rank
