#include "dataplane/nccl/nccl_connection.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "dataplane/nccl/message_parts.h"

namespace understudy {

static_assert(std::endian::native == std::endian::little,
              "CTS entries are copied as they lie in memory; NCCL's wire is little-endian");

namespace {

constexpr uint64_t kCreditId = ~uint64_t{0};  // completions of credits are of no interest
constexpr uint32_t kCapacityAt = 8;

template <typename T>
void put(uint8_t* out, T value) {
  std::memcpy(out, &value, sizeof value);
}
template <typename T>
T get(const uint8_t* in) {
  T value;
  std::memcpy(&value, in, sizeof value);
  return value;
}

}  // namespace

void CtsEntry::encode(const CtsLayout& layout, uint8_t* out) const {
  std::memset(out, 0, layout.entry_bytes);
  put(out, address);
  if (layout.size_bytes == sizeof size) {
    put(out + kCapacityAt, size);
  } else {
    put(out + kCapacityAt, static_cast<uint32_t>(size));
  }
  std::memcpy(out + layout.rkey_at, rkey.keys.data(), layout.devices() * sizeof(Rkey));
  put(out + layout.requests_at, requests);
  put(out + layout.tag_at, tag);
  put(out + layout.index_at, index);
}

CtsEntry CtsEntry::decode(const CtsLayout& layout, const uint8_t* in) {
  CtsEntry entry;
  entry.address = get<uint64_t>(in);
  entry.size = layout.size_bytes == sizeof entry.size ? get<uint64_t>(in + kCapacityAt)
                                                      : get<uint32_t>(in + kCapacityAt);
  std::memcpy(entry.rkey.keys.data(), in + layout.rkey_at, layout.devices() * sizeof(Rkey));
  entry.requests = get<uint32_t>(in + layout.requests_at);
  entry.tag = get<uint32_t>(in + layout.tag_at);
  entry.index = get<uint64_t>(in + layout.index_at);
  return entry;
}

uint32_t NcclQps::index(const Qp& qp) const {
  return static_cast<uint32_t>(std::ranges::find(all, &qp) - all.begin());
}

void NcclParts::reset(uint32_t queue_pairs, uint32_t most) {
  lines_.assign(queue_pairs, {});
  bytes_.assign(size_t{queue_pairs} * most, 0);
  most_ = most;
}

void NcclParts::add(uint32_t qp, uint32_t bytes) {
  bytes_[size_t{qp} * most_ + lines_[qp].came++ % most_] = bytes;
}

bool NcclParts::take(const NcclQps& qps, const CtsLayout& layout, uint64_t k, uint32_t& bytes) {
  for (uint32_t part = 0; part < qps.parts(); ++part) {
    const Line& line = lines_[qps.of_part(layout, k, part)];
    if (line.came == line.taken) return false;
  }
  bytes = 0;
  for (uint32_t part = 0; part < qps.parts(); ++part) {
    const uint32_t qp = qps.of_part(layout, k, part);
    bytes += bytes_[size_t{qp} * most_ + lines_[qp].taken++ % most_];
  }
  return true;
}

void NcclSender::connect(Setup setup) {
  setup_ = std::move(setup);
  steps_ = {};
  counted_ = 0;
  bases_ = {};
  several_.reset();
  if (setup_.failover != nullptr) setup_.failover->serve(*this);
  if (setup_.qps.count() == 1 && !setup_.several_receives && setup_.failover == nullptr) return;
  several_ = std::make_unique<Several>();
  several_->ids.resize(setup_.layout.slots);
  several_->acknowledged.reset(setup_.qps.count(), setup_.layout.slots);
  if (setup_.several_receives) several_->sizes.resize(setup_.layout.slots);
  if (setup_.failover == nullptr) return;
  several_->flights.resize(setup_.layout.slots);
  several_->parts.resize(size_t{setup_.layout.slots} * setup_.qps.parts());
}

bool NcclSender::has_credit(uint64_t k) const {
  if (setup_.fifo == nullptr) return false;
  const CtsEntry first = entry(k);
  if (first.index != k + 1) return false;
  for (uint32_t i = 1; i < std::min(first.requests, CtsLayout::kEntries); ++i) {
    if (entry(k, i).index != k + 1) return false;
  }
  return true;
}

uint64_t NcclSender::capacity(uint64_t k) const { return entry(k).size; }

bool NcclSender::send(Time now, EndpointHost& host, uint64_t k, uint32_t size,
                      const PayloadRef& payload, uint64_t id) {
  if (!has_credit(k)) return false;
  const CtsEntry credit = entry(k);
  const uint32_t entries = std::clamp(credit.requests, 1u, CtsLayout::kEntries);
  if (credit.requests > 1 && (several_ == nullptr || several_->sizes.empty())) return false;
  if (entries == 1 && credit.size < size) return false;
  if (setup_.collective && k == counted_) {
    ++counted_;
    lines_ = lines(credit, size);
  }
  if (setup_.collective && k + 1 == counted_) newest_[k % newest_.size()].bytes = size;
  const bool own = payload.bytes != nullptr || payload.source != nullptr || !setup_.collective;
  const PayloadRef& data = own ? payload : lines_;
  if (several_ != nullptr) return post_parts(now, host, k, size, data, id, entries);
  return host.post(now, *setup_.qps.all.front(), part(k, 0, 0, size, data, id, 1));
}

bool NcclSender::lengthen(Time now, EndpointHost& host, uint64_t k, uint32_t size) {
  if (!setup_.collective || k >= counted_ || counted_ - k > newest_.size() || !has_credit(k)) {
    return true;
  }
  Posted& posted = newest_[k % newest_.size()];
  const CtsEntry credit = entry(k);
  const PayloadRef flags = flag_lines(posted.place);
  const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(size, credit.size));
  if (flags.source == nullptr || bytes <= posted.bytes) return true;
  WorkRequest write;
  write.op = WorkOp::kWrite;
  write.id = kBeforePart;
  write.remote_va = credit.address + posted.bytes;
  const uint32_t qp = queue_pair(k, 0);
  write.rkey = setup_.qps.key(credit.rkey, qp);
  write.length = bytes - posted.bytes;
  write.payload = flags.advanced(posted.bytes);
  if (!host.post(now, *setup_.qps.all[qp], write)) return false;
  posted.bytes = bytes;
  return true;
}

