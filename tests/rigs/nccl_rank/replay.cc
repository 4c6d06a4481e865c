#include "tests/rigs/nccl_rank/replay.h"

#include <algorithm>
#include <utility>

namespace understudy::nccl_rank {
namespace {

using nccl_decode::Endpoint;
using nccl_decode::Field;
using nccl_decode::FieldKind;
using nccl_decode::Fields;
using nccl_decode::GatherKind;
using nccl_decode::Message;
using nccl_decode::Stream;
using nccl_decode::StreamKind;

SocketAddress socket_address(const Endpoint& e) { return {e.address, e.port}; }

bool is_zero(const std::string& value) { return value == "0" || value == "0x0" || value == "none"; }

/// Which end is the real rank's (its root's): 0 the opener's, 1 the taker's.
std::optional<size_t> real_side(const Stream& stream) {
  const bool opener = stream.opener_rank == 0, taker = stream.taker_rank == 0;
  switch (stream.kind) {
    case StreamKind::kCheckIn:
      return opener ? std::nullopt : std::optional<size_t>(1);
    case StreamKind::kRootAnswer:
      return taker ? std::nullopt : std::optional<size_t>(0);
    case StreamKind::kRing:
    case StreamKind::kMessage:
    case StreamKind::kNetIb:
      if (opener == taker) return std::nullopt;
      return opener ? 0 : 1;
    default:
      return std::nullopt;
  }
}

/// The fields of a reply, read as the recorded one was.
Fields describe(const Stream& stream, const Message& message, std::span<const uint8_t> bytes,
                const nccl_decode::Layout& layout) {
  if (message.what == "devices") return nccl_decode::describe_device_list(bytes);
  if (message.what == "metadata") return nccl_decode::describe_ib(bytes, layout.ib);
  const auto payload = bytes.subspan(std::min<size_t>(4, bytes.size()));
  const auto one = [](const std::string& name, std::span<const uint8_t> raw, FieldKind kind) {
    return Fields{{name, nccl_decode::hex_text(raw, 512), kind}};
  };
  if (message.what == "handshake" || message.what == "header" || message.what == "ready") {
    return one("bytes", bytes, FieldKind::kValue);
  }
  if (stream.kind == StreamKind::kCheckIn) return nccl_decode::describe_check_in(payload, layout);
  if (message.gather) {
    switch (*message.gather) {
      case GatherKind::kAddresses:
        return nccl_decode::describe_addresses(payload, layout);
      case GatherKind::kPeerInfo:
        return nccl_decode::describe_peer_info(payload, layout.peer);
      case GatherKind::kGraphInfo:
        return nccl_decode::describe_graph_info(payload, layout.graph);
      default:
        return one("bytes", payload, FieldKind::kValue);
    }
  }
  Fields out;
  for (size_t at = 0; at + nccl_decode::kSetupBytes <= payload.size();
       at += nccl_decode::kSetupBytes) {
    const auto entry = nccl_decode::describe_setup(payload.subspan(at, nccl_decode::kSetupBytes));
    out.insert(out.end(), entry.begin(), entry.end());
  }
  return out.empty() ? one("bytes", payload, FieldKind::kValue) : out;
}

}  // namespace

Replay::Replay(nccl_decode::Exchange exchange) : exchange_(std::move(exchange)) {
  NcclCommunicatorSettings settings;
  settings.version.minor = static_cast<uint32_t>(exchange_.release->minor);
  settings.id.magic = exchange_.communicators.at(0).magic;
  for (const Stream& stream : exchange_.streams) {
    if (stream.kind != StreamKind::kCheckIn) continue;
    settings.id.root = socket_address(stream.connection.taker);
  }
  for (int rank = 0; rank < exchange_.communicators[0].ranks; ++rank) {
    settings.ranks.push_back({rank == 0, static_cast<uint32_t>(rank)});
  }
  communicator_ = std::make_unique<NcclCommunicator>(settings, *this);
  // The GID that the real rank's metadata tell.
  for (const Stream& stream : exchange_.streams) {
    for (const Message& message : stream.messages) {
      if (stream.kind != StreamKind::kNetIb || real_side(stream) != 0 || !message.from_opener) {
        continue;
      }
      for (const Field& field : message.fields) {
        if (field.name == "device0.gid") real_gid_ = *IpAddress::parse(field.value);
      }
    }
  }
}

void Replay::run() {
  std::vector<Event> events;
  for (size_t i = 0; i < exchange_.streams.size(); ++i) {
    const Stream& stream = exchange_.streams[i];
    const auto real = real_side(stream);
    if (!real) continue;
    Event event;
    event.stream = i;
    event.packet = stream.connection.packet;
    event.real = *real == 0;
    events.push_back(event);
    const auto& ours = stream.connection.sides[1 - *real];
    const auto& theirs = stream.connection.sides[*real];
    // What the real rank said as it said it; what we say message by message.
    event.real = true;
    event.kind = Event::Kind::kBytes;
    for (const auto& mark : theirs.marks) {
      event.begin = std::exchange(event.end, mark.end);
      event.packet = mark.packet;
      events.push_back(event);
    }
    event.kind = Event::Kind::kClose;
    event.packet = theirs.ended.packet;
    if (theirs.finished) events.push_back(event);
    event.real = false;
    // A connection that carries one message is closed by who has opened it.
    event.packet = ours.ended.packet;
    const bool single = stream.kind == StreamKind::kCheckIn || stream.kind == StreamKind::kMessage;
    if (ours.finished && *real == 1 && single) events.push_back(event);
    event.kind = Event::Kind::kMessage;
    for (size_t m = 0; m < stream.messages.size(); ++m) {
      if (stream.messages[m].from_opener == (*real == 0)) continue;
      event.message = m;
      event.packet = stream.messages[m].packet;
      events.push_back(event);
    }
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return a.packet < b.packet; });
  communicator_->start(now_);
  for (const Event& event : events) {
    now_ = now_ + Duration::us(1);
    connect_dialled();
    if (event.real) {
      play(event);
    } else if (!check(event)) {
      pending_.push_back(event);
      ++late_;
    }
    connect_dialled();
    std::erase_if(pending_, [this](const Event& waiting) { return check(waiting); });
  }
  for (const Event& event : pending_) {
    const Stream& stream = exchange_.streams[event.stream];
    differ("no reply: " + stream.about + ", " +
           (event.kind == Event::Kind::kMessage ? stream.messages[event.message].what
            : event.kind == Event::Kind::kOpen  ? std::string("its connection")
                                                : std::string("its end")));
  }
  for (const auto& ours : ours_) {
    if (!ours->stream) {
      differ("rank " + std::to_string(ours->rank) + " has dialled " + ours->dialled->text() +
             ", which is not in the recording");
      continue;
    }
    const Stream& stream = exchange_.streams[*ours->stream];
    const size_t wanted = stream.connection.sides[1 - *real_side(stream)].bytes.size();
    if (ours->sent.size() != wanted) {
      differ(stream.about + ": " + std::to_string(ours->sent.size()) + " bytes instead of " +
             std::to_string(wanted));
    }
  }
}

