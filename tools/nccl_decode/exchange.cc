#include "tools/nccl_decode/exchange.h"

#include <algorithm>
#include <array>

#include "dataplane/base/text_format.h"
#include "tools/nccl_decode/decoder.h"

namespace understudy::nccl_decode {
namespace {

constexpr std::array kKindNames = {"other",     "check-in", "root's answer", "ring",   "message",
                                   "bootstrap", "proxy",    "net_socket",    "net_ib", "ras"};

/// In the order of the packets that completed them.
void sort_messages(Stream& stream) {
  std::stable_sort(stream.messages.begin(), stream.messages.end(),
                   [](const Message& a, const Message& b) { return a.packet < b.packet; });
}

}  // namespace

const char* stream_kind_name(StreamKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

Message& Decoder::add(Stream& stream, size_t side, uint64_t begin, uint64_t end, std::string what) {
  const TcpSide& sent = stream.connection.sides[side];
  const auto& mark = sent.mark(std::max<uint64_t>(end, 1));
  Message message;
  message.from_opener = side == 0;
  message.begin = begin;
  message.end = end;
  message.packet = mark.packet;
  message.at = mark.at;
  message.what = std::move(what);
  stream.messages.push_back(std::move(message));
  return stream.messages.back();
}

Message& Decoder::add(Stream& stream, size_t side, const Frame& frame, const std::string& what) {
  Message& message = add(stream, side, frame.begin, frame.end(), what);
  message.whole = frame.whole();
  if (!message.whole) {
    message.what += ", " + std::to_string(frame.payload.size()) + " of " +
                    std::to_string(frame.bytes) + " bytes";
  }
  return message;
}

void Decoder::unknown_rest(Stream& stream, size_t side, uint64_t from) {
  const Bytes bytes = stream.connection.sides[side].bytes;
  if (from >= bytes.size()) return;
  Message& message = add(stream, side, from, bytes.size(),
                         std::to_string(bytes.size() - from) + " bytes that are not understood");
  message.fields.push_back({"bytes", hex_text(bytes.subspan(from), 64), FieldKind::kUnknown});
}

void Decoder::narrow(const std::function<bool(const Layout&)>& fits) {
  uint32_t left = 0;
  for (size_t i = 0; i < layouts().size(); ++i) {
    if ((candidates_ >> i & 1) != 0 && fits(layouts()[i])) left |= 1U << i;
  }
  if (left != 0) candidates_ = left;  // structures that do not go together say nothing
}

const Layout* Decoder::layout_where(const std::function<bool(const Layout&)>& fits) const {
  const Layout* any = nullptr;
  for (size_t i = 0; i < layouts().size(); ++i) {
    if (!fits(layouts()[i])) continue;
    const bool likely =
        release_ ? layouts()[i].release.minor == release_->minor : (candidates_ >> i & 1) != 0;
    if (likely) return &layouts()[i];
    any = &layouts()[i];
  }
  return any;
}

Communicator& Decoder::communicator(uint64_t magic) {
  for (Communicator& known : out_.communicators) {
    if (known.magic == magic) return known;
  }
  out_.communicators.push_back({magic, 0, {}});
  return out_.communicators.back();
}

void Decoder::open_stream(TcpConnection&& connection) {
  Stream stream;
  stream.connection = std::move(connection);
  const auto hello = handshake_of(stream.connection.sides[0].bytes);
  Work work;
  if (hello) {
    constexpr std::array kTypes = {StreamKind::kBootstrap, StreamKind::kProxy,
                                   StreamKind::kNetSocket, StreamKind::kNetIb, StreamKind::kRas};
    stream.magic = hello->magic;
    stream.type = hello->type;
    stream.kind = kTypes[static_cast<size_t>(hello->type - 1)];
    Message& message = add(stream, 0, 0, kHandshakeBytes, "handshake");
    message.fields.push_back({"magic",
                              format_text("0x%llx", static_cast<unsigned long long>(hello->magic)),
                              hello->type == 4 ? FieldKind::kValue : FieldKind::kRandom});
    message.fields.push_back({"type", std::to_string(hello->type), FieldKind::kValue});
    if (hello->type == 1) {
      work.sides[0] = frames_of(stream.connection.sides[0].bytes, kHandshakeBytes);
      work.sides[1] = frames_of(stream.connection.sides[1].bytes, 0);
    }
  }
  out_.streams.push_back(std::move(stream));
  work_.push_back(std::move(work));
}

void Decoder::name_release() {
  if (release_) {
    out_.release = release_;
    return;
  }
  constexpr uint32_t kAll = (1U << 13) - 1;
  if (candidates_ == kAll) return;
  std::string first, last;
  for (size_t i = 0; i < layouts().size(); ++i) {
    if ((candidates_ >> i & 1) == 0) continue;
    last = "2." + std::to_string(layouts()[i].release.minor);
    if (first.empty()) first = last;
    out_.release = layouts()[i].release;
  }
  out_.release_from = "sizes, which are those of " + first + (first == last ? "" : " to " + last);
}

Exchange Decoder::run(std::vector<TcpConnection> connections) {
  for (TcpConnection& connection : connections) open_stream(std::move(connection));
  each(StreamKind::kBootstrap, [this](Stream& s, Work& w) { check_in(s, w); });
  each(StreamKind::kBootstrap, [this](Stream& s, Work& w) { root_answer(s, w); });
  each(StreamKind::kBootstrap, [this](Stream& s, Work& w) { ring(s, w); });
  each(StreamKind::kBootstrap, [this](Stream& s, Work& w) { message(s, w); });
  each(StreamKind::kNetIb, [this](Stream& s, Work&) { net_ib(s); });
  for (size_t i = 0; i < out_.streams.size(); ++i) {
    Stream& stream = out_.streams[i];
    const bool opaque = stream.kind == StreamKind::kProxy || stream.kind == StreamKind::kRas ||
                        stream.kind == StreamKind::kNetSocket;
    for (size_t side = 0; side < 2; ++side) {
      const uint64_t size = stream.connection.sides[side].bytes.size();
      const uint64_t from = side == 0 ? kHandshakeBytes : 0;
      if (opaque && size > from)
        add(stream, side, from, size, std::to_string(size - from) + " bytes");
      if (stream.kind == StreamKind::kBootstrap) unknown_rest(stream, side, from);
    }
    if (stream.kind == StreamKind::kProxy) stream.about = "a rank and its node's proxy";
    sort_messages(stream);
  }
  name_release();
  find_open_ends();
  return std::move(out_);
}

Exchange decode(std::vector<TcpConnection> connections, const DecodeOptions& options) {
  return Decoder(options).run(std::move(connections));
}

}  // namespace understudy::nccl_decode