/// Counts the step of the newest credit, and looks whether that lies where it should.
PayloadRef NcclSender::lines(const CtsEntry& credit, uint32_t size) {
  const NcclSteps::Place place = steps_.next(credit.size, setup_.buffers);
  check(credit, place);
  newest_[(counted_ - 1) % newest_.size()].place = place;
  if (setup_.reflection != nullptr && size <= Reflection::kMost) {
    return setup_.reflection->payload(place);
  }
  return flag_lines(place);
}

void NcclSender::check(const CtsEntry& credit, const NcclSteps::Place& place) {
  const auto add = [](std::atomic<uint64_t>* counter) {
    if (counter != nullptr) counter->fetch_add(1, std::memory_order_relaxed);
  };
  if (place.kind == CreditKind::kOther) return add(setup_.registered);
  const size_t buffer = std::min(static_cast<size_t>(place.kind), bases_.size() - 1);
  uint64_t& base = bases_[buffer];
  if (base == 0) base = credit.address - place.offset;
  if (credit.address - place.offset == base) return;
  // A Simple message may go to memory that the user has registered, wherever that is.
  const uint64_t bytes = buffer == 0   ? setup_.buffers.ll
                         : buffer == 1 ? setup_.buffers.ll128
                                       : setup_.buffers.simple;
  const bool inside = credit.address - base < bytes;
  add(buffer == bases_.size() - 1 && !inside ? setup_.registered : setup_.violations);
}

