// Check-in, the root's answers and the rings of all-gathers.
#include <algorithm>

#include "tools/nccl_decode/decoder.h"

namespace understudy::nccl_decode {
namespace {

constexpr int kMostRanks = 1 << 20;

const char* gather_name(GatherKind kind) {
  switch (kind) {
    case GatherKind::kListener:
      return "listener's address";
    case GatherKind::kProxy:
      return "proxy's address";
    case GatherKind::kUds:
      return "UDS";
    case GatherKind::kAddresses:
      return "addresses";
    case GatherKind::kPeerInfo:
      return "peer info";
    case GatherKind::kGraphInfo:
      return "graph info";
    case GatherKind::kRingInfo:
      return "ring info";
    case GatherKind::kSplit:
      return "split";
    case GatherKind::kOther:
      return "unknown";
  }
  return "";
}

/// Steps of one all-gather in which the opener's and the taker's side send a frame.
std::array<int, 2> steps_of(int ranks, bool two_way) {
  if (!two_way) return {ranks - 1, 0};
  return {ranks / 2, (ranks - 1) / 2};
}

}  // namespace

void Decoder::check_in(Stream& stream, Work& work) {
  const auto& frames = work.sides[0].frames;
  if (frames.size() != 1 || !work.sides[1].frames.empty() || !frames[0].whole()) return;
  const Bytes payload = frames[0].payload;
  const auto fits = [&](const Layout& l) {
    return l.check_in_bytes == static_cast<int>(payload.size());
  };
  const Layout* layout = layout_where(fits);
  if (layout == nullptr) return;
  const int rank = i32_at(payload, 0), ranks = i32_at(payload, 4);
  // 64 bytes are also the first all-gather of 2.23, with an address here.
  if (rank < 0 || ranks <= rank || ranks > kMostRanks) return;
  narrow(fits);
  stream.kind = StreamKind::kCheckIn;
  stream.opener_rank = rank;
  stream.about = rank_text(rank) + " of " + std::to_string(ranks) + " checks in with the root";
  add(stream, 0, frames[0], "check-in").fields = describe_check_in(payload, *layout);
  unknown_rest(stream, 0, work.sides[0].rest);
  Communicator& comm = communicator(*stream.magic);
  comm.ranks = ranks;
  comm.checked_in.push_back(rank);
  const auto at = [&](int offset) { return address_at(payload, static_cast<size_t>(offset)); };
  if (const auto to = at(layout->check_in_listener)) {
    answer_listeners_[*to] = {*stream.magic, rank};
  }
  if (const auto ring = at(layout->check_in_ring)) ring_listeners_[*ring] = {*stream.magic, rank};
}

void Decoder::root_answer(Stream& stream, Work& work) {
  const auto& frames = work.sides[0].frames;
  const auto known = answer_listeners_.find(stream.connection.taker);
  const bool single = frames.size() == 1 && frames[0].whole() && work.sides[1].frames.empty() &&
                      (frames[0].bytes == 28 || frames[0].bytes == 128) &&
                      address_at(frames[0].payload, 0).has_value();
  // Where the check-in was not captured: the first frame of a ring that stands looks the same.
  const bool alone = single && stream.connection.sides[0].finished &&
                     !ring_listeners_.contains(stream.connection.taker);
  if (known == answer_listeners_.end() && !alone) return;
  stream.kind = StreamKind::kRootAnswer;
  stream.about = "the root answers";
  std::optional<int> next;
  if (known != answer_listeners_.end()) {
    stream.taker_rank = known->second.rank;
    stream.about += " " + rank_text(known->second.rank);
    const int ranks = communicator(known->second.magic).ranks;
    if (ranks > 0) next = (known->second.rank + 1) % ranks;
  }
  for (const Frame& frame : frames) {
    Message& message =
        add(stream, 0, frame,
            next ? "ring listener of " + rank_text(*next) : "next rank's ring listener");
    message.fields = describe_ring_address(frame.payload);
    const auto ring = address_at(frame.payload, 0);
    if (frame.whole() && ring && next) ring_listeners_[*ring] = {*stream.magic, *next};
  }
  unknown_rest(stream, 0, work.sides[0].rest);
}

GatherKind Decoder::gather_kind(const Frame& frame, int number) const {
  const Bytes payload = frame.payload;
  const auto size = static_cast<int>(frame.bytes);
  const auto family = i32_at(payload, 0) & 0xffff;
  const bool address = (family == 2 || family == 10) && i32_at(payload, 0) > 0xffff;
  const auto any = [&](auto member) {
    return std::any_of(layouts().begin(), layouts().end(),
                       [&](const Layout& l) { return member(l) == size; });
  };
  if (size == 28) return number == 1 ? GatherKind::kProxy : GatherKind::kListener;
  if (any([](const Layout& l) { return l.graph.bytes; })) return GatherKind::kGraphInfo;
  const bool addresses = any([](const Layout& l) { return l.addresses_bytes; });
  // The sizes of addresses and peer infos overlap; their first bytes do not: a rank, or an address
  // family and a port.
  if (any([](const Layout& l) { return l.peer.bytes; }) &&
      !(addresses && (address || number == 0))) {
    return GatherKind::kPeerInfo;
  }
  if (addresses) return GatherKind::kAddresses;
  if (size == 2) return GatherKind::kRingInfo;
  const bool old = (candidates_ & 0x1f) != 0 && (candidates_ & ~0x1fU) == 0;
  if (size == 8 && number == 2 && old) return GatherKind::kUds;
  if (size == 8 || (size == 4 && old)) return GatherKind::kSplit;
  return GatherKind::kOther;
}

void Decoder::learn_ring(Stream& stream, const Work& work) {
  const uint64_t magic = *stream.magic;
  Communicator& comm = communicator(magic);
  // A capture without check-ins, or a child: the opener's own peer info is the first that it
  // sends, and before it came one frame for each other rank, from both sides together.
  std::array<int, 2> before = {0, 0};
  std::array<std::optional<int>, 2> own;
  for (size_t side = 0; side < 2; ++side) {
    for (const Frame& frame : work.sides[side].frames) {
      const auto kind = gather_kind(frame, -1);
      if (kind == GatherKind::kPeerInfo && frame.whole()) {
        own[side] = i32_at(frame.payload, 0);
        break;
      }
      if (kind == GatherKind::kAddresses) ++before[side];
    }
  }
  if (comm.ranks == 0 && own[0] && before[0] > 0) comm.ranks = before[0] + before[1] + 1;
  const auto taker = ring_listeners_.find(stream.connection.taker);
  if (taker != ring_listeners_.end() && taker->second.magic == magic && comm.ranks > 0) {
    stream.taker_rank = taker->second.rank;
    stream.opener_rank = (taker->second.rank + comm.ranks - 1) % comm.ranks;
  } else if (own[0] && comm.ranks > 0 && *own[0] >= 0 && *own[0] < comm.ranks) {
    stream.opener_rank = own[0];
    stream.taker_rank = (*own[0] + 1) % comm.ranks;
  }
}

void Decoder::ring(Stream& stream, Work& work) {
  const auto& sent = work.sides[0].frames;
  const bool known = ring_listeners_.contains(stream.connection.taker);
  // Up to 2.22 messages between ranks come to the same listener; they begin with 4 bytes.
  const uint32_t first = sent.empty() ? 0 : sent[0].bytes;
  if (first == 4 || first == 8) return;
  if (sent.empty() ? !known : !known && work.sides[1].frames.empty() && sent.size() < 2) return;
  if (sent.empty() && message_listeners_.contains(stream.connection.taker)) return;
  stream.kind = StreamKind::kRing;
  stream.about = "ring";
  learn_ring(stream, work);
  const int ranks = communicator(*stream.magic).ranks;
  if (stream.opener_rank) {
    stream.about += ", " + rank_text(*stream.opener_rank) + " to " + rank_text(*stream.taker_rank);
  }
  const bool two_way = !work.sides[1].frames.empty();
  const auto steps = steps_of(ranks, two_way);
  for (size_t side = 0; side < 2; ++side) {
    for (size_t i = 0; i < work.sides[side].frames.size(); ++i) {
      const Frame& frame = work.sides[side].frames[i];
      const int per = steps[side];
      const int number = ranks > 1 && per > 0 ? static_cast<int>(i) / per : -1;
      const GatherKind kind = gather_kind(frame, number);
      std::string what;
      std::optional<int> owner;
      if (number >= 0) {
        const int step = static_cast<int>(i) % per;
        what = "all-gather " + std::to_string(number) + ", ";
        const auto rank = side == 0 ? stream.opener_rank : stream.taker_rank;
        if (rank) owner = side == 0 ? (*rank - step + ranks) % ranks : (*rank + step) % ranks;
      }
      what += gather_name(kind);
      if (owner) what += " of " + rank_text(*owner);
      Message& message = add(stream, side, frame, what);
      message.gather = kind;
      message.gather_number = number;
      message.owner = owner;
      if (frame.whole()) gather_fields(message, frame.payload);
      const bool listener = kind == GatherKind::kAddresses || kind == GatherKind::kListener;
      const auto address = address_at(frame.payload, 0);
      if (listener && owner && address) message_listeners_[*address] = {*stream.magic, *owner};
    }
    unknown_rest(stream, side, work.sides[side].rest);
  }
}

void Decoder::gather_fields(Message& message, Bytes payload) {
  const auto size = static_cast<int>(payload.size());
  switch (*message.gather) {
    case GatherKind::kListener:
    case GatherKind::kProxy: {
      narrow([](const Layout& l) { return l.addresses_bytes == 28; });
      const auto address = address_at(payload, 0);
      message.fields.push_back(
          {"address", address ? address->text() : "none", FieldKind::kAddress});
      break;
    }
    case GatherKind::kAddresses: {
      const auto fits = [size](const Layout& l) { return l.addresses_bytes == size; };
      narrow(fits);
      message.fields = describe_addresses(payload, *layout_where(fits));
      break;
    }
    case GatherKind::kPeerInfo: {
      const auto fits = [size](const Layout& l) { return l.peer.bytes == size; };
      const auto with_version = [&](const Layout& l) {
        return fits(l) && l.peer.version != kAbsent &&
               u32_at(payload, static_cast<size_t>(l.peer.version)) != 0;
      };
      narrow(fits);
      const Layout* layout = layout_where(with_version);
      if (layout != nullptr) {
        const auto version =
            Release::from_code(i32_at(payload, static_cast<size_t>(layout->peer.version)));
        if (version && layout_of(*version) != nullptr && !release_) {
          release_ = version;
          out_.release_from = "its peer info";
        }
      }
      if (layout == nullptr) layout = layout_where(fits);
      message.fields = describe_peer_info(payload, layout->peer);
      break;
    }
    case GatherKind::kGraphInfo: {
      const auto fits = [size](const Layout& l) { return l.graph.bytes == size; };
      narrow(fits);
      message.fields = describe_graph_info(payload, layout_where(fits)->graph);
      break;
    }
    case GatherKind::kRingInfo:
      message.fields.push_back({"proxies", std::to_string(payload[0]), FieldKind::kValue});
      message.fields.push_back({"gdr", std::to_string(payload[1]), FieldKind::kValue});
      break;
    case GatherKind::kSplit:
      if (size == 8) {
        message.fields.push_back({"key", std::to_string(i32_at(payload, 0)), FieldKind::kValue});
        message.fields.push_back({"color", std::to_string(i32_at(payload, 4)), FieldKind::kValue});
      } else {
        message.fields.push_back(
            {"color_or_key", std::to_string(i32_at(payload, 0)), FieldKind::kValue});
      }
      break;
    case GatherKind::kUds:
      message.fields.push_back({"uds", hex_text(payload), FieldKind::kRandom});
      break;
    case GatherKind::kOther:
      message.fields.push_back({"bytes", hex_text(payload, 64), FieldKind::kUnknown});
      break;
  }
}

}  // namespace understudy::nccl_decode
