#include "tools/soft_nic/port/neighbours.h"

namespace understudy::soft_nic {

std::optional<MacAddress> Neighbours::find(const IpAddress& address) const {
  if (own_.has(address)) return own_.mac;
  const auto at = known_.find(address);
  return at == known_.end() ? std::nullopt : std::optional(at->second);
}

bool Neighbours::hear(const FrameView& view) {
  // Others' talk is not kept, but for news of whom we know.
  if (const auto news = neighbour_news(view)) {
    if (own_.has(news->told) || known_.contains(news->address)) learn(news->address, news->mac);
  }
  const auto asked = asked_address(view);
  return asked && own_.has(*asked);
}

uint32_t Neighbours::ask(const IpAddress& target, uint8_t* out) const {
  const IpAddress* own = own_.source_for(target);
  return own != nullptr ? write_neighbour_question({own_.mac, own_.vlan}, *own, target, out) : 0;
}

uint32_t Neighbours::answer(const FrameView& view, uint8_t* out) const {
  return write_neighbour_answer(view, own_.mac, out);
}

}  // namespace understudy::soft_nic