WorkRequest NcclSender::part(uint64_t k, uint32_t part, uint32_t request, uint32_t size,
                             const PayloadRef& payload, uint64_t id, uint32_t entries) const {
  const uint32_t parts = setup_.qps.parts(), qp = queue_pair(k, part);
  const bool last = entries == 1 || request == entries, by_id = setup_.failover != nullptr;
  WorkRequest write;
  write.op = last ? WorkOp::kWriteImm : WorkOp::kWrite;
  write.id = !last ? kBeforePart : by_id ? FailoverId::of(k, part) : part + 1 < parts ? kPart : id;
  if (request < entries) {
    const CtsEntry credit = entry(k, request);
    const uint64_t bytes = std::min<uint64_t>(size, credit.size);
    const MessagePart cut = message_part(bytes, parts, part);
    write.remote_va = credit.address + std::min(cut.from, bytes);
    write.rkey = setup_.qps.key(credit.rkey, qp);
    write.length = static_cast<uint32_t>(cut.bytes);
    write.payload = payload.advanced(std::min(cut.from, bytes));
  }
  if (!last) return write;
  if (entries == 1) {
    write.imm = setup_.layout.immediate(by_id ? FailoverId::immediate(k) : size);
    return write;
  }
  const auto& sizes = several_->sizes[k % setup_.layout.slots];
  if (setup_.layout.sizes_stride == 0) {
    uint32_t mask = 0;
    for (uint32_t i = 0; i < entries; ++i) mask |= (sizes[i] != 0 ? 1u : 0u) << i;
    write.imm = setup_.layout.immediate(mask);
    return write;
  }
  write.remote_va = setup_.sizes_va + k % setup_.layout.slots * setup_.layout.sizes_stride;
  write.rkey = setup_.qps.key(setup_.sizes_rkey, qp);
  write.length = entries * static_cast<uint32_t>(sizeof(uint32_t));
  write.payload.source = several_.get();
  write.payload.cookie = k % setup_.layout.slots;
  const uint32_t word = setup_.layout.immediate_of_first ? sizes[0] : 0;
  write.imm = setup_.layout.immediate(by_id ? FailoverId::immediate(k) : word);
  return write;
}

bool NcclSender::post_parts(Time now, EndpointHost& host, uint64_t k, uint32_t size,
                            const PayloadRef& payload, uint64_t id, uint32_t entries) {
  Several& s = *several_;
  if (s.end - s.first >= setup_.layout.slots) return false;
  if (entries > 1) {
    for (uint32_t i = 0; i < entries; ++i) {
      s.sizes[k % setup_.layout.slots][i] =
          static_cast<uint32_t>(std::min<uint64_t>(size, entry(k, i).size));
    }
  }
  const uint32_t requests = entries == 1 ? 1 : entries + 1;
  for (; s.posted < setup_.qps.parts() * requests; ++s.posted) {
    const uint32_t number = s.posted / requests;
    for (;;) {
      if (setup_.failover != nullptr) begin_part(k, number, size, payload, id, entries);
      const uint32_t to = queue_pair(k, number);
      Qp& qp = *setup_.qps.all[to];
      if (host.post(now, qp, part(k, number, s.posted % requests, size, payload, id, entries))) {
        break;
      }
      // The rest when there is room, if no other queue pair stands in.
      if (setup_.failover == nullptr || !setup_.failover->stands_in(now, to)) return false;
    }
  }
  s.posted = 0;
  s.ids[k % setup_.layout.slots] = id;
  s.end = k + 1;
  return true;
}

bool NcclSender::take_acknowledged() {
  Several& s = *several_;
  if (s.first == s.end) return false;
  if (setup_.failover == nullptr) {
    uint32_t bytes = 0;
    return s.acknowledged.take(setup_.qps, setup_.layout, s.first, bytes);
  }
  for (uint32_t part = 0; part < setup_.qps.parts(); ++part) {
    if (flight_part(s.first, part).state != Several::Part::State::kArrived) return false;
  }
  return true;
}

void NcclSender::Several::fill(uint64_t cookie, uint64_t offset, std::span<uint8_t> out) const {
  std::memcpy(out.data(), reinterpret_cast<const uint8_t*>(sizes[cookie].data()) + offset,
              out.size());
}

