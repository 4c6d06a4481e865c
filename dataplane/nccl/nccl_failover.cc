// Both sides of a connection with port failover: what of a message is where, what is sent again over
// another device, and what comes twice (docs/nccl 3.15).
#include <algorithm>
#include <utility>

#include "dataplane/base/assert.h"
#include "dataplane/nccl/nccl_connection.h"

namespace understudy {

std::optional<uint64_t> NcclSender::ends_message(uint64_t id) const {
  if (!FailoverId::is(id)) return is_message(id) ? std::optional(id) : std::nullopt;
  const uint64_t k = FailoverId::message(id);
  if (!is_under_way(k) || FailoverId::part(id) + 1 < setup_.qps.parts()) return std::nullopt;
  return several_->flights[k % setup_.layout.slots].id;
}

NcclSender::Several::Part& NcclSender::flight_part(uint64_t k, uint32_t part) const {
  return several_->parts[k % setup_.layout.slots * setup_.qps.parts() + part];
}

/// Posted, wholly or in part, and not wholly acknowledged.
bool NcclSender::is_under_way(uint64_t k) const {
  const Several& s = *several_;
  return k >= s.first && (k < s.end || (k == s.end && s.posted > 0));
}

/// Before a work request of this part is posted.
void NcclSender::begin_part(uint64_t k, uint32_t part, uint32_t size, const PayloadRef& payload,
                            uint64_t id, uint32_t entries) {
  Several& s = *several_;
  if (s.posted == 0) {
    s.flights[k % setup_.layout.slots] = {k, id, size, entries, payload, false};
    for (uint32_t p = 0; p < setup_.qps.parts(); ++p) flight_part(k, p) = {};
  }
  const uint32_t requests = entries == 1 ? 1 : entries + 1;
  const auto over = static_cast<uint8_t>(queue_pair(k, part));
  // All requests of a part go over one queue pair.
  if (flight_part(k, part).over != over) s.posted -= s.posted % requests;
  flight_part(k, part).over = over;
}

void NcclSender::part_arrived(uint64_t k, uint32_t part) {
  if (is_under_way(k)) flight_part(k, part).state = Several::Part::State::kArrived;
}

bool NcclSender::fails_over(Time now, const Qp& qp, uint64_t id, WorkStatus status) {
  if (setup_.failover == nullptr || id == PortFailover::kProgress) return false;
  if (!setup_.failover->fail(now, setup_.qps.index(qp), status)) return false;
  if (!FailoverId::is(id)) return true;  // what goes with it fails, too
  const uint64_t k = FailoverId::message(id);
  if (!is_under_way(k)) return true;
  Several::Part& part = flight_part(k, FailoverId::part(id));
  if (part.state != Several::Part::State::kPosted) return true;
  part.state = Several::Part::State::kLost;
  Several::Flight& flight = several_->flights[k % setup_.layout.slots];
  if (!std::exchange(flight.probing, true)) setup_.failover->probe(now, k);
  return true;
}

/// The receiver counts by queue pair: of several parts over the same one only the first has surely
/// come.
bool NcclSender::has_arrived(uint64_t k, uint32_t part, const uint8_t* flags) const {
  const uint8_t over = flight_part(k, part).over;
  for (uint32_t before = 0; before < part; ++before) {
    if (flight_part(k, before).over == over) return false;
  }
  return flags[over] != 0;
}

void NcclSender::on_probed(Time now, EndpointHost& host, uint64_t k, const uint8_t* flags) {
  if (!is_under_way(k)) return;
  std::array<bool, CompletionRecords::kFlags> arrived{};
  for (uint32_t part = 0; part < setup_.qps.parts(); ++part) {
    arrived[part] = has_arrived(k, part, flags);
  }
  for (uint32_t part = 0; part < setup_.qps.parts(); ++part) {
    if (arrived[part]) flight_part(k, part).state = Several::Part::State::kArrived;
  }
  several_->flights[k % setup_.layout.slots].probing = false;
  on_retry(now, host, k);
}

/// Sends again what is lost. What is under way on a device that works is left alone.
void NcclSender::on_retry(Time now, EndpointHost& host, uint64_t k) {
  if (!is_under_way(k)) return;
  const Several::Flight& flight = several_->flights[k % setup_.layout.slots];
  const uint32_t requests = flight.entries == 1 ? 1 : flight.entries + 1;
  for (uint32_t p = 0; p < setup_.qps.parts(); ++p) {
    Several::Part& lost = flight_part(k, p);
    if (lost.state != Several::Part::State::kLost || flight.probing) continue;
    const auto over = static_cast<uint8_t>(queue_pair(k, p));
    // All requests of a part go over one queue pair.
    if (std::exchange(lost.over, over) != over) lost.repeat = 0;
    for (; lost.repeat < requests; ++lost.repeat) {
      const WorkRequest write =
          part(k, p, lost.repeat, flight.size, flight.payload, flight.id, flight.entries);
      if (host.post(now, *setup_.qps.all[lost.over], write)) continue;
      (void)setup_.failover->stands_in(now, lost.over);
      return setup_.failover->retry(now, k);
    }
    lost.repeat = 0;
    lost.state = Several::Part::State::kPosted;
    setup_.failover->count_repeated();
  }
}

bool NcclReceiver::fails_over(Time now, EndpointHost& host, const Qp& qp, uint64_t id,
                              WorkStatus status) {
  if (setup_.failover == nullptr || id == PortFailover::kProgress) return false;
  if (!setup_.failover->fail(now, setup_.qps.index(qp), status)) return false;
  if (FailoverId::is(id)) on_retry(now, host, FailoverId::message(id));
  return true;
}

/// A credit whose message has come was heard of.
void NcclReceiver::on_retry(Time now, EndpointHost& host, uint64_t k) {
  if (k < several_->whole) return;
  if (!post_credit(now, host, k)) return setup_.failover->retry(now, k);
  setup_.failover->count_repeated();
}

/// Its record is empty again before the sender may hear of the credit.
void NcclReceiver::begin_message(uint64_t k) {
  const uint64_t slot = k % CompletionRecords::kSlots;
  std::fill_n(setup_.records + slot * CompletionRecords::kStride, CompletionRecords::kStride,
              uint8_t{0});
  several_->count[k % setup_.layout.slots] = 0;
}

uint64_t NcclReceiver::address(uint64_t k) const {
  const CtsLayout& layout = setup_.layout;
  return CtsEntry::decode(layout, setup_.staging + (k % layout.slots) * layout.entry_bytes).address;
}

void NcclReceiver::take_piece(uint32_t qp, const Received& came) {
  Several& s = *several_;
  if (!came.has_imm) {
    s.ahead[qp] = came;
    return;
  }
  const Received data = std::exchange(s.ahead[qp], {});
  const Received& written = data.is_write ? data : came;
  // Which of the messages that have a credit it is of.
  const uint32_t word = setup_.layout.immediate(came.imm);
  uint64_t k = s.whole;
  while (k < granted_ && FailoverId::immediate(k) != word) ++k;
  if (k == granted_) return;  // it came before, over another device
  setup_.records[k % CompletionRecords::kSlots * CompletionRecords::kStride +
                 CompletionRecords::kFlagsAt + qp] = 1;
  const uint64_t begin = address(k), parts = setup_.qps.parts();
  const Several::Piece piece{written.va < begin ? 0 : written.va - begin, written.length};
  Several::Piece* const pieces = &s.pieces[k % setup_.layout.slots * parts];
  uint8_t& count = s.count[k % setup_.layout.slots];
  for (uint8_t i = 0; i < count; ++i) {
    if (pieces[i].bytes > 0 && pieces[i].from == piece.from) return;
  }
  // Of parts without data as many as there are may be counted twice: one with data takes the place.
  if (count < parts) {
    pieces[count++] = piece;
    return;
  }
  Several::Piece* const empty = std::find_if(
      pieces, pieces + parts, [](const Several::Piece& one) { return one.bytes == 0; });
  if (empty != pieces + parts && piece.bytes > 0) *empty = piece;
}

/// All its parts have come, and nothing is missing before the last one.
bool NcclReceiver::whole_pieces(uint32_t& bytes) {
  Several& s = *several_;
  if (s.whole == granted_) return false;
  const uint64_t parts = setup_.qps.parts(), slot = s.whole % setup_.layout.slots;
  if (s.count[slot] < parts) return false;
  uint64_t end = 0, sum = 0;
  for (uint64_t i = 0; i < parts; ++i) {
    const Several::Piece& piece = s.pieces[slot * parts + i];
    end = std::max(end, piece.from + piece.bytes);
    sum += piece.bytes;
  }
  if (sum != end) return false;
  bytes = static_cast<uint32_t>(sum);
  ++s.whole;
  return true;
}

}  // namespace understudy
