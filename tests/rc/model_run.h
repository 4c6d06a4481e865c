// Runs a program of verbs on two queue pairs over a link that loses, repeats, delays and damages
// frames, and on which a stranger sends frames of his own, under virtual time. Whatever comes, only
// the packet that a side expects changes anything there.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "dataplane/rc/qp.h"
#include "dataplane/wire/parse.h"
#include "tests/rc/model.h"
#include "tests/wire/frames.h"

namespace understudy {

class ModelRun {
 public:
  using Dice = std::function<uint64_t()>;
  /// `dice` decides all that is left to chance; by default the program's seed does.
  explicit ModelRun(const ModelProgram& program, Dice dice = {})
      : program_(program), random_(dice ? std::move(dice) : Dice(std::mt19937_64(program.seed))) {
    for (unsigned s = 0; s < 2; ++s) sides_[s] = std::make_unique<Side>(*this, s);
  }

  /// What went wrong on the way, or an empty text.
  std::string run() {
    for (uint64_t turn = 0; failure_.empty(); ++turn) {
      if (turn > 2'000'000) return "it does not come to an end";
      now_ += Duration::ns(500);
      for (const auto& side : sides_) side->act();
      deliver_due();
      for (const auto& side : sides_) {
        if (side->qp->deadline() <= now_) side->qp->on_timer(now_);
      }
      if (sides_[0]->busy() || sides_[1]->busy()) continue;
      if (over()) return failure_;
      jump();
    }
    return failure_;
  }
  const ModelOutcome& outcome(unsigned side) const { return sides_[side]->outcome; }
  uint64_t counted(RcEvent e) const {
    return sides_[0]->counters[static_cast<size_t>(e)] +
           sides_[1]->counters[static_cast<size_t>(e)];
  }

 private:
  static constexpr uint64_t kVa = 0x7f0000000000;
  static constexpr uint32_t kMemoryRegion = 1, kFirstTicket = 2;

  struct Side : QpOwner {
    Side(ModelRun& run, unsigned number) : run(run), number(number), regions(8) {
      const ModelProgram& p = run.program_;
      QpConfig c;
      c.node = number + 1;
      c.qpn = 0x10 + number;
      c.remote_qpn = 0x11 - number;
      c.mtu = p.mtu;
      c.timeout = 8;  // 1.05 ms
      c.retry_count = 255;
      c.send_queue = 32;
      c.min_rnr_timer = 1;
      c.max_rd_atomic = c.max_dest_rd_atomic = static_cast<uint8_t>(p.depth);
      c.sq_psn = Psn(p.first_psn[number]);
      c.rq_psn = Psn(p.first_psn[1 - number]);
      c.flow_control = p.flow_control;
      c.addressing = sample_addressing(false);
      regions.add(kMemoryRegion,
                  {c.node, kVa, kModelMemory, kAccessRemoteAny, outcome.memory.data(), true});
      for (uint32_t i = 0; i < kModelTickets; ++i) {
        regions.add(kFirstTicket + i, {c.node, 0, 8, kAccessRemoteAny, nullptr, true});
      }
      qp = std::make_unique<Qp>(c, regions, counters, *this);
      qp->responder().set_receive_buffer(received);
      qp->responder().post_receives(1);  // more are posted late, so that RNR happens
      expected = c.rq_psn;
      oldest = next = c.sq_psn;
      for (const ModelStep& s : p.steps) {
        if (s.side == number) work.push_back(&s);
      }
    }

    /// Perhaps posts a receive, a work request, sends a packet.
    void act() {
      const uint64_t dice = run.random_();
      if (dice % 16 == 0) qp->responder().post_receives(1);
      if (posted < work.size() && dice / 16 % 4 == 0) post();
      if (can_send() && dice / 64 % 3 != 0) run.transmit(*this);
    }
    bool can_send() const { return qp->can_send(run.now_, TrafficKind::kAny); }
    /// It will act without being asked to.
    bool busy() const { return posted < work.size() || can_send(); }

    void post() {
      const ModelStep& s = *work[posted];
      WorkRequest r = request_of(s, run.payload_);
      const Side& peer = *run.sides_[1 - number];
      r.id = posted++;
      r.remote_va = kVa + s.at;
      r.rkey = peer.regions.rkey(kMemoryRegion);
      if (s.op == WorkOp::kSendInvalidate) r.invalidate = peer.regions.rkey(kFirstTicket + s.value);
      if (has_result(s.op)) {
        outcome.results.emplace_back(step_bytes(s));
        r.read_to = outcome.results.back().data();
      }
      if (!qp->post(r)) run.fail("post was refused");
      next = next.advance(psns(s));
    }

