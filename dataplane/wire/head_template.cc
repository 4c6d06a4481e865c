#include "dataplane/wire/head_template.h"

#include <cstring>

#include "dataplane/wire/icrc.h"

namespace understudy {
namespace {

/// The BTH's last word.
struct PsnWord {
  uint8_t ack_req;
  Be24 psn;
};

constexpr size_t kBlock = 32;

}  // namespace

void HeadTemplate::set(const RoceAddressing& addressing, const RoceFields& fields,
                       uint32_t payload_bytes) {
  std::array<uint8_t, kMostRoceHeadBytes> whole;
  begin_roce(whole.data(), addressing, fields, payload_bytes);
  const uint32_t l3 = addressing.l2_bytes();
  bytes_ = l3 + addressing.l3_bytes() +
           static_cast<uint32_t>(sizeof(UdpHeader) + sizeof(Bth) - sizeof(PsnWord));
  std::memcpy(frame_.data(), whole.data(), bytes_);
  crc_ = icrc_before_psn(whole.data() + l3);
  payload_bytes_ = payload_bytes;
  opcode_ = fields.opcode;
  solicited_ = fields.solicited;
  traffic_class_ = addressing.traffic_class;
  dst_mac_ = addressing.dst_mac;
}

uint8_t* HeadTemplate::begin(uint8_t* out, const RoceFields& fields, uint32_t& crc) const {
  // Blocks of a known size, the last one over the one before: 50 to 74 bytes.
  std::memcpy(out, frame_.data(), kBlock);
  if (bytes_ > 2 * kBlock) std::memcpy(out + kBlock, frame_.data() + kBlock, kBlock);
  std::memcpy(out + bytes_ - kBlock, frame_.data() + bytes_ - kBlock, kBlock);
  uint8_t* const from = out + bytes_;
  const PsnWord word{static_cast<uint8_t>(fields.ack_request ? kBthAckRequest : 0),
                     fields.psn.value()};
  std::memcpy(from, &word, sizeof word);
  uint8_t* const payload = put_extension_headers(from + sizeof word, fields);
  crc = icrc_go_on(crc_, {from, static_cast<size_t>(payload - from)});
  return payload;
}

}  // namespace understudy
