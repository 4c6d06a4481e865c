// Messages between real and emulated ranks of a communicator, and what is waited for.
#include <algorithm>

#include "ctrl/peers/nccl/bootstrap/bytes.h"
#include "ctrl/peers/nccl/bootstrap/rank_text.h"
#include "ctrl/peers/nccl/group.h"

namespace understudy {
namespace {

constexpr uint32_t kGrowTag = 1u << 27;  // reserved (bootstrap.cc)
constexpr uint32_t kWindowTag = 0xbeef;  // of the barrier after a window (dev_runtime.cc)
constexpr size_t kProxyAddress = 28;     // in bootstrapRingData
constexpr size_t kMostBarriers = 64;     // tags; NCCL has a handful

}  // namespace

void NcclGroup::address_came(uint32_t rank, std::span<const uint8_t> slice) {
  const auto address = nccl_address(slice, 0);
  if (!address) {
    return user_.failed("rank " + std::to_string(rank) + " gives no address for messages" + name());
  }
  real_addresses_[rank] = *address;
  if (settings_.child && layout_->first[0] >= kProxyAddress + 2 &&
      nccl_address(slice, kProxyAddress)) {
    for (uint32_t r = 0; r < members_.size(); ++r) members_[r].top = r;
  }
  const auto ready = std::stable_partition(unsent_.begin(), unsent_.end(),
                                           [&](const Unsent& u) { return u.to != rank; });
  const std::vector<Unsent> now(ready, unsent_.end());
  unsent_.erase(ready, unsent_.end());
  for (const Unsent& u : now) send(u.from, u.to, u.tag, u.payload);
}

void NcclGroup::answer(const NcclMessage& message) {
  send(message.from, message.to, message.tag, message.payload);
}

void NcclGroup::send(uint32_t from, uint32_t to, uint32_t tag, std::span<const uint8_t> payload) {
  const auto found = real_addresses_.find(to);
  if (found == real_addresses_.end()) {
    unsent_.push_back({from, to, tag, {payload.begin(), payload.end()}});
    return;
  }
  std::vector<uint8_t> bytes;
  append_handshake(bytes, settings_.magic);
  append_frame_size(bytes, layout_->one_header ? 8 : 4);
  append_frame_size(bytes, from);  // not sizes: the header's two numbers
  if (!layout_->one_header) append_frame_size(bytes, 4);
  append_frame_size(bytes, tag);
  append_frame(bytes, payload);
  user_.send_once(
      members_[from].world, found->second, std::move(bytes),
      "rank " + std::to_string(from) + "'s message to rank " + std::to_string(to) + name());
}

void NcclGroup::message(uint32_t from, uint32_t to, uint32_t tag,
                        std::span<const uint8_t> payload) {
  const std::string what = "a message from rank " + std::to_string(from) + " to rank " +
                           std::to_string(to) + name() + " with tag " + std::to_string(tag) +
                           " and " + std::to_string(payload.size()) + " bytes";
  if (from >= members_.size() || !members_[from].real) {
    return user_.failed(what + ": rank " + std::to_string(from) + " is not a real rank of it");
  }
  if (tag == split_tag(*layout_)) {
    const auto ring =
        payload.size() == layout_->root_answer ? nccl_address(payload, 0) : std::nullopt;
    if (!ring) return user_.failed(what + ": that is no address of a ring");
    return child_ring_came({from, to, *ring});
  }
  if (tag == kGrowTag) {
    return user_.failed(what +
                        " is of ncclCommGrow, which is not supported: nothing tells which "
                        "emulated nodes would be new");
  }
  if (setup_.take(*layout_, {from, to, tag, payload})) return;
  std::vector<RankBarrier::Send> sends;
  const bool known = barriers_.contains(tag) || barriers_.size() < kMostBarriers;
  if (payload.size() == 4 && known &&
      barriers_.try_emplace(tag, members_).first->second.came(from, to, sends)) {
    if (tag == kWindowTag) one_sided_.at_barrier();
    const uint8_t nothing[4] = {};
    for (const RankBarrier::Send& s : sends) send(s.from, s.to, tag, nothing);
    return;
  }
  user_.say("NCCL: " + what + " is not known; nothing answers it");
}

void NcclGroup::waiting(std::vector<std::string>& lines) const {
  RingGather::Progress progress;
  if (ring_.under_way(progress)) {
    const auto kind = kinds_.find(progress.gather);
    lines.push_back(
        "all-gather " + std::to_string(progress.gather + 1) + name() + " (" +
        gather_name(kind == kinds_.end() ? GatherKind::kOther : kind->second) + ", " +
        std::to_string(progress.size) + " bytes of a rank): " + std::to_string(progress.came) +
        " of " + std::to_string(progress.real) + " real ranks' came; waits for " +
        ranks_text(progress.awaited) +
        (ring_.only_forward() ? "; nothing came against the ring's direction, as NCCL from 2.28 on "
                                "sends: is the release right?"
                              : ""));
  }
  one_sided_.waiting(lines);
  std::map<std::pair<uint32_t, bool>, std::vector<uint32_t>> by_real;
  std::map<std::pair<uint32_t, bool>, uint32_t> connectors;
  for (const TransportSetup::Open& open : setup_.open()) {
    const std::pair key{open.real, open.connectors > 0};
    by_real[key].push_back(open.emulated);
    connectors[key] += open.connectors;
  }
  for (auto& [key, emulated] : by_real) {
    const std::string with =
        ranks_text(emulated) + name() + " with rank " + std::to_string(key.first);
    lines.push_back(key.second ? std::to_string(connectors[key]) +
                                     " net_ib connections to be made: " + with
                               : "connected, and waiting for its word: " + with);
  }
}

}  // namespace understudy
