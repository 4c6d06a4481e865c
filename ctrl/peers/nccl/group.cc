#include "ctrl/peers/nccl/group.h"

#include <algorithm>

#include "ctrl/peers/nccl/bootstrap/bytes.h"
#include "ctrl/peers/nccl/bootstrap/rank_text.h"

namespace understudy {
namespace {

constexpr uint64_t kKindsKept = 8;                // ranks are at most two all-gathers apart
constexpr size_t kSplitKey = 0, kSplitColor = 4;  // commSplitInfo

}  // namespace

const char* gather_name(GatherKind kind) {
  switch (kind) {
    case GatherKind::kAddresses:
      return "addresses";
    case GatherKind::kProxies:
      return "proxies' addresses";
    case GatherKind::kUds:
      return "proxies' sockets";
    case GatherKind::kPeerInfo:
      return "ncclPeerInfo";
    case GatherKind::kAllGatherInfo:
      return "allGatherInfo";
    case GatherKind::kSplitColors:
    case GatherKind::kSplitKeys:
    case GatherKind::kSplit:
      return "ncclCommSplit";
    case GatherKind::kSegments:
      return "memory of a window";
    case GatherKind::kOneSidedCount:
    case GatherKind::kHandles:
      return "one-sided connections";
    default:
      return "other data";
  }
}

NcclGroup::NcclGroup(NcclGroupSettings settings, std::vector<NcclMember> members, NcclHost& host,
                     NcclGroupUser& user)
    : settings_(settings),
      members_(std::move(members)),
      user_(user),
      layout_(layouts_of(settings.version).front()),
      shape_(members_, layout_->ring),
      ring_(shape_, members_, *this),
      slices_(members_, shape_, settings.seed),
      edges_(members_, shape_, slices_),
      setup_(settings.number, members_, edges_, host, *this),
      one_sided_(settings.number, members_, host, *this) {}

std::string NcclGroup::name() const {
  return settings_.number == 0 ? "" : " (communicator " + std::to_string(settings_.number) + ")";
}

void NcclGroup::ring_event(size_t segment, bool from_first, const FrameReader::Event& event) {
  const RingSegment& s = segments()[segment];
  const uint32_t rank = from_first ? s.first : s.last;
  if (from_first && shape_.steps_backward() == 0 && layout_->ring != RingOrder::kBothWays) {
    return user_.failed("rank " + std::to_string(rank) + " sends against the ring's direction" +
                        name() + ": NCCL from 2.28 on does, 2." +
                        std::to_string(settings_.version.minor) +
                        " does not: set nccl to the real ranks' release in the [job]");
  }
  switch (event.kind) {
    case FrameReader::kSize:
      return ring_.size_came(segment, from_first, static_cast<uint32_t>(event.size));
    case FrameReader::kPayload:
      ring_.payload_came(segment, from_first, event.payload);
      return sort_early();
    default:
      user_.failed("rank " + std::to_string(rank) + " announces " + std::to_string(event.size) +
                   " bytes on the ring" + name() + ": that is no NCCL");
  }
}

std::nullopt_t NcclGroup::refuse_size(uint32_t rank, uint32_t size, const std::string& what,
                                      uint32_t expected, const std::string& releases) {
  user_.failed("rank " + std::to_string(rank) + " announces " + std::to_string(size) +
               " bytes of a rank for " + what + name() + ", where NCCL 2." +
               std::to_string(settings_.version.minor) + " has " + std::to_string(expected) +
               releases);
  return std::nullopt;
}

std::optional<GatherKind> NcclGroup::one_sided_gather(uint32_t size) {
  switch (one_sided_.next(*layout_, size)) {
    case OneSided::Gather::kSegments:
      return GatherKind::kSegments;
    case OneSided::Gather::kCount:
      return GatherKind::kOneSidedCount;
    case OneSided::Gather::kHandles:
      return GatherKind::kHandles;
    case OneSided::Gather::kNone:
      break;
  }
  return std::nullopt;
}

std::optional<GatherKind> NcclGroup::classify(uint32_t rank, uint32_t size) {
  using enum GatherKind;
  const auto rows = layouts_of(settings_.version);
  if (ring_.begun() == 0) {
    if (size == layout_->first[0]) return kAddresses;
    return refuse_size(rank, size, "addresses", layout_->first[0], releases_with_first(size));
  }
  const bool shares = last_ == kAddresses && settings_.child;  // may: a child without proxies
  const bool first_done = last_ == kUds || (last_ == kProxies && layout_->first[2] == 0) ||
                          (last_ == kAddresses && layout_->first[1] == 0);
  if (last_ == kAddresses && layout_->first[1] != 0 && size == layout_->first[1]) return kProxies;
  if (last_ == kProxies && layout_->first[2] != 0 && size == layout_->first[2]) return kUds;
  if (!set_up_ && last_ != kPeerInfo) {
    for (const BootstrapLayout* row : rows) {
      if (!(first_done || shares) || size != row->peer_info) continue;
      layout_ = row;
      return kPeerInfo;
    }
    return refuse_size(rank, size, "ncclPeerInfo", layout_->peer_info,
                       releases_with(size, &BootstrapLayout::peer_info));
  }
  if (last_ == kPeerInfo) {
    if (size == layout_->all_gather_info) return kAllGatherInfo;
    return refuse_size(rank, size, "allGatherInfo", layout_->all_gather_info,
                       releases_with(size, &BootstrapLayout::all_gather_info));
  }
  if (const auto kind = one_sided_gather(size)) return kind;
  if (layout_->split_in_one && size == 8) return kSplit;
  if (!layout_->split_in_one && size == 4) {
    return last_ == kSplitColors ? kSplitKeys : kSplitColors;
  }
  const bool known = layout_->ring_registration && size == 2;
  if (!known && ++other_sizes_[size] == 1) {
    user_.say("NCCL: an all-gather of " + std::to_string(size) + " bytes of a rank" + name() +
              " is not known; emulated ranks answer with copies of a real rank's");
  }
  return kOther;
}

bool NcclGroup::gather_begins(uint64_t gather, uint32_t rank, uint32_t size) {
  const auto kind = classify(rank, size);
  if (!kind) return false;
  // With resources of its own the child's data connections count its own ranks.
  const bool own = *kind == GatherKind::kProxies && settings_.child;
  for (uint32_t r = 0; own && r < members_.size(); ++r) members_[r].top = r;
  last_ = *kind;
  if (*kind == GatherKind::kAllGatherInfo) set_up_ = true;
  kinds_[gather] = *kind;
  if (*kind == GatherKind::kSplit || *kind == GatherKind::kSplitColors) {
    splits_[gather] = std::make_shared<SplitRule>(members_, shape_, user_.configured_child(),
                                                  user_.expects_children());
  } else if (*kind == GatherKind::kSplitKeys) {
    splits_[gather] = splits_[gather - 1];
  }
  if (gather >= kKindsKept) {
    kinds_.erase(gather - kKindsKept);
    splits_.erase(gather - kKindsKept);
  }
  return true;
}

bool NcclGroup::copies(uint64_t gather) { return kinds_[gather] > GatherKind::kUds; }

void NcclGroup::append_slice(uint64_t gather, uint32_t rank, std::span<const uint8_t> model,
                             std::vector<uint8_t>& to) {
  const auto append_number = [&to](uint32_t number) {
    const size_t end = to.size();
    to.resize(end + 4);
    put_nccl_u32(to, end, number);
  };
  switch (kinds_[gather]) {
    case GatherKind::kAddresses:
    case GatherKind::kProxies:
      return slices_.append_addresses(
          kinds_[gather] == GatherKind::kAddresses ? layout_->first[0] : layout_->first[1], rank,
          user_.address(*this, members_[rank].world), to);
    case GatherKind::kUds:
      return slices_.append_uds(layout_->first[2], rank, to);
    case GatherKind::kPeerInfo:
      return slices_.append_peer_info(*layout_, rank, model, to);
    case GatherKind::kAllGatherInfo:
      return slices_.append_all_gather_info(*layout_, rank, model, to);
    case GatherKind::kSplitColors:
      return append_number(splits_[gather]->color_of(rank));
    case GatherKind::kSplitKeys:
      return append_number(splits_[gather]->key_of(rank));
    case GatherKind::kSplit:
      append_number(splits_[gather]->key_of(rank));
      return append_number(splits_[gather]->color_of(rank));
    case GatherKind::kHandles:
      return one_sided_.append_handle(rank, to);
    default:
      to.insert(to.end(), model.begin(), model.end());
  }
}

void NcclGroup::slice_came(uint64_t gather, uint32_t rank, std::span<const uint8_t> slice) {
  switch (kinds_[gather]) {
    case GatherKind::kAddresses:
      return address_came(rank, slice);
    case GatherKind::kPeerInfo: {
      const std::string fault = peer_info_fault(*layout_, rank, slice);
      if (fault.empty()) return;
      return user_.failed(!ring_.only_forward()
                              ? fault
                              : "rank " + std::to_string(rank) +
                                    " sends nothing against the ring's direction, as NCCL before "
                                    "2.28: set nccl to the real ranks' release in the [job]");
    }
    case GatherKind::kAllGatherInfo:
      return edges_.came(rank, slice);
    case GatherKind::kSplit:
      splits_[gather]->key_came(rank, nccl_u32(slice, kSplitKey));
      return splits_[gather]->color_came(rank, nccl_u32(slice, kSplitColor));
    case GatherKind::kSplitColors:
      return splits_[gather]->color_came(rank, nccl_u32(slice, 0));
    case GatherKind::kSplitKeys:
      return splits_[gather]->key_came(rank, nccl_u32(slice, 0));
    case GatherKind::kSegments:
      return one_sided_.came(OneSided::Gather::kSegments, rank, slice);
    case GatherKind::kOneSidedCount:
      return one_sided_.came(OneSided::Gather::kCount, rank, slice);
    case GatherKind::kHandles:
      return one_sided_.came(OneSided::Gather::kHandles, rank, slice);
    case GatherKind::kOther:
      return one_sided_.look_at_other(*layout_, rank, slice);
    default:
      return;
  }
}

void NcclGroup::gather_came(uint64_t gather) {
  const GatherKind kind = kinds_[gather];
  if (kind == GatherKind::kSplit || kind == GatherKind::kSplitKeys) split_came(*splits_[gather]);
}

void NcclGroup::ring_send(size_t segment, bool to_first, std::span<const uint8_t> bytes) {
  user_.ring_send(*this, segment, to_first, bytes);
}

}  // namespace understudy