    void on_received(Time, Qp&, const Received& m) override {
      ModelOutcome::Message in;
      in.write = m.is_write;
      in.length = m.length;
      in.has_imm = m.has_imm;
      if (m.has_imm) in.imm = m.imm;
      in.has_invalidate = m.has_invalidate;
      if (m.is_write) in.at = static_cast<uint32_t>(m.va - kVa);
      if (m.has_invalidate) {
        in.ticket = (m.invalidated >> 8) - 1 - kFirstTicket;
        if (in.ticket < kModelTickets) {
          outcome.taken[in.ticket] = regions.find(m.invalidated, number + 1) == nullptr;
        }
      }
      if (!m.is_write) in.bytes.assign(received.begin(), received.begin() + m.length);
      outcome.messages.push_back(std::move(in));
    }
    void on_completed(Time, Qp&, uint64_t id, WorkStatus status) override {
      if (id != completed++) return run.fail("completions are out of order");
      oldest = oldest.advance(psns(*work[id]));
      if (status != WorkStatus::kSuccess) {
        run.fail("work ends with status " + std::to_string(static_cast<int>(status)));
      }
    }

    uint32_t psns(const ModelStep& s) const {
      const uint32_t mtu = run.program_.mtu;
      return is_atomic(s.op) ? 1 : std::max<uint32_t>(1, (s.length + mtu - 1) / mtu);
    }

    /// A packet arrives. One that is not the expected request leaves memory and messages alone, and
    /// one that is brings no more than one message; an answer to nothing completes nothing.
    void receive(const RoceView& packet, const uint8_t* payload) {
      const OpcodeInfo& info = packet.info();
      const bool awaited = info.is_request() && packet.psn == expected;
      const bool outstanding =
          packet.psn.distance_from(oldest) >= 0 && packet.psn.distance_from(next) < 0;
      const size_t messages = outcome.messages.size(), done = completed;
      const uint64_t refused = counters[static_cast<size_t>(RcEvent::kRnrSent)];
      qp->on_packet(run.now_, packet, payload);
      if (awaited) {
        known = outcome.memory;
      } else if (outcome.memory != known || outcome.messages.size() != messages) {
        run.fail("a packet outside the window was executed");
      }
      if (outcome.messages.size() > messages + 1) run.fail("one packet brought several messages");
      if (completed != done && (!info.is_response() || !outstanding)) {
        run.fail("an answer to nothing completed something");
      }
      if (!awaited || counters[static_cast<size_t>(RcEvent::kRnrSent)] != refused) return;
      const bool read = info.kind == OpKind::kReadRequest;
      const uint32_t mtu = run.program_.mtu;
      expected =
          expected.advance(read ? std::max<uint32_t>(1, (packet.dma_length + mtu - 1) / mtu) : 1);
    }

    ModelRun& run;
    unsigned number;
    Psn expected;      ///< of the next request that may be executed
    Psn oldest, next;  ///< own requests that are not completed: from one to before the other
    RegionTable regions;
    RcCounters counters{};
    ModelOutcome outcome;
    std::vector<uint8_t> received = std::vector<uint8_t>(kMostModelBytes);
    std::vector<uint8_t> known = outcome.memory;  ///< after the last request that may be executed
    std::vector<const ModelStep*> work;
    size_t posted = 0, completed = 0;
    std::unique_ptr<Qp> qp;
  };
  struct Flight {
    unsigned to;
    std::vector<uint8_t> frame;
  };

  void fail(const std::string& text) {
    if (failure_.empty()) failure_ = text;
  }
  bool chance(uint32_t permille) { return random_() % 1000 < permille; }

