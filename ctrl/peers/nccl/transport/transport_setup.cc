#include "ctrl/peers/nccl/transport/transport_setup.h"

#include <algorithm>
#include <bit>

#include "ctrl/peers/nccl/bootstrap/bytes.h"

namespace understudy {
namespace {

/// ncclConnect (transport.h).
constexpr size_t kEntryBytes = 256;
// Of a receiver: its net handle; of a sender: the rank whose proxy sends. useGdr of either from
// 2.24 on.
constexpr size_t kHandleMagicAt = 32, kEntryRank = 0, kUseGdrAt = 128;
constexpr uint32_t kSyncBit = 1u << 7, kPartMask = kSyncBit - 1;
// The tag's last part: 0 for send and receive, else the graph's number and one.
constexpr uint32_t kPartSendRecv = 0, kPartRing = 1, kPartTree = 2;

bool is_handle(std::span<const uint8_t> entry) {
  return nccl_u64(entry, kHandleMagicAt) == kNcclNetMagic;
}

}  // namespace

std::string TransportSetup::ranks_text(const NcclMessage& message) const {
  return "rank " + std::to_string(message.from) + "'s set-up of transports with rank " +
         std::to_string(message.to);
}

bool TransportSetup::take(const BootstrapLayout& layout, const NcclMessage& message) {
  const auto ranks = static_cast<uint32_t>(members_.size());
  const uint32_t distance = message.tag >> 8;
  const bool to_next = (message.to + ranks - message.from) % ranks == distance;
  const bool to_previous = (message.from + ranks - message.to) % ranks == distance;
  if (distance == 0 || distance >= ranks || !(to_next || to_previous)) return false;
  const uint32_t part = message.tag & kPartMask;
  const bool sync_bit = (message.tag & kSyncBit) != 0;
  const size_t size = message.payload.size();
  if (part > 5) return false;

  const bool sync = (layout.sync == SyncForm::kFlagSameTag && !sync_bit && size == 4) ||
                    (layout.sync == SyncForm::kFlag && sync_bit && size == 4) ||
                    (layout.sync == SyncForm::kEmpty && sync_bit && size == 0);
  if (sync) {
    const Exchange exchange{message.from, message.to, message.tag & ~kSyncBit};
    const auto found = exchanges_.find(exchange);
    if (found == exchanges_.end() || found->second.sync_came) {
      user_.setup_failed(ranks_text(message) + " ends without having begun (tag " +
                         std::to_string(message.tag) + ")");
      return true;
    }
    found->second.sync_came = true;
    sync_if_done(layout, exchange);
    return true;
  }
  if (sync_bit || size == 0 || size % kEntryBytes != 0) return false;
  if (part > kPartTree) {
    user_.setup_failed(ranks_text(message) +
                       " is for CollNet or NVLS, which emulated ranks have not: set "
                       "NCCL_COLLNET_ENABLE=0 and NCCL_NVLS_ENABLE=0 on the real node");
    return true;
  }
  set_up(layout, message, to_next, to_previous);
  return true;
}

bool TransportSetup::take_channels(const BootstrapLayout& layout, const Direction& direction,
                                   uint32_t part, size_t count, std::vector<uint32_t>& channels) {
  uint64_t& taken = connected_[direction];
  if (part == kPartSendRecv) {
    for (; count > 0 && taken != ~uint64_t{0}; --count) {
      channels.push_back(static_cast<uint32_t>(std::countr_one(taken)));
      taken |= uint64_t{1} << channels.back();
    }
    return count == 0;
  }
  const uint32_t from = direction.real_sends ? direction.real : direction.emulated;
  const uint32_t to = direction.real_sends ? direction.emulated : direction.real;
  const auto found = edges_.channels(layout, part == kPartRing, from, to, taken, count);
  for (const uint32_t channel : found) taken |= uint64_t{1} << channel;
  channels.insert(channels.end(), found.begin(), found.end());
  return found.size() == count;
}

void TransportSetup::set_up(const BootstrapLayout& layout, const NcclMessage& message, bool to_next,
                            bool to_previous) {
  const Exchange exchange{message.from, message.to, message.tag};
  if (exchanges_.contains(exchange)) {
    return user_.setup_failed(ranks_text(message) + " comes a second time (tag " +
                              std::to_string(message.tag) + ")");
  }
  const auto entry_at = [&](size_t i) {
    return message.payload.subspan(i * kEntryBytes, kEntryBytes);
  };
  const size_t entries = message.payload.size() / kEntryBytes;
  // Where the real rank receives stands before what it sends from; only one of the two if we are
  // not both its next and its previous rank.
  size_t receives = 0;
  while (receives < entries && is_handle(entry_at(receives))) ++receives;
  const size_t sends = entries - receives;
  for (size_t i = receives; i < entries; ++i) {
    if (is_handle(entry_at(i))) receives = entries + 1;
  }
  if (receives > entries || (receives > 0 && !to_previous) || (sends > 0 && !to_next)) {
    return user_.setup_failed(
        ranks_text(message) + " is not one of net_ib's (tag " + std::to_string(message.tag) + ", " +
        std::to_string(entries) +
        " entries): set NCCL_NET=IB and NCCL_NET_PLUGIN=none on the real node");
  }
  const NcclMember& real = members_[message.from];
  const NcclMember& emulated = members_[message.to];
  const uint8_t index = (message.tag & kPartMask) == kPartSendRecv ? 1 : 0;
  std::vector<uint32_t> channels;
  const uint32_t part = message.tag & kPartMask;
  if ((sends > 0 &&
       !take_channels(layout, {message.from, message.to, true, index}, part, sends, channels)) ||
      (receives > 0 && !take_channels(layout, {message.from, message.to, false, index}, part,
                                      receives, channels))) {
    return user_.setup_failed(ranks_text(message) + " asks for more than 64 channels");
  }

  State& state = exchanges_[exchange];
  std::vector<uint8_t> answer(message.payload.size());
  struct Receiver {
    NcclConnector connector;
    SocketAddress listener;
  };
  std::vector<Receiver> receivers;
  // The answer has where we receive, for each of the real rank's sends, and then what we send from.
  for (size_t i = 0; i < entries; ++i) {
    const bool real_sends = i < sends;
    const auto theirs = entry_at(real_sends ? receives + i : i - sends);
    const auto ours = std::span<uint8_t>(answer).subspan(i * kEntryBytes, kEntryBytes);
    NcclConnector connector{communicator_,
                            emulated.world,
                            real.world,
                            channels[i],
                            index,
                            real_sends,
                            real_sends ? real.top : emulated.top};
    put_nccl_u32(ours, kUseGdrAt, nccl_u32(theirs, kUseGdrAt));
    if (real_sends) {
      if (const uint32_t proxy = nccl_u32(theirs, kEntryRank); proxy != real.top) {
        return user_.setup_failed(ranks_text(message) + ": it would send by rank " +
                                  std::to_string(proxy) +
                                  "'s network card (PXN): set NCCL_PXN_DISABLE=1 on the real node");
      }
      const auto listener = host_.expect(connector);
      if (!listener) {
        return user_.setup_failed(ranks_text(message) + ": " + listener.error().text);
      }
      put_nccl_address(ours, 0, *listener);
      put_nccl_u64(ours, kHandleMagicAt, kNcclNetMagic);
    } else {
      put_nccl_u32(ours, kEntryRank, emulated.top);
      const auto listener = nccl_address(theirs, 0);
      if (!listener) {
        return user_.setup_failed(ranks_text(message) +
                                  ": no address can be read from its net_ib handle");
      }
      receivers.push_back({connector, *listener});
    }
    connectors_.insert(connector);
    connecting_.emplace(connector, exchange);
    ++state.connecting;
  }
  user_.answer({message.to, message.from, message.tag, answer});
  for (const Receiver& r : receivers) host_.connect(r.connector, r.listener, kNcclNetMagic);
}

void TransportSetup::ready(const BootstrapLayout& layout, const NcclConnector& connector) {
  const auto found = connecting_.find(connector);
  if (found == connecting_.end()) return;
  const Exchange exchange = found->second;
  connecting_.erase(found);
  --exchanges_[exchange].connecting;
  sync_if_done(layout, exchange);
}

void TransportSetup::sync_if_done(const BootstrapLayout& layout, const Exchange& exchange) {
  const auto found = exchanges_.find(exchange);
  if (found->second.connecting > 0) return;
  if (layout.sync == SyncForm::kNone) {
    exchanges_.erase(found);
    return;
  }
  if (!found->second.sync_came) return;
  exchanges_.erase(found);
  const std::vector<uint8_t> flag(layout.sync == SyncForm::kEmpty ? 0 : 4);
  const uint32_t bit = layout.sync == SyncForm::kFlagSameTag ? 0 : kSyncBit;
  user_.answer({exchange.emulated, exchange.real, exchange.tag | bit, flag});
}

void TransportSetup::disconnect() {
  for (const NcclConnector& connector : connectors_) host_.disconnect(connector);
  connectors_.clear();
  connecting_.clear();
  exchanges_.clear();
}

std::vector<TransportSetup::Open> TransportSetup::open() const {
  std::vector<Open> open;
  for (const auto& [exchange, state] : exchanges_) {
    open.push_back({exchange.real, exchange.emulated, state.connecting});
  }
  return open;
}

bool TransportSetup::open_with(uint32_t real) const {
  return std::any_of(exchanges_.begin(), exchanges_.end(),
                     [real](const auto& one) { return one.first.real == real; });
}

}  // namespace understudy
