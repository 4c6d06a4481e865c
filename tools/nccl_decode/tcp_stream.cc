#include "tools/nccl_decode/tcp_stream.h"

#include <algorithm>

namespace understudy::nccl_decode {

std::string Endpoint::text() const {
  const std::string ip = address.text();
  return (address.is_v4() ? ip : "[" + ip + "]") + ":" + std::to_string(port);
}

const TcpSide::Mark& TcpSide::mark(uint64_t end) const {
  return *std::lower_bound(marks.begin(), marks.end(), end,
                           [](const Mark& mark, uint64_t wanted) { return mark.end < wanted; });
}

TcpReassembler::Entry& TcpReassembler::entry_of(const TcpSegment& segment, size_t& side) {
  const auto forth = latest_.find({segment.from, segment.to});
  const auto back = latest_.find({segment.to, segment.from});
  auto found = forth != latest_.end() ? forth : back;
  if (found != latest_.end()) {
    Entry& entry = entries_[found->second];
    side = entry.connection.opener == segment.from ? 0 : 1;
    const TcpSide& sent = entry.connection.sides[side];
    const Reading& reading = entry.readings[side];
    // Another SYN on the same ports is the next connection, the same one a repetition.
    const bool again =
        segment.syn && sent.seen && !(sent.begun && reading.base == segment.sequence + 1);
    if (!again || segment.ack) return entry;
    latest_.erase(found);
  }
  Entry entry;
  // Who accepts answers SYN with SYN and ACK; of a connection whose begin is missing the first to
  // speak is taken for its opener, as in NCCL it is.
  const bool answer = segment.syn && segment.ack;
  entry.connection.opener = answer ? segment.to : segment.from;
  entry.connection.taker = answer ? segment.from : segment.to;
  entry.connection.at = segment.at;
  entry.connection.packet = segment.packet;
  side = answer ? 1 : 0;
  latest_[{entry.connection.opener, entry.connection.taker}] = entries_.size();
  return entries_.emplace_back(std::move(entry));
}

void TcpReassembler::add(const TcpSegment& segment) {
  size_t side = 0;
  Entry& entry = entry_of(segment, side);
  take(entry.connection.sides[side], entry.readings[side], segment);
}

void TcpReassembler::take(TcpSide& side, Reading& reading, const TcpSegment& segment) {
  side.seen = true;
  reading.last = {0, segment.packet, segment.at};
  if (segment.reset) {
    if (!side.reset && !side.finished) side.ended = reading.last;
    side.reset = true;
    return;
  }
  const uint32_t first = segment.sequence + (segment.syn ? 1 : 0);
  if (segment.syn) side.begun = true;
  if (!reading.based) {
    reading.base = first;
    reading.based = true;
  }
  // Sequence numbers wrap; a window is far below half of them.
  const auto next = static_cast<uint32_t>(reading.base + side.bytes.size());
  const int64_t ahead = static_cast<int32_t>(first - next);
  const int64_t place = static_cast<int64_t>(side.bytes.size()) + ahead;
  if (segment.fin && place + segment.payload_bytes >= 0) {
    reading.end = static_cast<uint64_t>(place + segment.payload_bytes);
  }
  if (!segment.payload.empty() && place + static_cast<int64_t>(segment.payload.size()) > 0) {
    // What lies before the first byte belongs to a part that was not captured.
    const auto before = static_cast<size_t>(std::max<int64_t>(0, -place));
    const auto payload = segment.payload.subspan(before);
    auto& kept = reading.early[static_cast<uint64_t>(place) + before];
    if (kept.size() < payload.size()) kept.assign(payload.begin(), payload.end());
  }
  const size_t had = side.bytes.size();
  while (!reading.early.empty() && reading.early.begin()->first <= side.bytes.size()) {
    const auto& [at, bytes] = *reading.early.begin();
    const uint64_t known = side.bytes.size() - at;
    if (known < bytes.size()) {
      side.bytes.insert(side.bytes.end(), bytes.begin() + static_cast<ptrdiff_t>(known),
                        bytes.end());
    }
    reading.early.erase(reading.early.begin());
  }
  if (side.bytes.size() > had) {
    side.marks.push_back({side.bytes.size(), segment.packet, segment.at});
  }
  if (reading.end && side.bytes.size() >= *reading.end && !side.finished) {
    side.finished = true;
    if (!side.reset) side.ended = reading.last;
  }
}

std::vector<TcpConnection> TcpReassembler::finish() {
  std::vector<TcpConnection> out;
  for (Entry& entry : entries_) {
    for (size_t i = 0; i < 2; ++i) {
      TcpSide& side = entry.connection.sides[i];
      Reading& reading = entry.readings[i];
      const uint64_t size = side.bytes.size();
      if (!reading.early.empty()) {
        side.missing = reading.early.begin()->first - size;
        for (const auto& [at, bytes] : reading.early) side.behind += bytes.size();
      } else if (reading.end && *reading.end > size) {
        side.missing = *reading.end - size;
      }
      side.ended.end = size;
    }
    out.push_back(std::move(entry.connection));
  }
  entries_.clear();
  latest_.clear();
  return out;
}

}  // namespace understudy::nccl_decode
