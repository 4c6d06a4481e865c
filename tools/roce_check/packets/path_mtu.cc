#include "tools/roce_check/packets/path_mtu.h"

#include <algorithm>

namespace understudy {

void PathMtu::add(const PacketRecord& p) {
  largest_ = std::max(largest_, p.payload_bytes);
  const OpKind kind = p.info().kind;
  const bool data =
      kind == OpKind::kSend || kind == OpKind::kWrite || kind == OpKind::kReadResponse;
  if (!data || p.info().end) return;  // only FIRST and MIDDLE must be full
  ++data_packets_;
  if (of_this_size_ == 0) size_ = p.payload_bytes;
  of_this_size_ += p.payload_bytes == size_ ? 1 : 0;
  const auto mtu = std::ranges::find(kValues, p.payload_bytes);
  if (mtu != kValues.end()) ++votes_[static_cast<size_t>(mtu - kValues.begin())];
}

/// Where no data are to be seen: a READ takes one PSN for each packet of its response, so the
/// distance to the next request tells the path MTU. Requests that are missing make it larger, so
/// the largest path MTU counts.
void PathMtu::add_reads(const PacketTable& table, std::span<const uint32_t> packets) {
  if (is_shown()) return;
  const uint32_t least_mtu = least();
  const PacketRecord* read = nullptr;
  for (const uint32_t index : packets) {
    const PacketRecord& p = table.packets[index];
    if (!p.info().is_request()) continue;
    const int32_t taken = read != nullptr ? p.psn.distance_from(read->psn) : 0;
    for (const uint32_t mtu : kValues) {
      const uint64_t count = taken > 0 ? (uint64_t{read->dma_length} + mtu - 1) / mtu : 0;
      const bool tells = taken > 0 && read->dma_length > least_mtu && mtu >= least_mtu;
      if (tells && count == static_cast<uint64_t>(taken)) by_reads_ = std::max(by_reads_, mtu);
    }
    read = p.info().kind == OpKind::kReadRequest ? &p : nullptr;
  }
}

bool PathMtu::is_shown() const {
  return std::ranges::any_of(votes_, [](uint64_t votes) { return votes != 0; });
}

uint32_t PathMtu::least() const {
  const auto fits = std::ranges::lower_bound(kValues, largest_);
  return fits == kValues.end() ? kValues.back() : *fits;
}

uint32_t PathMtu::value() const {
  const auto most = std::ranges::max_element(votes_);
  if (*most != 0) return kValues[static_cast<size_t>(most - votes_.begin())];
  return std::max(least(), by_reads_);
}

uint32_t PathMtu::odd() const {
  constexpr uint64_t kEnough = 3;
  const bool all_alike = data_packets_ >= kEnough && of_this_size_ == data_packets_;
  return all_alike && !is_shown() ? size_ : 0;
}

}  // namespace understudy
