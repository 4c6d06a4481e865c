// What was begun in a capture and is not complete: where a hanging job stands.
#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "dataplane/base/text_format.h"
#include "tools/nccl_decode/decoder.h"

namespace understudy::nccl_decode {
namespace {

/// "1, 3-5"
std::string ranks_text(const std::vector<int>& ranks) {
  std::string out;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i;
    while (end + 1 < ranks.size() && ranks[end + 1] == ranks[end] + 1) ++end;
    out += (out.empty() ? "" : ", ") + std::to_string(ranks[i]);
    if (end > i) out += (end == i + 1 ? ", " : "-") + std::to_string(ranks[end]);
    i = end + 1;
  }
  return out;
}

/// Of one connection.
void stream_ends(const Stream& stream, const std::string& name, std::vector<std::string>& out) {
  const auto& [opener, taker] = stream.connection.sides;
  if (!taker.seen) out.push_back(name + ": nobody has answered its SYN");
  if (taker.reset && taker.bytes.empty() && opener.bytes.empty()) {
    out.push_back(name + ": refused");
  }
  for (size_t side = 0; side < 2; ++side) {
    const TcpSide& sent = stream.connection.sides[side];
    if (sent.missing == 0) continue;
    out.push_back(name + ": " + std::to_string(sent.missing) + " bytes of its " +
                  (side == 0 ? "opener" : "taker") + " are not in the capture, and " +
                  std::to_string(sent.behind) + " behind them are left out");
  }
  for (const Message& message : stream.messages) {
    if (!message.whole) out.push_back(name + ": " + message.what);
  }
  if (stream.kind == StreamKind::kBootstrap && taker.seen && !taker.reset &&
      stream.messages.size() <= 1) {
    out.push_back(name + ": nothing came but the handshake");
  }
  if (stream.kind != StreamKind::kNetIb || stream.messages.size() < 2) return;
  const auto has = [&](bool from_opener, const char* what) {
    return std::any_of(stream.messages.begin(), stream.messages.end(), [&](const Message& m) {
      return m.from_opener == from_opener && m.whole && m.what == what;
    });
  };
  if (!has(true, "metadata")) {
    out.push_back(name + ": no metadata of the sender");
  } else if (!has(false, "metadata")) {
    out.push_back(name + ": the receiver has not answered the sender's metadata");
  } else if (!has(true, "ready")) {
    out.push_back(name + ": the sender has not said that it is ready");
  }
}

}  // namespace

void Decoder::find_open_ends() {
  auto& out = out_.open_ends;
  for (Communicator& comm : out_.communicators) {
    std::vector<int> missing;
    std::set<int> seen(comm.checked_in.begin(), comm.checked_in.end());
    for (int rank = 0; rank < comm.ranks && !seen.empty(); ++rank) {
      if (!seen.contains(rank)) missing.push_back(rank);
    }
    if (!missing.empty()) {
      out.push_back(
          format_text("communicator 0x%llx: ", static_cast<unsigned long long>(comm.magic)) +
          "no check-in in the capture of ranks " + ranks_text(missing));
    }
  }
  // A message of set-up and its answer have the same tag.
  std::set<std::tuple<uint64_t, int, int, int>> messages;
  std::map<uint64_t, int> gathers;
  for (const Stream& stream : out_.streams) {
    if (stream.kind == StreamKind::kMessage && stream.taker_rank) {
      messages.insert({*stream.magic, *stream.opener_rank, *stream.taker_rank, *stream.tag});
    }
    for (const Message& message : stream.messages) {
      if (!message.gather) continue;
      int& last = gathers[*stream.magic];
      last = std::max(last, message.gather_number);
    }
  }
  for (size_t i = 0; i < out_.streams.size(); ++i) {
    const Stream& stream = out_.streams[i];
    if (stream.kind == StreamKind::kOther) continue;
    const std::string name = "connection " + std::to_string(i + 1) +
                             (stream.about.empty() ? "" : " (" + stream.about + ")");
    stream_ends(stream, name, out);
    if (stream.kind == StreamKind::kMessage && stream.taker_rank && *stream.tag >= 256 &&
        *stream.tag < 1 << 27 &&
        !messages.contains({*stream.magic, *stream.taker_rank, *stream.opener_rank, *stream.tag})) {
      out.push_back(name + ": no answer of " + rank_text(*stream.taker_rank));
    }
    if (stream.kind != StreamKind::kRing) continue;
    const int ranks = communicator(*stream.magic).ranks;
    const int last = gathers[*stream.magic];
    std::array<int, 2> of_last = {0, 0};
    for (const Message& message : stream.messages) {
      if (message.gather && message.whole && message.gather_number == last) {
        ++of_last[message.from_opener ? 0 : 1];
      }
    }
    const bool two_way = !stream.connection.sides[1].bytes.empty();
    const std::array<int, 2> due = {two_way ? ranks / 2 : ranks - 1, two_way ? (ranks - 1) / 2 : 0};
    for (size_t side = 0; side < 2; ++side) {
      const auto rank = side == 0 ? stream.opener_rank : stream.taker_rank;
      if (ranks == 0 || !rank || of_last[side] >= due[side]) continue;
      out.push_back(name + ": all-gather " + std::to_string(last) + " stands at " +
                    std::to_string(of_last[side]) + " of " + std::to_string(due[side]) +
                    " steps of " + rank_text(*rank));
    }
  }
}

}  // namespace understudy::nccl_decode
