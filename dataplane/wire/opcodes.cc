#include "dataplane/wire/opcodes.h"

#include "dataplane/wire/headers.h"

namespace understudy {
namespace {

constexpr uint8_t header_bytes(const OpcodeInfo& i) {
  return static_cast<uint8_t>((i.reth ? sizeof(Reth) : 0) + (i.aeth ? sizeof(Aeth) : 0) +
                              (i.imm ? kImmBytes : 0) + (i.atomic_eth ? sizeof(AtomicEth) : 0) +
                              (i.atomic_ack ? kAtomicAckBytes : 0) + (i.ieth ? kIethBytes : 0) +
                              (i.deth ? sizeof(Deth) : 0));
}

constexpr std::array<OpcodeInfo, 256> make_table() {
  std::array<OpcodeInfo, 256> t{};
  auto set = [&](Opcode op, OpcodeInfo info) {
    info.header_bytes = header_bytes(info);
    t[static_cast<uint8_t>(op)] = info;
  };
  using O = Opcode;
  using K = OpKind;
  set(O::kSendFirst, {.name = "SEND_FIRST", .kind = K::kSend, .start = true});
  set(O::kSendMiddle, {.name = "SEND_MIDDLE", .kind = K::kSend});
  set(O::kSendLast, {.name = "SEND_LAST", .kind = K::kSend, .end = true});
  set(O::kSendLastImm, {.name = "SEND_LAST_IMM", .kind = K::kSend, .end = true, .imm = true});
  set(O::kSendOnly, {.name = "SEND_ONLY", .kind = K::kSend, .start = true, .end = true});
  set(O::kSendOnlyImm,
      {.name = "SEND_ONLY_IMM", .kind = K::kSend, .start = true, .end = true, .imm = true});
  set(O::kWriteFirst, {.name = "WRITE_FIRST", .kind = K::kWrite, .start = true, .reth = true});
  set(O::kWriteMiddle, {.name = "WRITE_MIDDLE", .kind = K::kWrite});
  set(O::kWriteLast, {.name = "WRITE_LAST", .kind = K::kWrite, .end = true});
  set(O::kWriteLastImm, {.name = "WRITE_LAST_IMM", .kind = K::kWrite, .end = true, .imm = true});
  set(O::kWriteOnly,
      {.name = "WRITE_ONLY", .kind = K::kWrite, .start = true, .end = true, .reth = true});
  set(O::kWriteOnlyImm, {.name = "WRITE_ONLY_IMM",
                         .kind = K::kWrite,
                         .start = true,
                         .end = true,
                         .reth = true,
                         .imm = true});
  set(O::kReadRequest,
      {.name = "READ_REQUEST", .kind = K::kReadRequest, .start = true, .end = true, .reth = true});
  set(O::kReadResponseFirst,
      {.name = "READ_RESPONSE_FIRST", .kind = K::kReadResponse, .start = true, .aeth = true});
  set(O::kReadResponseMiddle, {.name = "READ_RESPONSE_MIDDLE", .kind = K::kReadResponse});
  set(O::kReadResponseLast,
      {.name = "READ_RESPONSE_LAST", .kind = K::kReadResponse, .end = true, .aeth = true});
  set(O::kReadResponseOnly, {.name = "READ_RESPONSE_ONLY",
                             .kind = K::kReadResponse,
                             .start = true,
                             .end = true,
                             .aeth = true});
  set(O::kAcknowledge,
      {.name = "ACKNOWLEDGE", .kind = K::kAck, .start = true, .end = true, .aeth = true});
  set(O::kAtomicAcknowledge, {.name = "ATOMIC_ACKNOWLEDGE",
                              .kind = K::kAck,
                              .start = true,
                              .end = true,
                              .aeth = true,
                              .atomic_ack = true});
  set(O::kCompareSwap, {.name = "COMPARE_SWAP",
                        .kind = K::kAtomicRequest,
                        .start = true,
                        .end = true,
                        .atomic_eth = true});
  set(O::kFetchAdd, {.name = "FETCH_ADD",
                     .kind = K::kAtomicRequest,
                     .start = true,
                     .end = true,
                     .atomic_eth = true});
  set(O::kSendLastInv, {.name = "SEND_LAST_INV", .kind = K::kSend, .end = true, .ieth = true});
  set(O::kSendOnlyInv,
      {.name = "SEND_ONLY_INV", .kind = K::kSend, .start = true, .end = true, .ieth = true});
  constexpr std::array kUcNames = {"UC_SEND_FIRST",     "UC_SEND_MIDDLE",  "UC_SEND_LAST",
                                   "UC_SEND_LAST_IMM",  "UC_SEND_ONLY",    "UC_SEND_ONLY_IMM",
                                   "UC_WRITE_FIRST",    "UC_WRITE_MIDDLE", "UC_WRITE_LAST",
                                   "UC_WRITE_LAST_IMM", "UC_WRITE_ONLY",   "UC_WRITE_ONLY_IMM"};
  for (size_t op = 0; op < kUcNames.size(); ++op) {
    OpcodeInfo info = t[op];
    info.name = kUcNames[op];
    info.unreliable = true;
    t[op + kUnreliable] = info;
  }
  set(O::kUdSendOnly,
      {.name = "UD_SEND_ONLY", .kind = K::kUd, .start = true, .end = true, .deth = true});
  set(O::kUdSendOnlyImm, {.name = "UD_SEND_ONLY_IMM",
                          .kind = K::kUd,
                          .start = true,
                          .end = true,
                          .imm = true,
                          .deth = true});
  set(O::kCnp, {.name = "CNP", .kind = K::kCnp, .start = true, .end = true});
  return t;
}

static_assert(make_table()[static_cast<uint8_t>(Opcode::kWriteOnlyImm)].header_bytes == 20);

}  // namespace

constexpr std::array<OpcodeInfo, 256> kOpcodes = make_table();

}  // namespace understudy
