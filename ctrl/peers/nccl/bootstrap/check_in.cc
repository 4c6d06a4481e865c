#include "ctrl/peers/nccl/bootstrap/check_in.h"

#include <algorithm>

#include "ctrl/peers/nccl/bootstrap/bytes.h"

namespace understudy {
namespace {

constexpr size_t kCheckInRank = 0, kCheckInRanks = 4, kCheckInRoot = 8, kCheckInRoots = 12;
/// The smallest that counts roots (2.23 on).
constexpr size_t kWithRoots = 172;

}  // namespace

std::vector<uint8_t> check_in_bytes(const BootstrapLayout& layout, const NcclCheckIn& check_in) {
  std::vector<uint8_t> bytes(layout.check_in);
  put_nccl_u32(bytes, kCheckInRank, check_in.rank);
  put_nccl_u32(bytes, kCheckInRanks, check_in.ranks);
  if (bytes.size() >= kWithRoots) put_nccl_u32(bytes, kCheckInRoots, 1);
  put_nccl_address(bytes, layout.check_in_answer_at, check_in.answer);
  put_nccl_address(bytes, layout.check_in_ring_at, check_in.ring);
  return bytes;
}

Result<NcclCheckIn> parse_check_in(const BootstrapLayout& layout, std::span<const uint8_t> bytes) {
  NcclCheckIn check_in;
  check_in.rank = nccl_u32(bytes, kCheckInRank);
  check_in.ranks = nccl_u32(bytes, kCheckInRanks);
  const std::string who = "the check-in of rank " + std::to_string(check_in.rank);
  if (bytes.size() >= kWithRoots &&
      (nccl_u32(bytes, kCheckInRoot) != 0 || nccl_u32(bytes, kCheckInRoots) != 1)) {
    return fail(who + " counts " + std::to_string(nccl_u32(bytes, kCheckInRoots)) +
                " roots; several unique ids of one communicator are not supported (PyTorch: set "
                "TORCH_NCCL_RANKS_PER_ROOT to the number of ranks or more)");
  }
  if (std::string fault =
          ring_info_fault(bytes.subspan(layout.check_in_ring_at, layout.root_answer));
      !fault.empty()) {
    return fail(who + ": " + fault);
  }
  const auto answer = nccl_address(bytes, layout.check_in_answer_at);
  const auto ring = nccl_address(bytes, layout.check_in_ring_at);
  if (!answer || !ring) {
    return fail(who + " has no readable addresses where NCCL " + std::string(layout.releases) +
                " has them");
  }
  check_in.answer = *answer;
  check_in.ring = *ring;
  return check_in;
}

std::string ring_info_fault(std::span<const uint8_t> bytes) {
  constexpr size_t kHandleMagicAt = 32;
  if (bytes.size() < kHandleMagicAt + 8 || nccl_u64(bytes, kHandleMagicAt) != kNcclNetMagic) {
    return {};
  }
  return "the ring is to run over the network card: set NCCL_OOB_NET_ENABLE=0 on the real node";
}

std::vector<uint8_t> ring_info_bytes(const BootstrapLayout& layout, const SocketAddress& ring) {
  std::vector<uint8_t> bytes(layout.root_answer);
  put_nccl_address(bytes, 0, ring);
  return bytes;
}

std::string NcclRoot::take(const NcclCheckIn& check_in, const SocketAddress& from) {
  const std::string rank = "rank " + std::to_string(check_in.rank);
  if (check_in.ranks != real_.size()) {
    return rank + " (" + from.text() + ") checks in for a communicator of " +
           std::to_string(check_in.ranks) + " ranks; this one has " + std::to_string(real_.size());
  }
  if (check_in.rank >= real_.size() || !real_[check_in.rank]) {
    return rank + " (" + from.text() + ") checks in, but is to be emulated";
  }
  const auto [at, fresh] = came_.try_emplace(check_in.rank, Came{check_in, from, false});
  if (fresh) return {};
  return rank + " checks in a second time (" + from.text() + ", before that " +
         at->second.from.text() + "): do two processes have the same rank?";
}

std::vector<uint32_t> NcclRoot::answerable() {
  std::vector<uint32_t> ranks;
  if (!layout_.root_answers_early && !missing().empty()) return ranks;
  for (auto& [rank, came] : came_) {
    const auto next = static_cast<uint32_t>((rank + 1) % real_.size());
    if (came.answered || (real_[next] && !came_.contains(next))) continue;
    came.answered = true;
    ranks.push_back(rank);
  }
  return ranks;
}

std::vector<uint32_t> NcclRoot::missing() const {
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < real_.size(); ++rank) {
    if (real_[rank] && !came_.contains(rank)) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace understudy