  void transmit(Side& side) {
    OutPacket out;
    bool departs;
    uint64_t id;
    if (!side.qp->pull(now_, TrafficKind::kAny, out, departs, id)) {
      return fail("can_send() promised a packet");
    }
    if (chance(program_.link.forged)) forge(*sides_[random_() % 2]);
    std::vector<uint8_t> payload(out.payload_bytes);
    out.payload.write(payload);
    const auto frame = roce_frame(side.qp->config().addressing, out.fields, payload);
    for (unsigned copies = chance(program_.link.repeated) ? 2 : 1; copies > 0; --copies) {
      if (chance(program_.link.lost)) continue;
      Flight flight{1 - side.number, frame};
      if (chance(program_.link.corrupted)) {
        const uint64_t bit = random_() % (frame.size() * 8);
        flight.frame[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
      }
      Duration delay = Duration::us(2);
      if (chance(program_.link.reordered)) {
        delay += Duration::ns(static_cast<int64_t>(random_() % 100'000));
      }
      calendar_.emplace(now_ + delay, std::move(flight));
    }
  }

  /// A good packet for `to` that its peer has not sent, with a PSN that is none of those awaited.
  void forge(Side& to) {
    static constexpr Opcode kOpcodes[] = {
        Opcode::kSendFirst,        Opcode::kSendMiddle,         Opcode::kSendLast,
        Opcode::kSendOnlyImm,      Opcode::kSendOnlyInv,        Opcode::kWriteFirst,
        Opcode::kWriteMiddle,      Opcode::kWriteLastImm,       Opcode::kWriteOnly,
        Opcode::kReadRequest,      Opcode::kCompareSwap,        Opcode::kFetchAdd,
        Opcode::kReadResponseOnly, Opcode::kReadResponseMiddle, Opcode::kAcknowledge,
        Opcode::kAtomicAcknowledge};
    RoceFields f;
    f.opcode = kOpcodes[random_() % std::size(kOpcodes)];
    f.dest_qpn = to.qp->config().qpn;
    f.ack_request = random_() % 2 != 0;
    f.va = kVa + random_() % 64 * 8;
    f.rkey = to.regions.rkey(kMemoryRegion);
    f.imm = f.opcode == Opcode::kSendOnlyInv ? to.regions.rkey(kFirstTicket) : 7;
    f.msn = static_cast<uint32_t>(random_()) & Psn::kMask;
    f.swap_add = f.atomic_original = random_();
    static constexpr uint8_t kSyndromes[] = {kSyndromeAck,     kSyndromeAck | kNoCredits,
                                             kSyndromeNak,     kSyndromeNak | 1,
                                             kSyndromeNak | 2, kSyndromeRnrNak};
    f.syndrome = kSyndromes[random_() % std::size(kSyndromes)];
    const OpcodeInfo& info = opcode_info(f.opcode);
    // Up to a quarter of all PSNs away, on either side.
    const auto away = static_cast<uint32_t>(random_() % (random_() % 2 != 0 ? 8 : 1u << 22));
    const bool behind = random_() % 2 != 0;
    if (info.is_response()) {
      f.psn = behind ? to.oldest.advance(Psn::kMask - away) : to.next.advance(away);
    } else {
      f.psn = behind ? to.expected.advance(Psn::kMask - away) : to.expected.advance(1 + away);
    }
    uint32_t bytes = 0;
    if (info.kind == OpKind::kSend || info.kind == OpKind::kWrite ||
        info.kind == OpKind::kReadResponse) {
      bytes = info.end ? static_cast<uint32_t>(random_() % program_.mtu) : program_.mtu;
    }
    f.dma_length = info.start && info.end ? bytes : program_.mtu * 2;
    // It comes at once: on its way the window would move.
    const auto frame = roce_frame(to.qp->config().addressing, f, std::vector<uint8_t>(bytes, 0x66));
    const Parsed parsed(frame);
    to.receive(parsed.roce, parsed.bytes.data() + parsed.roce.payload);
  }

  void deliver_due() {
    while (!calendar_.empty() && calendar_.begin()->first <= now_) {
      const Flight flight = std::move(calendar_.begin()->second);
      calendar_.erase(calendar_.begin());
      FrameView view;
      RoceView roce;
      if (parse_frame(flight.frame, view, roce) != FrameKind::kRoce || !icrc_ok(view, roce))
        continue;
      Side& to = *sides_[flight.to];
      if (roce.dest_qpn != to.qp->config().qpn) continue;
      to.receive(roce, flight.frame.data() + roce.payload);
    }
  }

  bool over() const {
    if (!calendar_.empty()) return false;
    return std::all_of(std::begin(sides_), std::end(sides_),
                       [](const auto& s) { return s->completed == s->work.size(); });
  }

  /// To the next thing that happens by itself; receives are there by then.
  void jump() {
    Time next = calendar_.empty() ? Time::never() : calendar_.begin()->first;
    for (const auto& side : sides_) {
      side->qp->responder().post_receives(1);
      next = std::min(next, side->qp->deadline());
    }
    if (next.is_never()) return fail("nothing will ever happen again, but work is left");
    now_ = std::max(now_, next);
  }

  const ModelProgram& program_;
  Dice random_;
  ModelPayload payload_;
  std::unique_ptr<Side> sides_[2];
  std::multimap<Time, Flight> calendar_;
  Time now_;
  std::string failure_;
};

/// How the program's run differs from `should`, or an empty text.
inline std::string run_and_compare(const ModelProgram& program,
                                   const std::vector<ModelOutcome>& should,
                                   RcCounters* counters = nullptr, ModelRun::Dice dice = {}) {
  ModelRun run(program, std::move(dice));
  std::string failure = run.run();
  for (unsigned side = 0; side < 2 && failure.empty(); ++side) {
    const std::string text = difference(run.outcome(side), should[side]);
    if (!text.empty()) failure = std::string(side == 0 ? "A: " : "B: ") + text;
  }
  for (size_t e = 0; counters != nullptr && e < counters->size(); ++e) {
    (*counters)[e] += run.counted(static_cast<RcEvent>(e));
  }
  return failure;
}

}  // namespace understudy
