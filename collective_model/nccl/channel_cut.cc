#include "collective_model/nccl/channel_cut.h"

#include <algorithm>
#include <string>

#include "collective_model/nccl/chunking.h"

namespace understudy {
namespace {

constexpr uint64_t kCellAlign = 16;
constexpr NcclVersion kLargeCellsSince{23}, kLLCountsSince{26}, kLargerCellsSince{29};

/// How 2.22 and later count and share traffic.
struct CellRule {
  uint64_t least = 512;        ///< traffic of a channel
  bool cells_of_least = true;  ///< a cell has so much traffic; else 16 bytes
  bool least_share = true;     ///< a channel's share is no less than that, either
};

CellRule cell_rule(NcclVersion version) {
  if (version < kLargeCellsSince) return {512, false, true};
  if (version < kLargerCellsSince) return {uint64_t{16} * 1024, true, true};
  return {uint64_t{32} * 1024, true, false};
}

/// Bytes moved for each byte of the buffer, as the cut counts them.
uint64_t traffic_per_byte(const Communicator& communicator, const Operation& operation) {
  uint64_t traffic = 1;
  if (operation.collective == Collective::kAllReduce) traffic = 2;
  if (has_rank_parts(operation.collective)) {
    traffic = communicator.ranks();
  }
  const bool low_latency =
      operation.protocol == Protocol::kLL && communicator.version >= kLLCountsSince;
  return low_latency ? traffic * 4 : traffic;
}

uint32_t most_channels(const Communicator& communicator, const Operation& operation) {
  if (operation.channels == 0) return communicator.channels;
  return std::min(operation.channels, communicator.channels);
}

/// No operation has more; that many of a group do not add up to more than their type holds.
constexpr uint64_t kMostTraffic = uint64_t{1} << 62;

/// Fills channels one after the other, each up to its share of the group's traffic.
class CellCut {
 public:
  CellCut(const Communicator& communicator, std::span<const Operation> operations)
      : communicator_(communicator), rule_(cell_rule(communicator.version)) {
    uint64_t traffic = 0, channels = 0;
    for (const Operation& operation : operations) {
      const uint64_t own = operation.bytes() * traffic_per_byte(communicator, operation);
      const uint64_t counted = rule_.cells_of_least ? std::max(rule_.least, own) : own;
      traffic = std::min(traffic + counted, kMostTraffic);
      channels += most_channels(communicator, operation);
    }
    channels = std::min<uint64_t>(channels, communicator.channels);
    share_ = channels == 0 ? 0 : traffic / channels;
    share_ = rule_.least_share ? std::max(rule_.least, share_) : round_up(share_, kCellAlign);
  }

  OperationCut next(const Operation& operation) {
    const uint64_t per_byte = traffic_per_byte(communicator_, operation);
    const uint64_t cell =
        rule_.cells_of_least ? round_up(ceil_div(rule_.least, per_byte), kCellAlign) : kCellAlign;
    const uint64_t cells = ceil_div(operation.bytes(), cell);
    OperationCut cut;
    const std::vector<uint64_t> shares = share_out(cells, cell * per_byte);
    cut.first_channel = channel_;
    uint64_t offset = 0;
    for (const uint64_t n : shares) {
      const uint64_t size = std::min(n * cell, operation.bytes() - offset);
      cut.parts.push_back({offset, size});
      offset += size;
    }
    if (shares.empty()) return cut;
    const uint64_t last = rule_.cells_of_least ? shares.back() * cell : cut.parts.back().bytes;
    advance(static_cast<uint32_t>(shares.size()), last * per_byte);
    return cut;
  }

 private:
  /// Cells of each channel, from channel_ on; moves it on if that channel is full.
  std::vector<uint64_t> share_out(uint64_t cells, uint64_t cell_traffic) {
    std::vector<uint64_t> shares;
    if (cells == 0) return shares;
    const uint32_t left = communicator_.channels - channel_;  // with the one that is being filled
    const uint64_t each = std::min(cells, ceil_div(share_, cell_traffic));
    uint64_t first = cells;
    if (left > 1) {
      const uint64_t room = share_ - used_;
      first = std::min(cells,
                       rule_.cells_of_least ? ceil_div(room, cell_traffic) : room / cell_traffic);
    }
    const uint64_t rest = cells - first;
    uint64_t more = ceil_div(rest, each);  // channels after the first
    if ((first == 0 ? 0 : 1) + more <= left) {
      shares.assign(more, each);
      if (more != 0) shares.back() = rest - (more - 1) * each;
    } else {
      // Shares were rounded down, and the channels do not suffice: the last ones have equal parts,
      // and the very last one what does not divide.
      more = left - 1;
      shares.assign(more, rest / more);
      shares.back() += rest % more;
    }
    if (first == 0) {
      ++channel_;
    } else {
      shares.insert(shares.begin(), first);
    }
    return shares;
  }

