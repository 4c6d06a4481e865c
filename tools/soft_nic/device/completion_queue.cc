#include "tools/soft_nic/device/completion_queue.h"

#include <algorithm>

namespace understudy::soft_nic {

bool CompletionQueue::push(const ibv_wc& wc, bool solicited) {
  if (overrun) return true;
  if (count == ring.size()) {
    overrun = true;
    return false;
  }
  ring[(first + count) % ring.size()] = wc;
  ++count;
  ++added;
  const bool is_waited_for = solicited || wc.status != IBV_WC_SUCCESS;
  if (is_waited_for) last_solicited = added;
  if (armed && (!solicited_only || is_waited_for) && ibv.channel != nullptr) tell();
  return true;
}

void CompletionQueue::tell() {
  armed = false;
  told = added;
  ++events_raised;
  reinterpret_cast<Channel*>(ibv.channel)->events.push(&ibv);
}

int CompletionQueue::pop(int most, ibv_wc* out) {
  int taken = 0;
  for (; taken < most && count > 0; ++taken) {
    out[taken] = ring[first];
    first = first + 1 == ring.size() ? 0 : first + 1;
    --count;
  }
  return taken;
}

void CompletionQueue::arm(bool only_solicited) {
  // Armed for all stays armed for all until it fires (ibv_req_notify_cq(3)).
  solicited_only = armed ? solicited_only && only_solicited : only_solicited;
  armed = true;
  const uint64_t newest = solicited_only ? last_solicited : added;
  if (newest > std::max(told, added - count)) tell();
}

void CompletionQueue::forget(uint32_t qp_num) {
  size_t kept = 0;
  for (size_t i = 0; i < count; ++i) {
    const ibv_wc wc = ring[(first + i) % ring.size()];
    if (wc.qp_num != qp_num) ring[(first + kept++) % ring.size()] = wc;
  }
  if (kept != count) last_solicited = added;  // numbers moved: rather one event too many
  count = kept;
}

bool CompletionQueue::resize(uint32_t entries) {
  if (entries < count) return false;
  std::vector<ibv_wc> fresh(entries);
  for (size_t i = 0; i < count; ++i) fresh[i] = ring[(first + i) % ring.size()];
  ring = std::move(fresh);
  first = 0;
  return true;
}

}  // namespace understudy::soft_nic
