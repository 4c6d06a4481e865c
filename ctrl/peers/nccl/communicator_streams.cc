// What the streams of emulated ranks turn out to be, and what comes on them.
#include "ctrl/peers/nccl/bootstrap/bytes.h"
#include "ctrl/peers/nccl/communicator_impl.h"

namespace understudy {

void NcclCommunicator::Impl::drop(StreamId id) {
  host_.close(id);
  streams_.erase(id);
}

NcclCommunicator::Impl::Ring* NcclCommunicator::Impl::by_magic(const Listener& listener,
                                                               uint64_t magic) {
  Ring* fresh = nullptr;
  for (const auto& ring : rings_) {
    if (ring->done || !ring->begun) continue;
    if (listener.only != nullptr ? listener.only != ring.get() : !ring->own_addresses.empty()) {
      continue;
    }
    const uint32_t rank = ring->rank_of[listener.rank];
    if (rank == kNobody) continue;  // not in it
    const uint64_t known = ring->group.settings().magic;
    if (known == magic) return ring.get();
    // A child's magic is learnt from the real rank that connects its ring to ours.
    if (known != 0 || fresh != nullptr) continue;
    const size_t segment = ring->segment_after(rank);
    if (segment < ring->group.segments().size() && !ring->ends[2 * segment + 1].asked) {
      fresh = ring.get();
    }
  }
  return fresh;
}

bool NcclCommunicator::Impl::handle(StreamId id, Stream& stream, const FrameReader::Event& event) {
  if (event.kind == FrameReader::kHandshake) return identify(id, stream, event);
  if (event.kind == FrameReader::kAbsurd && stream.role != Role::kRing) {
    failed("a connection from " + stream.from.text() + " to rank " + std::to_string(stream.rank) +
           " announces " + std::to_string(event.size) + " bytes: that is no NCCL");
    return false;
  }
  switch (stream.role) {
    case Role::kUnknown:
      return take_role(id, stream, event.size);
    case Role::kAtRoot:
      return root_event(id, stream, event);
    case Role::kRootAnswer:
      return root_answer_event(id, stream, event);
    case Role::kMessage:
      return message_event(id, stream, event);
    case Role::kRing:
      stream.ring->group.ring_event(stream.segment, stream.first, event);
      return true;
    case Role::kSendOnce:
      return true;
  }
  return true;
}

bool NcclCommunicator::Impl::identify(StreamId id, Stream& stream,
                                      const FrameReader::Event& event) {
  Ring* ring = nullptr;
  if (stream.role == Role::kAtRoot && root_->missing().empty()) {
    host_.say(
        "NCCL: a connection from " + stream.from.text() + " to the root, " +
        settings_.id.root.text() +
        ", where all real ranks have checked in: is it another program's with the same id? It "
        "is closed; this communicator goes on");
  } else if (stream.role == Role::kAtRoot) {
    ring = event.magic == settings_.id.magic ? rings_.front().get() : nullptr;
  } else {
    ring = by_magic(*stream.listener, event.magic);
  }
  const bool learns = ring != nullptr && ring->group.settings().magic == 0;
  if (ring == nullptr || (learns && event.type != kNcclBootstrapType)) {
    drop(id);  // somebody else's, as NCCL takes it
    return false;
  }
  if (event.type != kNcclBootstrapType) {
    failed("a connection from " + stream.from.text() + " to rank " + std::to_string(stream.rank) +
           " has the communicator's magic, but is of type " + std::to_string(event.type) +
           " instead of " + std::to_string(kNcclBootstrapType) + " (bootstrap)");
    return false;
  }
  stream.identified = true;
  stream.ring = ring;
  if (learns) {
    ring->group.set_magic(event.magic);
    for (size_t s = 0; s < ring->group.segments().size(); ++s) dial_ring(*ring, s);
  }
  return true;
}

bool NcclCommunicator::Impl::take_role(StreamId id, Stream& stream, int32_t size) {
  const auto bytes = static_cast<uint32_t>(size);
  const bool first = stream.ring == rings_.front().get();
  const bool answer_expected =
      first && !root_ && !was_answered_[stream.rank] &&
      (stream.listener->root_answer || !answer_addresses_.contains(stream.rank));
  if (answer_expected && bytes == layout_.root_answer) {
    stream.role = Role::kRootAnswer;
    return true;
  }
  if (stream.listener->root_answer) {
    failed("the root's answer to rank " + std::to_string(stream.rank) + " has " +
           std::to_string(size) + " bytes, where NCCL " + std::string(layout_.releases) + " has " +
           std::to_string(layout_.root_answer));
    return false;
  }
  if (bytes == (layout_.one_header ? 8u : 4u)) {
    stream.role = Role::kMessage;
    return true;
  }
  return become_ring(id, stream, size);
}

bool NcclCommunicator::Impl::become_ring(StreamId id, Stream& stream, int32_t size) {
  Ring& ring = *stream.ring;
  const std::string what = "a connection from " + stream.from.text() + " to rank " +
                           std::to_string(stream.rank) + ring.group.name();
  const size_t segment = ring.segment_after(ring.rank_of[stream.rank]);
  if (segment == ring.group.segments().size() || ring.ends[2 * segment + 1].asked) {
    failed(what + " begins with " + std::to_string(size) + " bytes: NCCL " +
           std::string(layout_.releases) +
           " sends nothing like that there; if the real ranks run "
           "another release, say so with nccl in the [job]");
    return false;
  }
  stream.role = Role::kRing;
  stream.segment = segment;
  stream.first = false;
  Ring::End& end = ring.ends[2 * segment + 1];
  end.stream = id;
  end.asked = true;
  FrameReader::Event event;
  event.kind = FrameReader::kSize;
  event.size = size;
  ring.group.ring_event(segment, false, event);
  if (failure_.empty()) ring.group.ring().open(segment, false);
  return true;
}

bool NcclCommunicator::Impl::message_event(StreamId id, Stream& stream,
                                           const FrameReader::Event& event) {
  const size_t numbers = stream.header.size();
  if (event.kind == FrameReader::kSize) {
    // The first size of the stream has given it its role.
    if (numbers == 1 && event.size != 4) {
      failed("a message from " + stream.from.text() + " to rank " + std::to_string(stream.rank) +
             " has a tag of " + std::to_string(event.size) + " bytes");
      return false;
    }
    return true;
  }
  if (numbers < 2) {
    for (size_t at = 0; at < event.payload.size(); at += 4) {
      stream.header.push_back(nccl_u32(event.payload, at));
    }
    return true;
  }
  NcclGroup& group = stream.ring->group;
  const uint32_t from = stream.header[0], tag = stream.header[1];
  const uint32_t to = stream.ring->rank_of[stream.rank];
  const std::vector<uint8_t> payload(event.payload.begin(), event.payload.end());
  drop(id);  // some releases wait for this
  group.message(from, to, tag, payload);
  return false;
}

bool NcclCommunicator::Impl::root_event(StreamId id, Stream& stream,
                                        const FrameReader::Event& event) {
  if (event.kind == FrameReader::kSize) {
    if (static_cast<uint32_t>(event.size) == layout_.check_in) return true;
    failed("a check-in from " + stream.from.text() + " has " + std::to_string(event.size) +
           " bytes, where NCCL " + std::string(layout_.releases) + " has " +
           std::to_string(layout_.check_in) +
           releases_with(static_cast<uint32_t>(event.size), &BootstrapLayout::check_in));
    return false;
  }
  const auto check_in = parse_check_in(layout_, event.payload);
  if (check_in && root_->was_answered(check_in->rank)) {
    // The communicator stands: what else comes is another job's, and gets no answer.
    host_.say("rank " + std::to_string(check_in->rank) + " has joined, and another process (" +
              stream.from.text() + ") checks in as it: a second job with the same unique id? It " +
              "gets no answer, the first one goes on");
    drop(id);
    return false;
  }
  const std::string fault = check_in ? root_->take(*check_in, stream.from) : check_in.error().text;
  drop(id);
  if (!fault.empty()) {
    failed(fault);
    return false;
  }
  Ring& ring = *rings_.front();
  for (size_t s = 0; s < ring.group.segments().size(); ++s) {
    if (ring.group.segments()[s].first != check_in->rank) continue;
    ring.first_rings[s] = check_in->ring;
    dial_ring(ring, s);
  }
  answer_at_root();
  return false;
}

bool NcclCommunicator::Impl::root_answer_event(StreamId id, Stream& stream,
                                               const FrameReader::Event& event) {
  if (event.kind != FrameReader::kPayload) return true;
  const uint32_t rank = stream.rank;
  const auto next = nccl_address(event.payload, 0);
  const std::string fault = ring_info_fault(event.payload);
  drop(id);
  if (!fault.empty()) {
    failed(fault);
    return false;
  }
  Ring& ring = *rings_.front();
  was_answered_[rank] = true;
  ++answered_;
  if (answer_addresses_.contains(rank)) {
    std::erase_if(listeners_, [&](const auto& l) {
      if (!l.second.root_answer || l.second.rank != rank) return false;
      host_.stop_listening(l.first);
      return true;
    });
  }
  for (size_t s = 0; s < ring.group.segments().size(); ++s) {
    if (ring.group.segments()[s].before != rank) continue;
    if (!next) {
      failed("the root gives rank " + std::to_string(rank) + " no address of the next one's ring");
      return false;
    }
    ring.first_rings[s] = *next;
    dial_ring(ring, s);
  }
  return false;
}

}  // namespace understudy
