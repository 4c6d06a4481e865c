#include "dataplane/wire/pfc.h"

#include <cstring>

namespace understudy {
namespace {

constexpr uint16_t kPfcOpcode = 0x0101;

struct PfcBody {
  Be16 opcode;
  Be16 priorities;
  Be16 quanta[kPfcPriorities];
};
static_assert(sizeof(EthHeader) + sizeof(PfcBody) == kPfcHeaderBytes);

}  // namespace

void write_pfc(const PfcFrame& frame, uint8_t* out) {
  EthHeader eth;
  std::memcpy(eth.dst, kPfcDestination.bytes.data(), sizeof eth.dst);
  std::memcpy(eth.src, frame.source.bytes.data(), sizeof eth.src);
  eth.type = kEtherMacControl;
  PfcBody body;
  body.opcode = kPfcOpcode;
  body.priorities = frame.priorities;
  for (unsigned p = 0; p < kPfcPriorities; ++p) {
    if ((frame.priorities >> p & 1) != 0) body.quanta[p] = frame.quanta[p];
  }
  std::memset(out, 0, kPfcFrameBytes);
  std::memcpy(out, &eth, sizeof eth);
  std::memcpy(out + sizeof eth, &body, sizeof body);
}

bool parse_pfc(std::span<const uint8_t> frame, PfcFrame& out) {
  if (frame.size() < kPfcHeaderBytes) return false;
  EthHeader eth;
  PfcBody body;
  std::memcpy(&eth, frame.data(), sizeof eth);
  std::memcpy(&body, frame.data() + sizeof eth, sizeof body);
  if (std::memcmp(eth.dst, kPfcDestination.bytes.data(), sizeof eth.dst) != 0 ||
      eth.type.get() != kEtherMacControl || body.opcode.get() != kPfcOpcode) {
    return false;
  }
  std::memcpy(out.source.bytes.data(), eth.src, sizeof eth.src);
  out.priorities = static_cast<uint8_t>(body.priorities.get() & 0xff);
  for (unsigned p = 0; p < kPfcPriorities; ++p) {
    out.quanta[p] = (out.priorities >> p & 1) != 0 ? body.quanta[p].get() : uint16_t{0};
  }
  return true;
}

}  // namespace understudy
