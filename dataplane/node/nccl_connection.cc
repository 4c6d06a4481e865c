#include "dataplane/node/nccl_connection.h"

#include <bit>
#include <cstring>

namespace understudy {

static_assert(std::endian::native == std::endian::little,
              "CTS entries are copied as they lie in memory; NCCL's wire is little-endian");

namespace {
struct CtsWire {
  uint64_t address;
  uint64_t size;
  uint32_t rkeys[4];
  uint32_t requests;
  uint32_t tag;
  uint64_t index;
  uint8_t pad[16];
};
static_assert(sizeof(CtsWire) == kCtsEntryBytes);
constexpr uint64_t kCreditId = ~uint64_t{0};  ///< completions of credits are of no interest
}  // namespace

void CtsEntry::encode(uint8_t* out) const {
  const CtsWire wire{address, size, {rkey, 0, 0, 0}, requests, tag, index, {}};
  std::memcpy(out, &wire, sizeof wire);
}

CtsEntry CtsEntry::decode(const uint8_t* in) {
  CtsWire wire;
  std::memcpy(&wire, in, sizeof wire);
  return {wire.address, wire.size, wire.rkeys[0], wire.requests, wire.tag, wire.index};
}

uint32_t nccl_immediate(uint32_t size) { return __builtin_bswap32(size); }

bool NcclSender::has_credit(uint64_t k) const {
  if (setup_.fifo == nullptr) return false;
  return CtsEntry::decode(setup_.fifo + (k % kCtsSlots) * kCtsSlotStride).index == k + 1;
}

uint64_t NcclSender::capacity(uint64_t k) const {
  return CtsEntry::decode(setup_.fifo + (k % kCtsSlots) * kCtsSlotStride).size;
}

bool NcclSender::send(Time now, EndpointHost& host, uint64_t k, uint32_t size,
                      const PayloadRef& payload, uint64_t id) {
  if (!has_credit(k)) return false;
  const CtsEntry credit = CtsEntry::decode(setup_.fifo + (k % kCtsSlots) * kCtsSlotStride);
  if (credit.size < size) return false;
  WorkRequest write;
  write.op = WorkOp::kWriteImm;
  write.id = id;
  write.remote_va = credit.address;
  write.rkey = credit.rkey;
  write.length = size;
  write.imm = nccl_immediate(size);
  write.payload = payload;
  return host.post(now, *setup_.qp, write);
}

bool NcclReceiver::grant(Time now, EndpointHost& host, uint32_t capacity) {
  const uint64_t k = granted_;
  uint8_t* entry = setup_.staging + (k % kCtsSlots) * kCtsEntryBytes;
  CtsEntry{setup_.buffer_va + uint64_t{slot(k)} * setup_.slot_bytes,
           capacity == 0 ? setup_.slot_bytes : capacity,
           setup_.buffer_rkey,
           1,
           setup_.sender_rank,
           k + 1}
      .encode(entry);
  WorkRequest write;
  write.op = WorkOp::kWrite;
  write.id = kCreditId;
  write.remote_va = setup_.fifo_va + (k % kCtsSlots) * kCtsSlotStride;
  write.rkey = setup_.fifo_rkey;
  write.length = kCtsEntryBytes;
  write.payload.bytes = entry;
  if (!host.post(now, *setup_.qp, write)) return false;
  setup_.qp->responder().post_receives(1);
  ++granted_;
  return true;
}

}  // namespace understudy
