#include "tools/rigs/ring_node/whole_node/node_values.h"

#include <algorithm>
#include <utility>

#include "dataplane/base/pattern.h"

namespace understudy {
namespace {

/// A node of the virtual kind has little memory.
constexpr uint64_t kMostVerified = uint64_t{256} << 20;

}  // namespace

NodeValues::NodeValues(const NodeJobMessage& job, const std::vector<NodeKind>& kinds,
                       uint64_t input_seed, bool shared_seed)
    : job_(job),
      kinds_(kinds),
      input_seed_(input_seed),
      why_not_(find_why_not(shared_seed)),
      right_(kinds.size()) {}

std::string NodeValues::find_why_not(bool shared_seed) const {
  const uint32_t gpus = job_.communicator.gpus;
  const bool others = std::ranges::any_of(job_.program_ranks,
                                          [&](uint32_t rank) { return rank / gpus != job_.node; });
  if (others && !shared_seed) return "other programs take part: give all the same --input-seed";
  for (const NodeJobMessage::Kind& kind : job_.kinds) {
    const uint64_t bytes = bytes_of_plain(job_.communicator, kind.operations);
    if (bytes > kMostVerified) {
      return "the buffers of all ranks take " + std::to_string(bytes >> 20) + " MiB, more than " +
             std::to_string(kMostVerified >> 20);
    }
  }
  return "";
}

uint64_t NodeValues::seed(uint32_t rank) const {
  const bool program = std::ranges::find(job_.program_ranks, rank) != job_.program_ranks.end();
  return program ? input_seed_ : job_.seed;
}

void NodeValues::begin(uint32_t kind) {
  kind_ = kind;
  ranks_.clear();
  const NodeKind& made = kinds_[kind];
  const DataType type = job_.kinds[kind].operations.front().type;
  for (uint32_t gpu = 0; gpu < made.schedules.size(); ++gpu) {
    const uint32_t rank = first_rank() + gpu;
    ranks_.push_back(std::make_unique<RankValues>(*made.schedules[gpu], type, job_.reduction,
                                                  Pattern(seed(rank), rank)));
  }
}

std::vector<uint8_t> NodeValues::made(const RankEnd& sender, uint64_t k) const {
  return ranks_[sender.rank]->made(sender.connection, k);
}

void NodeValues::take(const RankEnd& receiver, uint64_t k, std::vector<uint8_t> data) {
  ranks_[receiver.rank]->take(receiver.connection, k, std::move(data));
}

/// Of all ranks' results the node's are kept.
const std::vector<RankResult>& NodeValues::right(uint32_t kind) {
  std::vector<RankResult>& right = right_[kind];
  if (!right.empty()) return right;
  const Communicator& communicator = job_.communicator;
  std::vector<uint64_t> seeds;
  for (uint32_t rank = 0; rank < communicator.ranks(); ++rank) seeds.push_back(seed(rank));
  auto all = plain_results(communicator, job_.kinds[kind].operations, job_.reduction, seeds);
  const auto first = all.begin() + first_rank();
  right.assign(std::make_move_iterator(first),
               std::make_move_iterator(first + static_cast<ptrdiff_t>(communicator.gpus)));
  return right;
}

std::optional<uint64_t> NodeValues::wrong() {
  if (!why_not_.empty()) return std::nullopt;
  const std::vector<RankResult>& expected = right(kind_);
  uint64_t wrong = 0;
  for (size_t gpu = 0; gpu < ranks_.size(); ++gpu) wrong += ranks_[gpu]->wrong(expected[gpu]);
  return wrong;
}

}  // namespace understudy