void NcclReceiver::connect(Setup setup) {
  setup_ = std::move(setup);
  steps_ = {};
  granted_ = 0;
  held_ = 0;
  several_.reset();
  if (setup_.failover != nullptr) setup_.failover->serve(*this);
  if (setup_.qps.count() == 1 && setup_.failover == nullptr) return;
  several_ = std::make_unique<Several>();
  several_->held.resize(setup_.qps.count());
  several_->parts.reset(setup_.qps.count(), setup_.layout.slots);
  // A part on another queue pair than we think is to be counted, not to be refused for ever.
  for (Qp* qp : setup_.qps.all) qp->responder().set_endless_receives();
  if (setup_.failover == nullptr) return;
  several_->pieces.resize(size_t{setup_.layout.slots} * setup_.qps.parts());
  several_->count.resize(setup_.layout.slots);
  several_->ahead.resize(setup_.qps.count());
}

/// Of message `k` in our memory.
uint64_t NcclReceiver::place(uint64_t k, uint32_t capacity) {
  if (!setup_.stepped) return uint64_t{slot(k)} * setup_.slot_bytes;
  const NcclSteps::Place place = steps_.next(capacity, setup_.buffers);
  places_[k % kPlaces].flag = place.flag();
  if (place.kind == CreditKind::kOther && setup_.own_slots) {
    return uint64_t{slot(k)} * setup_.slot_bytes;
  }
  const uint64_t buffer = place.kind == CreditKind::kLL ? setup_.buffers.simple
                          : place.kind == CreditKind::kLL128
                              ? uint64_t{setup_.buffers.simple} + setup_.buffers.ll
                              : 0;
  return buffer + place.offset;
}

bool NcclReceiver::grant(Time now, EndpointHost& host, uint32_t capacity) {
  const uint64_t k = granted_;
  const CtsLayout& layout = setup_.layout;
  uint8_t* entry = setup_.staging + (k % layout.slots) * layout.entry_bytes;
  if (capacity == 0) capacity = setup_.slot_bytes;
  const NcclSteps before = steps_;
  const uint64_t offset = place(k, capacity);
  places_[k % kPlaces].offset = offset;
  CtsEntry{setup_.buffer_va + offset, capacity, {setup_.buffer_rkey, setup_.devices}, 1,
           setup_.sender_rank,        k + 1}
      .encode(layout, entry);
  if (setup_.failover != nullptr) begin_message(k);
  if (!post_credit(now, host, k)) {
    steps_ = before;
    return false;
  }
  ++granted_;
  return true;
}

/// Writes the entry of message `k` that stands in our memory into the sender's.
bool NcclReceiver::post_credit(Time now, EndpointHost& host, uint64_t k) {
  const CtsLayout& layout = setup_.layout;
  WorkRequest write;
  write.op = WorkOp::kWrite;
  write.id = setup_.failover == nullptr ? kCreditId : FailoverId::of(k, 0);
  write.remote_va = setup_.fifo_va + (k % layout.slots) * layout.stride();
  const auto turn = static_cast<uint32_t>(k % std::min(setup_.devices, setup_.qps.count()));
  write.length = layout.entry_bytes;
  write.payload.bytes = setup_.staging + (k % layout.slots) * layout.entry_bytes;
  for (;;) {
    const uint32_t number = setup_.failover == nullptr ? turn : setup_.failover->active(turn);
    write.rkey = setup_.qps.key(setup_.fifo_rkey, number);
    Qp& qp = *setup_.qps.all[number];
    if (host.post(now, qp, write)) {
      if (several_ == nullptr) qp.responder().post_receives(1);
      return true;
    }
    if (setup_.failover == nullptr || !setup_.failover->stands_in(now, number)) return false;
  }
}

void NcclReceiver::take(uint32_t qp, const Received& came) {
  if (setup_.failover != nullptr) return take_piece(qp, came);
  Several& s = *several_;
  s.held[qp] += came.length;
  if (!came.has_imm) return;
  s.parts.add(qp, std::exchange(s.held[qp], 0));
}

bool NcclReceiver::next_whole(uint32_t& bytes) {
  Several& s = *several_;
  if (setup_.failover != nullptr) return whole_pieces(bytes);
  if (!s.parts.take(setup_.qps, setup_.layout, s.whole, bytes)) return false;
  ++s.whole;
  return true;
}

}  // namespace understudy
