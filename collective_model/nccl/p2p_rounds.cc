#include "collective_model/nccl/p2p_rounds.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace understudy {
namespace {

constexpr NcclVersion kGroupsSince{28};

/// Distances 0 .. n-1 in the order of the triangular numbers modulo a power of two, which meets
/// every residue once.
std::vector<uint32_t> distances(uint32_t n) {
  const uint32_t all = std::bit_ceil(n);
  std::vector<uint32_t> result;
  uint32_t distance = 0;
  for (uint32_t i = 1; i <= all; ++i) {
    if (distance < n) result.push_back(distance);
    distance = (distance + i) & (all - 1);
  }
  return result;
}

/// The lowest bits of x, as many as channels need, from right to left.
uint32_t reversed(uint32_t x, uint32_t channels) {
  uint32_t result = 0;
  for (uint32_t bit = 1; bit < channels; bit <<= 1) result = result << 1 | ((x & bit) != 0 ? 1 : 0);
  return result;
}

/// Ranks that take one another in turn inside a round of groups.
uint32_t ranks_of_group(const Communicator& c) {
  if (c.version < kGroupsSince || c.nodes == 1) return c.gpus;
  return std::gcd(c.gpus, kP2pBatch);
}

}  // namespace

P2pRounds::P2pRounds(const Communicator& c)
    : size_(ranks_of_group(c)), groups_(c.ranks() / size_), far_(distances(groups_)), near_(size_) {
  // Inside a group 2.28 goes up one by one, the versions before as between groups.
  std::iota(near_.begin(), near_.end(), 0u);
  if (c.version < kGroupsSince) near_ = distances(size_);
  far_at_.resize(groups_);
  near_at_.resize(size_);
  for (uint32_t i = 0; i < groups_; ++i) far_at_[far_[i]] = i;
  for (uint32_t i = 0; i < size_; ++i) near_at_[near_[i]] = i;
}

P2pRound P2pRounds::of(uint32_t rank, uint32_t round) const {
  const uint32_t group = rank / size_, local = rank % size_;
  const uint32_t far = far_[round / size_], near = near_[round % size_];
  return {(group + far) % groups_ * size_ + (local + near) % size_,
          (group + groups_ - far) % groups_ * size_ + (local + size_ - near) % size_};
}

uint32_t P2pRounds::between(uint32_t from, uint32_t to) const {
  const uint32_t far = (to / size_ + groups_ - from / size_) % groups_;
  const uint32_t near = (to % size_ + size_ - from % size_) % size_;
  return far_at_[far] * size_ + near_at_[near];
}

uint32_t p2p_channel(const Communicator& c, uint32_t round, uint32_t part) {
  const uint32_t channels = c.p2p_channels();
  uint32_t base = round;
  if (c.nodes > 1) {
    const uint32_t size = ranks_of_group(c);
    base = round / size * ((size + kP2pBatch - 1) / kP2pBatch) + round % size / kP2pBatch;
  }
  // Neighbours in number are far apart: up to 2.27 parts of one round, since then rounds.
  if (c.version < kGroupsSince) return (base + reversed(part, channels)) & (channels - 1);
  return (reversed(base, channels) + part) & (channels - 1);
}

std::vector<uint32_t> p2p_channels_between(const Communicator& c, uint32_t from, uint32_t to) {
  const uint32_t round = P2pRounds(c).between(from, to);
  std::vector<uint32_t> channels;
  for (uint32_t part = 0; part < c.p2p_channels_per_peer(); ++part) {
    channels.push_back(p2p_channel(c, round, part));
  }
  std::ranges::sort(channels);
  return channels;
}

bool joins_p2p_batch(NcclVersion version, uint32_t first, uint32_t count, uint32_t round) {
  if (count >= kP2pBatch) return false;
  return version < kGroupsSince || first / kP2pBatch == round / kP2pBatch;
}

}  // namespace understudy