Replay::Ours* Replay::ours_of(size_t stream) {
  for (const auto& ours : ours_) {
    if (ours->stream == stream) return ours.get();
  }
  return match(stream);
}

/// A connection that we have dialled and that is the recorded one.
Replay::Ours* Replay::match(size_t number) {
  const Stream& stream = exchange_.streams[number];
  if (real_side(stream) != 1) return nullptr;
  for (const auto& ours : ours_) {
    if (ours->stream || ours->dialled != socket_address(stream.connection.taker) ||
        static_cast<int>(ours->rank) != *stream.opener_rank) {
      continue;
    }
    if (stream.kind == StreamKind::kMessage) {
      const auto header = std::find_if(stream.messages.begin(), stream.messages.end(),
                                       [](const Message& m) { return m.what == "header"; });
      const auto& recorded = stream.connection.sides[0].bytes;
      if (ours->sent.size() < header->end ||
          !std::equal(recorded.begin(), recorded.begin() + static_cast<ptrdiff_t>(header->end),
                      ours->sent.begin())) {
        continue;
      }
    }
    ours->stream = number;
    return ours.get();
  }
  return nullptr;
}

/// Listeners of the recorded real rank stand.
void Replay::connect_dialled() {
  for (size_t i = 0; i < ours_.size(); ++i) {
    Ours& ours = *ours_[i];
    if (!ours.dialled || std::exchange(ours.told_connected, true)) continue;
    if (ours.ib == nullptr) {
      communicator_->on_connected(now_, ours.id);
    } else {
      ours.ib->on_connected(now_);
      serve(ours);
    }
  }
}