  /// The next operation begins on the last of the channels, unless it is full.
  void advance(uint32_t channels, uint64_t traffic_of_last) {
    if (channels > 1) {
      channel_ += channels - 1;
      used_ = 0;
    }
    used_ += traffic_of_last;
    if (used_ >= share_ && channel_ + 1 != communicator_.channels) {
      ++channel_;
      used_ = 0;
    }
  }

  const Communicator& communicator_;
  CellRule rule_;
  uint64_t share_ = 0;    ///< traffic of one channel
  uint32_t channel_ = 0;  ///< that is being filled
  uint64_t used_ = 0;     ///< traffic on it
};

/// 2.20 and 2.21: every channel takes the same bytes, rounded up to what its warps move at once.
std::vector<OperationCut> cut_evenly(const Communicator& communicator,
                                     std::span<const Operation> operations) {
  uint64_t bytes = 0, channels = 0;
  for (const Operation& operation : operations) {
    bytes += operation.bytes();
    channels += most_channels(communicator, operation);
  }
  channels = std::min<uint64_t>(channels, communicator.channels);
  const uint64_t most = round_up(ceil_div(bytes, channels), kCellAlign);
  std::vector<uint64_t> load(channels, 0);
  std::vector<OperationCut> cuts;
  for (const Operation& operation : operations) {
    const uint64_t align = even_alignment(operation);
    OperationCut cut;
    uint64_t offset = 0;
    for (uint32_t c = 0; c < channels && offset < operation.bytes(); ++c) {
      if (load[c] >= most) continue;
      if (cut.parts.empty()) cut.first_channel = c;
      const uint64_t left = operation.bytes() - offset;
      const uint64_t size = std::min(round_up(std::min(most - load[c], left), align), left);
      cut.parts.push_back({offset, size});
      load[c] += size;
      offset += size;
    }
    cuts.push_back(std::move(cut));
  }
  return cuts;
}

}  // namespace

uint32_t threads_of(const Operation& operation) {
  if (operation.threads != 0) return operation.threads;
  return operation.protocol == Protocol::kLL128 ? 640 : 512;
}

uint64_t even_alignment(const Operation& operation) {
  const uint32_t element = operation.element();
  switch (operation.protocol) {
    case Protocol::kLL:
      return uint64_t{8} * threads_of(operation);
    case Protocol::kLL128:
      return uint64_t{480} / element * element * (threads_of(operation) / 32);
    default:
      return 4096;
  }
}

Result<std::vector<OperationCut>> cut_group(const Communicator& communicator,
                                            std::span<const Operation> operations) {
  std::vector<OperationCut> cuts;
  switch (cut_rule(communicator.version)) {
    case CutRule::kStrided: {
      if (operations.size() > 1) {
        return fail("group: " + std::to_string(operations.size()) +
                    " operations: before NCCL 2.20 only one is known how to cut");
      }
      for (const Operation& operation : operations) {
        const uint32_t channels = operation.count == 0 ? 0 : most_channels(communicator, operation);
        cuts.push_back({0, std::vector<ChannelPart>(channels, {0, operation.bytes()})});
      }
      return cuts;
    }
    case CutRule::kEven:
      return cut_evenly(communicator, operations);
    default: {
      CellCut cells(communicator, operations);
      for (const Operation& operation : operations) cuts.push_back(cells.next(operation));
      return cuts;
    }
  }
}

std::vector<ChannelPart> cut_all_reduce(uint64_t bytes, uint32_t element_size,
                                        uint32_t max_channels) {
  Communicator communicator;
  communicator.channels = max_channels;
  Operation operation;
  operation.type = element_size == 1   ? DataType::kInt8
                   : element_size == 2 ? DataType::kFloat16
                   : element_size == 4 ? DataType::kFloat32
                                       : DataType::kFloat64;
  operation.count = bytes / element_size;
  return CellCut(communicator, {&operation, 1}).next(operation).parts;
}

}  // namespace understudy
