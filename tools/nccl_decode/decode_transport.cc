// Messages between two ranks, which set up connections, and net_ib's exchange over TCP.
#include <algorithm>
#include <array>

#include "dataplane/base/text_format.h"
#include "tools/nccl_decode/decoder.h"

namespace understudy::nccl_decode {
namespace {

/// The part of a set-up tag that names the graph.
std::string graph_text(int part) {
  constexpr std::array kGraphs = {"send/recv",     "ring", "tree or PAT",
                                  "CollNet chain", "NVLS", "CollNet"};
  return part < static_cast<int>(kGraphs.size()) ? kGraphs[static_cast<size_t>(part)]
                                                 : "graph " + std::to_string(part);
}

constexpr int kSyncBit = 0x80;

struct TagName {
  uint32_t tag;
  const char* text;
};
constexpr std::array kTags = {
    TagName{1U << 31, "connect"},
    TagName{1U << 30, "all-gather"},
    TagName{1U << 29, "split"},
    TagName{1U << 28, "all-gather within the node"},
    TagName{1U << 27, "grow"},
    TagName{0xfffffffe, "split"},
    TagName{0xbeef, "barrier of windows"},
};

}  // namespace

void Decoder::message(Stream& stream, Work& work) {
  const auto& frames = work.sides[0].frames;
  if (frames.empty() || !work.sides[1].frames.empty()) return;
  size_t header = 0;
  int rank = 0, tag = 0;
  if (frames[0].bytes == 8 && frames[0].whole() && frames.size() <= 2) {
    header = 1;
    rank = i32_at(frames[0].payload, 0);
    tag = i32_at(frames[0].payload, 4);
    narrow([](const Layout& l) { return !l.split_header; });
  } else if (frames[0].bytes == 4 && frames.size() >= 2 && frames[1].bytes == 4 &&
             frames[1].whole() && frames.size() <= 3) {
    header = 2;
    rank = i32_at(frames[0].payload, 0);
    tag = i32_at(frames[1].payload, 0);
    narrow([](const Layout& l) { return l.split_header; });
  } else {
    return;
  }
  stream.kind = StreamKind::kMessage;
  stream.opener_rank = rank;
  stream.tag = tag;
  const auto to = message_listeners_.find(stream.connection.taker);
  const auto to_ring = ring_listeners_.find(stream.connection.taker);
  if (to != message_listeners_.end()) {
    stream.taker_rank = to->second.rank;
  } else if (header == 2 && to_ring != ring_listeners_.end()) {
    stream.taker_rank = to_ring->second.rank;
  }
  const Frame& last = frames[header - 1];
  Message& head = add(stream, 0, frames[0].begin, last.end(), "header");
  head.fields.push_back({"rank", std::to_string(rank), FieldKind::kValue});
  head.fields.push_back(
      {"tag", format_text("0x%x", static_cast<unsigned>(tag)), FieldKind::kValue});
  std::string what = "data";
  const auto named = std::find_if(kTags.begin(), kTags.end(), [&](const TagName& name) {
    return name.tag == static_cast<uint32_t>(tag);
  });
  const bool whole = frames.size() > header && frames[header].whole();
  const uint32_t size = frames.size() > header ? frames[header].bytes : 0;
  if (named != kTags.end()) {
    what = named->text;
  } else if (tag >= 256) {
    const bool sync = (tag & kSyncBit) != 0 || (whole && size == 4);
    what = (sync ? "ready with " : "set-up of ") + graph_text(tag & 0x7f) + " at distance " +
           std::to_string(tag >> 8);
  } else {
    what = "tag " + std::to_string(tag);
  }
  stream.about = rank_text(rank) +
                 (stream.taker_rank ? " to " + rank_text(*stream.taker_rank) : std::string()) +
                 ": " + what;
  if (frames.size() > header) {
    const Frame& frame = frames[header];
    Message& body = add(stream, 0, frame, what + " (" + std::to_string(size) + " bytes)");
    if (frame.whole()) payload_fields(stream, body, frame.payload, tag);
  }
  unknown_rest(stream, 0, work.sides[0].rest);
}

void Decoder::payload_fields(Stream& stream, Message& message, Bytes payload, int tag) {
  const bool split = tag == 1 << 29 || tag == -2;
  if (split && payload.size() >= kAddressBytes) {
    message.fields = describe_ring_address(payload);
    return;
  }
  if (tag >= 256 && !payload.empty() && payload.size() % kSetupBytes == 0) {
    for (size_t i = 0; i * kSetupBytes < payload.size(); ++i) {
      const Bytes entry = payload.subspan(i * kSetupBytes, kSetupBytes);
      const std::string name = "entry" + std::to_string(i) + ".";
      for (Field& field : describe_setup(entry)) {
        field.name = name + field.name;
        message.fields.push_back(std::move(field));
      }
      const auto listener = address_at(entry, 0);
      if (u64_at(entry, 32) != kIbMagic || !listener) continue;
      Expected expected;
      expected.receiver = {*stream.magic, *stream.opener_rank};
      expected.sender = stream.taker_rank.value_or(-1);
      expected.tag = tag;
      expected.entry = static_cast<int>(i);
      ib_listeners_[*listener] = expected;
    }
    return;
  }
  if (!payload.empty()) {
    message.fields.push_back({"bytes", hex_text(payload, 64), FieldKind::kUnknown});
  }
}

void Decoder::net_ib(Stream& stream) {
  const auto expected = ib_listeners_.find(stream.connection.taker);
  stream.about = "net_ib";
  if (expected != ib_listeners_.end()) {
    const Expected& e = expected->second;
    if (e.sender >= 0) stream.opener_rank = e.sender;
    stream.taker_rank = e.receiver.rank;
    stream.about += ", " + (e.sender >= 0 ? rank_text(e.sender) : std::string("a rank")) +
                    " sends to " + rank_text(e.receiver.rank) + " (" + graph_text(e.tag & 0x7f) +
                    " at distance " + std::to_string(e.tag >> 8) + ", entry " +
                    std::to_string(e.entry) + ")";
  }
  const Bytes sender = stream.connection.sides[0].bytes;
  const Bytes receiver = stream.connection.sides[1].bytes;
  // What was sent fits one release's sizes, whole; or, while it is under way, the likely one's.
  const auto fits = [&](const Layout& l) {
    const auto whole = static_cast<size_t>(l.ib.list_bytes + l.ib.bytes);
    return sender.size() == kHandshakeBytes + whole + 4 ||
           (sender.size() == kHandshakeBytes + whole && receiver.size() <= whole);
  };
  const Layout* layout = layout_where(fits);
  if (layout != nullptr) {
    narrow(fits);
  } else if (release_) {
    layout = layout_of(*release_);
  }
  if (layout == nullptr) {
    unknown_rest(stream, 0, kHandshakeBytes);
    unknown_rest(stream, 1, 0);
    return;
  }
  for (size_t side = 0; side < 2; ++side) {
    const Bytes bytes = side == 0 ? sender : receiver;
    uint64_t at = side == 0 ? kHandshakeBytes : 0;
    // One part of a known size, or what has come of it.
    const auto part = [&](int size, const char* what, auto describe) {
      if (size == 0 || at >= bytes.size()) return;
      const auto left = std::min<uint64_t>(static_cast<uint64_t>(size), bytes.size() - at);
      Message& message = add(stream, side, at, at + left, what);
      message.whole = left == static_cast<uint64_t>(size);
      if (message.whole) {
        message.fields = describe(bytes.subspan(at, left));
      } else {
        message.what += ", " + std::to_string(left) + " of " + std::to_string(size) + " bytes";
      }
      at += left;
    };
    part(layout->ib.list_bytes, "devices", [](Bytes b) { return describe_device_list(b); });
    part(layout->ib.bytes, "metadata", [&](Bytes b) { return describe_ib(b, layout->ib); });
    if (side == 0) {
      part(4, "ready", [](Bytes b) {
        return Fields{{"ready", std::to_string(i32_at(b, 0)), FieldKind::kValue}};
      });
    }
    unknown_rest(stream, side, at);
  }
}

}  // namespace understudy::nccl_decode
