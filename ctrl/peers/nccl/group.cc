#include "ctrl/peers/nccl/group.h"

#include <algorithm>

#include "ctrl/peers/nccl/bytes.h"
#include "ctrl/peers/nccl/rank_text.h"

namespace understudy {
namespace {

// Reserved tags (bootstrap.cc); up to 2.22 ncclCommSplit has -2.
constexpr uint32_t kSplitTag = 1u << 29, kOldSplitTag = ~0u - 1, kGrowTag = 1u << 27;
constexpr size_t kProxyAddress = 28;              // in bootstrapRingData
constexpr uint64_t kKindsKept = 8;                // ranks are at most two all-gathers apart
constexpr size_t kSplitKey = 0, kSplitColor = 4;  // commSplitInfo
constexpr size_t kMostBarriers = 64;              // tags; NCCL has a handful
constexpr uint32_t kNoColor = ~0u;                // NCCL_SPLIT_NOCOLOR

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
      setup_(settings.number, members_, edges_, host, *this) {}

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
      return ring_.payload_came(segment, from_first, event.payload);
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
  if (gather >= kKindsKept) kinds_.erase(gather - kKindsKept);
  return true;
}

bool NcclGroup::copies(uint64_t gather) { return kinds_[gather] > GatherKind::kUds; }

void NcclGroup::append_slice(uint64_t gather, uint32_t rank, std::span<const uint8_t> model,
                             std::vector<uint8_t>& to) {
  const uint32_t model_rank = shape_.model_of(rank);
  const auto append_key = [&](size_t at) {
    // Who orders by rank goes on to do so; ties are in the order of ranks anyway.
    const uint32_t key = nccl_u32(model, at);
    const size_t end = to.size();
    to.resize(end + 4);
    put_nccl_u32(to, end, key == model_rank ? rank : key);
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
    case GatherKind::kSplitKeys:
      return append_key(0);
    case GatherKind::kSplit:
      append_key(kSplitKey);
      to.insert(to.end(), model.begin() + kSplitColor, model.end());
      return;
    default:
      to.insert(to.end(), model.begin(), model.end());
  }
}

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
    case GatherKind::kSplitColors:
      colors_.resize(members_.size());
      keys_.resize(members_.size());
      colors_[rank] = nccl_u32(slice, layout_->split_in_one ? kSplitColor : 0);
      if (layout_->split_in_one) keys_[rank] = nccl_u32(slice, kSplitKey);
      return;
    case GatherKind::kSplitKeys:
      keys_[rank] = nccl_u32(slice, 0);
      return;
    default:
      return;
  }
}

void NcclGroup::gather_came(uint64_t gather) {
  const GatherKind kind = kinds_[gather];
  if (kind == GatherKind::kSplit || kind == GatherKind::kSplitKeys) split_came();
}

void NcclGroup::split_came() {
  const auto ranks = static_cast<uint32_t>(members_.size());
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    if (members_[rank].real) continue;
    const uint32_t model = shape_.model_of(rank);
    colors_[rank] = colors_[model];
    keys_[rank] = keys_[model] == model ? rank : keys_[model];
  }
  std::map<uint32_t, std::vector<uint32_t>> children;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    if (colors_[rank] != kNoColor) children[colors_[rank]].push_back(rank);
  }
  for (auto& [color, in] : children) {
    std::stable_sort(in.begin(), in.end(), [&](uint32_t a, uint32_t b) {
      return static_cast<int32_t>(keys_[a]) < static_cast<int32_t>(keys_[b]);
    });
    std::vector<NcclMember> members;
    for (const uint32_t rank : in) members.push_back(members_[rank]);
    user_.child(*this, std::move(members));
  }
  std::erase_if(early_, [&](const ChildRing& c) {
    return user_.child_ring(*this, c.real, c.emulated, c.ring);
  });
}

void NcclGroup::ring_send(size_t segment, bool to_first, std::span<const uint8_t> bytes) {
  user_.ring_send(*this, segment, to_first, bytes);
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
  if (tag == (layout_->one_header ? kSplitTag : kOldSplitTag)) {
    const auto ring =
        payload.size() == layout_->root_answer ? nccl_address(payload, 0) : std::nullopt;
    if (!ring) return user_.failed(what + ": that is no address of a ring");
    if (user_.child_ring(*this, from, to, *ring)) return;
    if (RingGather::Progress progress; ring_.under_way(progress)) {
      early_.push_back({from, to, *ring});
    } else {
      user_.failed(what +
                   " begins a communicator that no ncclCommSplit told of: emulated ranks "
                   "cannot know who is in it (ncclCommShrink is not supported)");
    }
    return;
  }
  if (tag == kGrowTag) return user_.failed(what + ": ncclCommGrow is not supported");
  if (setup_.take(*layout_, {from, to, tag, payload})) return;
  std::vector<RankBarrier::Send> sends;
  const bool known = barriers_.contains(tag) || barriers_.size() < kMostBarriers;
  if (payload.size() == 4 && known &&
      barriers_.try_emplace(tag, members_).first->second.came(from, to, sends)) {
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
