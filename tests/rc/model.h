// Random programs of verbs for two connected queue pairs, and the model of what they come to:
// memory, messages and results as if there were no packets at all.
#pragma once

#include <algorithm>
#include <cstring>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "dataplane/rc/types.h"

namespace understudy {

inline constexpr uint32_t kModelMemory = 4096;  ///< bytes that each side exposes
inline constexpr uint32_t kModelTickets = 4;    ///< regions of each side that a SEND may invalidate
inline constexpr uint32_t kMostModelBytes = 2000;

/// One work request. Everything that is not used by its operation is ignored.
struct ModelStep {
  unsigned side = 0;
  WorkOp op = WorkOp::kSend;
  uint32_t at = 0;      ///< in the peer's memory
  uint32_t length = 0;  ///< of SEND, WRITE, READ
  uint32_t value = 0;   ///< decides payload, immediate, operands; kSendInvalidate: the ticket
  bool fence = false;
};

/// In thousandths of all packets.
struct ModelLink {
  uint32_t lost = 0, repeated = 0, reordered = 0, corrupted = 0;
  uint32_t forged = 0;  ///< followed by one that somebody else made, whose PSN is not in the window
};

struct ModelProgram {
  uint64_t seed = 0;  ///< of everything that happens to packets, and when
  uint32_t mtu = 256;
  uint32_t depth = 4;  ///< READs and ATOMICs in flight
  uint32_t first_psn[2] = {};
  bool flow_control = false;
  ModelLink link;
  std::vector<ModelStep> steps;
};

inline bool is_atomic(WorkOp op) { return op == WorkOp::kCompareSwap || op == WorkOp::kFetchAdd; }
inline bool is_send(WorkOp op) {
  return op == WorkOp::kSend || op == WorkOp::kSendImm || op == WorkOp::kSendInvalidate;
}
inline bool is_write(WorkOp op) { return op == WorkOp::kWrite || op == WorkOp::kWriteImm; }
inline bool has_result(WorkOp op) { return op == WorkOp::kRead || is_atomic(op); }
inline uint32_t step_bytes(const ModelStep& s) { return is_atomic(s.op) ? 8 : s.length; }

/// Payload of a step: bytes that tell steps and offsets apart.
class ModelPayload final : public PayloadSource {
 public:
  void fill(uint64_t cookie, uint64_t offset, std::span<uint8_t> out) const override {
    for (size_t i = 0; i < out.size(); ++i) {
      const uint64_t x =
          (cookie + 1) * 0x9e3779b97f4a7c15ULL + (offset + i) * 0xbf58476d1ce4e5b9ULL;
      out[i] = static_cast<uint8_t>(x >> 56);
    }
  }
};

/// What one side has to show in the end.
struct ModelOutcome {
  struct Message {
    bool write = false, has_imm = false, has_invalidate = false;
    uint32_t imm = 0, ticket = 0;
    uint32_t at = 0, length = 0;
    std::vector<uint8_t> bytes;  ///< of SENDs
    bool operator==(const Message&) const = default;
  };
  std::vector<uint8_t> memory = std::vector<uint8_t>(kModelMemory);
  bool taken[kModelTickets] = {};             ///< tickets
  std::vector<Message> messages;              ///< that came in, in order
  std::vector<std::vector<uint8_t>> results;  ///< of its own READs and ATOMICs, in order
};

/// Packets may be lost and a READ asked for again after what was posted behind it has been
/// executed: only a fence keeps a WRITE or an ATOMIC from changing what an older READ sees (IBTA
/// table 76).
inline void make_sound(ModelProgram& program) {
  for (unsigned side = 0; side < 2; ++side) {
    std::vector<const ModelStep*> reads;
    for (ModelStep& s : program.steps) {
      if (s.side != side) continue;
      if (is_write(s.op) || is_atomic(s.op)) {
        for (const ModelStep* r : reads) {
          s.fence = s.fence || (s.at < r->at + r->length && r->at < s.at + step_bytes(s));
        }
      }
      if (s.fence) reads.clear();
      if (s.op == WorkOp::kRead) reads.push_back(&s);
    }
  }
}

inline ModelProgram random_program(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  ModelProgram p;
  p.seed = seed;
  p.mtu = 256u << below(3);
  p.depth = 1 + below(4);
  p.flow_control = below(2) != 0;
  for (uint32_t& psn : p.first_psn) {
    psn = static_cast<uint32_t>(below(2) != 0 ? Psn::kMask - below(64) : random()) & Psn::kMask;
  }
  p.link = {below(201), below(201), below(201), below(201), below(201)};
  uint32_t tickets[2] = {};
  for (uint32_t n = 2 + below(20); n > 0; --n) {
    ModelStep s;
    s.side = below(2);
    s.op = static_cast<WorkOp>(below(8));
    if (s.op == WorkOp::kSendInvalidate && tickets[s.side] == kModelTickets) s.op = WorkOp::kSend;
    s.value = static_cast<uint32_t>(random());
    if (s.op == WorkOp::kSendInvalidate) s.value = tickets[s.side]++;
    s.length = below(5) == 0 ? below(3) : below(kMostModelBytes);
    // Often to the same places, so that order shows.
    s.at = below(2) != 0 ? below(kModelMemory - kMostModelBytes) : below(64);
    if (is_atomic(s.op)) s.at = below(16) * 8;
    s.fence = below(8) == 0;
    p.steps.push_back(s);
  }
  make_sound(p);
  return p;
}

/// The work request of a step; its address, rkey and buffer are the caller's.
inline WorkRequest request_of(const ModelStep& s, const PayloadSource& payload) {
  WorkRequest r;
  r.op = s.op;
  r.length = s.length;
  r.imm = ~s.value;
  r.payload.source = &payload;
  r.payload.cookie = s.value;
  // Most words are still zero, so that comparisons hold now and then.
  r.compare_add = s.op == WorkOp::kFetchAdd ? s.value : s.value % 2;
  r.swap = s.value | uint64_t{s.value} << 32;
  r.fence = s.fence;
  return r;
}

/// Executes one step of a program as the peer would.
inline void execute(const ModelStep& s, ModelOutcome& self, ModelOutcome& peer) {
  const ModelPayload payload;
  const WorkRequest r = request_of(s, payload);
  const auto at = peer.memory.begin() + s.at;
  if (s.op == WorkOp::kRead) {
    self.results.emplace_back(at, at + s.length);
  } else if (is_atomic(s.op)) {
    uint64_t old;
    std::memcpy(&old, &*at, 8);
    self.results.emplace_back(at, at + 8);
    const uint64_t now = s.op == WorkOp::kFetchAdd ? old + r.compare_add
                         : old == r.compare_add    ? r.swap
                                                   : old;
    std::memcpy(&*at, &now, 8);
  } else {
    ModelOutcome::Message m;
    m.write = is_write(s.op);
    m.length = s.length;
    m.has_imm = s.op == WorkOp::kSendImm || s.op == WorkOp::kWriteImm;
    if (m.has_imm) m.imm = r.imm;
    m.has_invalidate = s.op == WorkOp::kSendInvalidate;
    if (m.has_invalidate) {
      m.ticket = s.value;
      peer.taken[s.value] = true;
    }
    std::vector<uint8_t> bytes(s.length);
    payload.fill(s.value, 0, bytes);
    if (m.write) {
      m.at = s.at;
      std::copy(bytes.begin(), bytes.end(), at);
    } else {
      m.bytes = std::move(bytes);
    }
    peer.messages.push_back(std::move(m));
  }
}

inline std::vector<ModelOutcome> model_outcome(const ModelProgram& program) {
  std::vector<ModelOutcome> sides(2);
  for (const ModelStep& s : program.steps) execute(s, sides[s.side], sides[1 - s.side]);
  return sides;
}

/// What is different, or an empty text.
inline std::string difference(const ModelOutcome& is, const ModelOutcome& should) {
  std::ostringstream out;
  for (uint32_t i = 0; i < kModelMemory; ++i) {
    if (is.memory[i] == should.memory[i]) continue;
    out << "memory differs from byte " << i << " on; ";
    break;
  }
  if (!std::equal(is.taken, is.taken + kModelTickets, should.taken))
    out << "other rkeys are gone; ";
  if (is.messages.size() != should.messages.size()) {
    out << is.messages.size() << " messages instead of " << should.messages.size() << "; ";
  }
  for (size_t i = 0; i < std::min(is.messages.size(), should.messages.size()); ++i) {
    if (is.messages[i] == should.messages[i]) continue;
    out << "message " << i << " is another one; ";
    break;
  }
  if (is.results.size() != should.results.size()) out << "other number of results; ";
  for (size_t i = 0; i < std::min(is.results.size(), should.results.size()); ++i) {
    if (is.results[i] == should.results[i]) continue;
    out << "result " << i << " is another one; ";
    break;
  }
  return out.str();
}

/// The program as a person would read it.
inline std::string program_text(const ModelProgram& p) {
  static constexpr const char* kNames[] = {"SEND", "SEND+imm", "WRITE",    "WRITE+imm",
                                           "READ", "SEND+inv", "CMP_SWAP", "FETCH_ADD"};
  std::ostringstream out;
  out << "seed " << p.seed << ", mtu " << p.mtu << ", depth " << p.depth << ", first PSNs "
      << p.first_psn[0] << " " << p.first_psn[1] << (p.flow_control ? ", credits" : "")
      << "; per mille lost " << p.link.lost << " repeated " << p.link.repeated << " reordered "
      << p.link.reordered << " corrupted " << p.link.corrupted << " forged " << p.link.forged
      << "\n";
  for (const ModelStep& s : p.steps) {
    out << "  " << (s.side == 0 ? "A" : "B") << ": " << kNames[static_cast<size_t>(s.op)] << " at "
        << s.at << " length " << s.length << " value " << s.value << (s.fence ? " fence" : "")
        << "\n";
  }
  return out.str();
}

}  // namespace understudy