void Replay::play(const Event& event) {
  const Stream& stream = exchange_.streams[event.stream];
  const bool data = stream.kind == StreamKind::kNetIb;
  if (event.kind == Event::Kind::kOpen) {
    const std::string to = map_address(stream.connection.taker.text());
    auto ours = std::make_unique<Ours>();
    ours->id = ++last_id_;
    ours->stream = event.stream;
    ours->rank = static_cast<uint32_t>(*stream.taker_rank);
    const StreamId id = ours->id;
    if (data) {
      const auto expected = std::find_if(expected_.begin(), expected_.end(),
                                         [&](const auto& one) { return one.first.text() == to; });
      if (expected == expected_.end()) return differ(stream.about + ": nobody listens at " + to);
      ours->ib = make_peer(expected->second);
      ours_.push_back(std::move(ours));
      return;
    }
    ours_.push_back(std::move(ours));
    const auto found = std::find_if(listeners_.begin(), listeners_.end(),
                                    [&](const auto& one) { return one.first.text() == to; });
    if (found == listeners_.end()) {
      differ(stream.about + ": the real rank dials " + to + ", where nobody listens");
    } else {
      communicator_->on_accepted(now_, found->second, id, socket_address(stream.connection.opener));
    }
    return;
  }
  Ours* ours = ours_of(event.stream);
  if (ours == nullptr) {
    differ(stream.about + ": the real rank answers before we have asked");
    return;
  }
  if (data) {
    if (event.kind == Event::Kind::kClose) {
      ours->ib->on_closed(now_);
    } else {
      const auto& sent = stream.connection.sides[*real_side(stream)].bytes;
      ours->ib->on_bytes(now_, std::span(sent).subspan(event.begin, event.end - event.begin));
    }
    return serve(*ours);
  }
  if (event.kind == Event::Kind::kClose) {
    if (!ours->closed) communicator_->on_closed(now_, ours->id, "closed by the other side");
    ours->closed = true;
    return;
  }
  const auto bytes = translated(stream, event);
  if (!ours->closed) communicator_->on_bytes(now_, ours->id, bytes);
}

/// What the real rank said, with our addresses in the place of recorded ones, and what it passes on
/// of us as we said it.
std::vector<uint8_t> Replay::translated(const Stream& stream, const Event& event) const {
  const size_t side = *real_side(stream);
  const auto& all = stream.connection.sides[side].bytes;
  std::vector<uint8_t> out(all.begin() + static_cast<ptrdiff_t>(event.begin),
                           all.begin() + static_cast<ptrdiff_t>(event.end));
  for (const Message& message : stream.messages) {
    if (message.from_opener != (side == 0) || message.end <= event.begin ||
        message.begin >= event.end) {
      continue;
    }
    std::vector<uint8_t> whole(all.begin() + static_cast<ptrdiff_t>(message.begin),
                               all.begin() + static_cast<ptrdiff_t>(message.end));
    if (stream.kind == StreamKind::kRootAnswer && message.what != "handshake") {
      const auto recorded = nccl_decode::address_at(whole, 4);
      const auto found = addresses_.find(recorded->text());
      if (found != addresses_.end()) {
        const uint16_t port =
            static_cast<uint16_t>(std::stoi(found->second.substr(found->second.rfind(':') + 1)));
        const auto address = IpAddress::parse(found->second.substr(0, found->second.rfind(':')));
        whole[6] = static_cast<uint8_t>(port >> 8);
        whole[7] = static_cast<uint8_t>(port);
        std::copy_n(address->v4_data(), 4, whole.begin() + 8);
      }
    }
    if (message.owner && *message.owner != 0) {
      const auto slice = slices_.find({message.gather_number, *message.owner});
      if (slice != slices_.end()) whole = slice->second;
    }
    for (uint64_t at = std::max(message.begin, event.begin); at < std::min(message.end, event.end);
         ++at) {
      out[at - event.begin] = whole.at(at - message.begin);
    }
  }
  return out;
}

