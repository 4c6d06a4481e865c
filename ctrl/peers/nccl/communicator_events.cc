// What the world tells the emulated ranks, and what `understudy status` says of them.
#include <algorithm>

#include "ctrl/peers/nccl/bootstrap/rank_text.h"
#include "ctrl/peers/nccl/communicator_impl.h"

namespace understudy {
namespace {

/// Half of what Linux' neighbour table holds unless it is told otherwise.
constexpr uint32_t kManyNeighbours = 512;

}  // namespace

void NcclCommunicator::Impl::on_accepted(ListenerId listener, StreamId id,
                                         const SocketAddress& from) {
  const auto found = listeners_.find(listener);
  if (found == listeners_.end()) return host_.close(id);
  const bool root = root_ && listener == settings_.root_listener;
  Stream& stream =
      streams_.try_emplace(id, root ? Role::kAtRoot : Role::kUnknown, true).first->second;
  stream.rank = found->second.rank;
  stream.from = from;
  stream.listener = found->second;
}

void NcclCommunicator::Impl::on_connected(StreamId id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  Stream& stream = found->second;
  host_.send(id, stream.pending);
  if (stream.role == Role::kRing) {
    stream.pending.clear();
    stream.ring->group.ring().open(stream.segment, true);
  } else {
    if (stream.check_in) {
      --checking_in_;
      ++checked_in_;
    }
    drop(id);
    if (!root_) check_in_more();
  }
  clean_up();
}

void NcclCommunicator::Impl::on_bytes(StreamId id, std::span<const uint8_t> bytes) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  Stream& stream = found->second;
  stream.reader.feed(bytes);
  while (failure_.empty()) {
    const FrameReader::Event event = stream.reader.next();
    if (event.kind == FrameReader::kNone || !handle(id, stream, event)) break;
  }
  clean_up();
}

void NcclCommunicator::Impl::on_closed(StreamId id, const std::string& why) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  const Stream& stream = found->second;
  const std::string reason = why.empty() ? "" : ": " + why;
  if (stream.role == Role::kSendOnce) {
    failed(stream.what + " did not get there" + reason);
  } else if (stream.role == Role::kRing) {
    Ring& ring = *stream.ring;
    const RingSegment& s = ring.group.segments()[stream.segment];
    const uint32_t rank = stream.first ? s.first : s.last;
    if (!stream.reader.at_boundary() || !ring.group.at_rest(stream.segment, rank)) {
      std::vector<std::string> lines;
      ring.group.waiting(lines);
      failed("rank " + std::to_string(rank) + " has closed its connection on the ring" +
             ring.group.name() + reason + (lines.empty() ? "" : "; " + lines.front()));
    } else {
      ring.ends[2 * stream.segment + (stream.first ? 0 : 1)].closed = true;
      close_if_done(ring);
    }
  } else if (stream.identified) {
    failed("a connection from " + stream.from.text() + " to rank " + std::to_string(stream.rank) +
           " ended in the middle of " +
           (stream.role == Role::kAtRoot       ? "a check-in"
            : stream.role == Role::kRootAnswer ? "the root's answer"
                                               : "a message") +
           reason);
  }
  streams_.erase(id);
  clean_up();
}

void NcclCommunicator::Impl::on_connector_ready(const NcclConnector& connector) {
  if (!failure_.empty()) return;
  for (const auto& ring : rings_) {
    if (ring->group.settings().number == connector.communicator) {
      ring->group.connector_ready(connector);
    }
  }
  clean_up();
}

void NcclCommunicator::Impl::on_connector_failed(const NcclConnector& connector,
                                                 const std::string& why) {
  // One that stood has just ended, as they do with their real rank.
  const bool wanted = std::any_of(rings_.begin(), rings_.end(), [&](const auto& ring) {
    return ring->group.settings().number == connector.communicator &&
           ring->group.connecting(connector);
  });
  if (!wanted || !failure_.empty()) return;
  failed("net_ib's connection between ranks " +
         std::to_string(connector.real_sends ? connector.real : connector.emulated) + " and " +
         std::to_string(connector.real_sends ? connector.emulated : connector.real) +
         " on channel " + std::to_string(connector.channel) + ": " + why);
  clean_up();
}

void NcclCommunicator::Impl::on_relayed(const NcclConnector& connector,
                                        std::span<const uint8_t> bytes) {
  if (!failure_.empty()) return;
  for (const auto& ring : rings_) {
    if (ring->group.settings().number == connector.communicator) {
      ring->group.relayed(connector, bytes);
    }
  }
  clean_up();
}

std::vector<std::string> NcclCommunicator::Impl::waiting() const {
  std::vector<std::string> lines;
  if (!failure_.empty()) return {failure_};
  if (finished_) return {"all real ranks have left"};
  if (root_) {
    std::vector<uint32_t> missing = root_->missing();
    if (!missing.empty())
      lines.push_back("the root waits for " + ranks_text(missing) + " to check in");
  } else if (answered_ < emulated_) {
    std::vector<uint32_t> ranks;
    for (uint32_t r = 0; r < settings_.ranks.size(); ++r) {
      if (!settings_.ranks[r].real && !was_answered_[r]) ranks.push_back(r);
    }
    lines.push_back(std::to_string(checked_in_) + " of " + std::to_string(emulated_) +
                    " emulated ranks have checked in at the root, " + settings_.id.root.text() +
                    "; not answered yet: " + ranks_text(ranks) +
                    (checked_in_ == emulated_
                         ? " (it waits for all ranks, here " +
                               std::to_string(settings_.ranks.size()) +
                               ", and cannot read those of another release than " + "2." +
                               std::to_string(settings_.version.minor) + ")"
                     : emulated_ >= kManyNeighbours
                         ? " (the real node's neighbour table must hold all of them: "
                           "net.ipv4.neigh.default.gc_thresh3, as understudy env says)"
                         : ""));
  }
  for (const auto& ring : rings_) {
    if (ring->done || !ring->begun) continue;
    for (size_t s = 0; s < ring->group.segments().size(); ++s) {
      const RingSegment& segment = ring->group.segments()[s];
      if (!ring->group.ring().is_open(s, true)) {
        lines.push_back("rank " + std::to_string(segment.before) +
                        (ring->ends[2 * s].asked ? " connects to" : " does not know yet") +
                        " the ring of rank " + std::to_string(segment.first) + ring->group.name());
      }
      if (!ring->group.ring().is_open(s, false)) {
        lines.push_back("rank " + std::to_string(segment.after) + " waits for rank " +
                        std::to_string(segment.last) + " to connect its ring" + ring->group.name());
      }
    }
    ring->group.waiting(lines);
  }
  if (lines.empty()) lines.push_back("nothing: all that real ranks have begun is answered");
  return lines;
}

}  // namespace understudy