bool Replay::check(const Event& event) {
  const Stream& stream = exchange_.streams[event.stream];
  Ours* ours = ours_of(event.stream);
  if (ours == nullptr) return false;
  if (event.kind == Event::Kind::kOpen) return true;
  if (event.kind == Event::Kind::kClose) return ours->closed;
  const Message& message = stream.messages[event.message];
  if (ours->sent.size() < message.end) return false;
  ++replies_;
  const std::string who = stream.about + ", " + message.what;
  const size_t side = 1 - *real_side(stream);
  const std::span recorded = std::span(stream.connection.sides[side].bytes)
                                 .subspan(message.begin, message.end - message.begin);
  const std::span said =
      std::span<const uint8_t>(ours->sent).subspan(message.begin, message.end - message.begin);
  if (message.gather && message.owner) {
    slices_[{message.gather_number, *message.owner}] = {said.begin(), said.end()};
  }
  if (message.what != "handshake" && message.what != "header" &&
      stream.kind != StreamKind::kNetIb &&
      !std::equal(recorded.begin(), recorded.begin() + 4, said.begin())) {
    differ(who + ": another length");
    return true;
  }
  const auto& layout = *nccl_decode::layout_of(*exchange_.release);
  const Fields a = describe(stream, message, recorded, layout);
  const Fields b = describe(stream, message, said, layout);
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const Field none{"nothing", "", FieldKind::kUnknown};
    const Field& x = i < a.size() ? a[i] : none;
    const Field& y = i < b.size() ? b[i] : none;
    // The recorded stand-ins wrote into channels that are not in use, which NCCL does not read.
    if (message.gather == GatherKind::kGraphInfo && x.kind == FieldKind::kUnknown &&
        y.kind == FieldKind::kUnknown) {
      continue;
    }
    const bool same = x.name == y.name && x.kind == y.kind;
    if (x.kind == FieldKind::kAddress && same) addresses_[x.value] = y.value;
    const bool equal =
        same && (x.kind == FieldKind::kAddress  ? true
                 : x.kind == FieldKind::kRandom ? is_zero(x.value) == is_zero(y.value)
                                                : x.value == y.value);
    if (!equal)
      differ(who + ": " + y.name + " " + y.value + " instead of " + x.name + " " + x.value);
  }
  return true;
}

std::unique_ptr<NetIbPeer> Replay::make_peer(const NcclConnector& connector) {
  NetIbSettings settings;
  settings.version.minor = static_cast<uint32_t>(exchange_.release->minor);
  settings.local = {IpAddress::v4(0x0a020000 + connector.emulated)};
  settings.real_addresses = {real_gid_};
  return std::make_unique<NetIbPeer>(connector, settings, seen_, *this);
}

/// What net_ib's machine says and asks for.
void Replay::serve(Ours& ours) {
  for (bool again = true; again;) {
    again = false;
    const auto output = ours.ib->take_output();
    ours.sent.insert(ours.sent.end(), output.begin(), output.end());
    for (const EndpointRequest& request : ours.ib->take_requests()) {
      again = true;
      EndpointReady ready;
      ready.qpn = request.reserved != 0 ? request.reserved : ++last_qpn_;
      ready.qpns = {ready.qpn};
      ready.address = uint64_t{ready.qpn} << 32;
      ready.rkey = ready.qpn + 1;
      ours.ib->on_endpoint(now_, ready);
    }
  }
  if (!ours.ib->failure().empty()) differ("net_ib: " + ours.ib->failure());
  for (const NcclConnector& connector : std::exchange(ready_, {})) {
    communicator_->on_connector_ready(now_, connector);
  }
}

std::string Replay::map_address(const std::string& recorded) const {
  const auto found = addresses_.find(recorded);
  return found == addresses_.end() ? recorded : found->second;
}

Result<SocketAddress> Replay::listen(uint32_t rank, ListenerId listener) {
  const SocketAddress at{IpAddress::v4(0x0a020000 + rank), ++last_port_};
  listeners_[at] = listener;
  return at;
}

void Replay::dial(uint32_t rank, const SocketAddress& to, StreamId stream) {
  auto ours = std::make_unique<Ours>();
  ours->id = stream;
  ours->rank = rank;
  ours->dialled = to;
  ours_.push_back(std::move(ours));
}

void Replay::send(StreamId stream, std::span<const uint8_t> bytes) {
  for (const auto& ours : ours_) {
    if (ours->id == stream) ours->sent.insert(ours->sent.end(), bytes.begin(), bytes.end());
  }
}

void Replay::close(StreamId stream) {
  for (const auto& ours : ours_) {
    if (ours->id == stream) ours->closed = true;
  }
}

Result<SocketAddress> Replay::expect(const NcclConnector& connector) {
  const SocketAddress at{IpAddress::v4(0x0a020000 + connector.emulated), ++last_port_};
  expected_[at] = connector;
  return at;
}

void Replay::connect(const NcclConnector& connector, const SocketAddress& listener, uint64_t) {
  auto ours = std::make_unique<Ours>();
  ours->id = ++last_id_;
  ours->rank = connector.emulated;
  ours->dialled = listener;
  ours->ib = make_peer(connector);
  ours_.push_back(std::move(ours));
}

}  // namespace understudy::nccl_rank
