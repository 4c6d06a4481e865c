// What each line of a packet script does.
#pragma once

#include <cstring>

#include "tests/rc/script.h"

namespace understudy {

inline constexpr uint32_t kScriptMemory = 1 << 17;

inline uint8_t script_pattern(uint64_t at) { return static_cast<uint8_t>(at * 7 + (at >> 8) + 3); }

inline ScriptRunner::ScriptRunner()
    : regions_(16), memory_(kScriptMemory), sent_(kScriptMemory), read_(kScriptMemory) {
  for (size_t i = 0; i < kScriptMemory; ++i) memory_[i] = sent_[i] = script_pattern(i);
  config_.node = 1;
  config_.remote_qpn = 0x77;
  config_.mtu = 256;
  config_.timeout = 14;
}

inline Qp& ScriptRunner::qp() {
  if (!qp_) qp_ = std::make_unique<Qp>(config_, regions_, counters_, *this);
  return *qp_;
}

inline void ScriptRunner::run(const std::string& text) {
  std::istringstream in(text);
  const std::string verb = (in >> std::ws, std::string(1, static_cast<char>(in.get())));
  if (verb == "<") return packet_in(ScriptLine(in));
  if (verb == ">") return packets_out(ScriptLine(in));
  if (verb == "+") return advance(text);
  if (verb == "!") return expect_event(text.substr(text.find_first_not_of(" !")));
  if (verb == "=") return expect_counter(ScriptLine(in));
  in.unget();
  command(ScriptLine(in));
}

inline QpState script_state(const std::string& name) {
  for (unsigned s = 0; s <= static_cast<unsigned>(QpState::kError); ++s) {
    if (name == qp_state_name(static_cast<QpState>(s))) return static_cast<QpState>(s);
  }
  ADD_FAILURE() << "no state: " << name;
  return QpState::kReset;
}

inline void ScriptRunner::command(const ScriptLine& line) {
  const std::string& verb = line.name;
  if (verb == "qp") return configure(line);
  if (verb == "region") return add_region(line);
  if (verb == "remove") return regions_.remove(static_cast<uint32_t>(line.get("region")));
  if (verb == "memory") return expect_memory(line);
  if (verb == "word") return word(line);
  if (verb == "receives") {
    if (line.has("endless")) return qp().responder().set_endless_receives();
    return qp().responder().post_receives(line.get("count"));
  }
  if (verb == "buffer") {
    return qp().responder().set_receive_buffer({memory_.data(), line.get("bytes")});
  }
  if (verb != "start" && verb != "state" && verb != "modify" && verb != "refuse") {
    return post(line);
  }
  for (const auto& [key, value] : line.values) {
    if (verb == "start") config_.start = script_state(key);
    if (verb == "state") {
      EXPECT_STREQ(qp_state_name(qp().state()), key.c_str());
    } else if (verb != "start") {
      EXPECT_EQ(qp().modify(now_, script_state(key)), verb == "modify") << key;
    }
  }
}

inline void ScriptRunner::finish() {
  EXPECT_FALSE(qp().can_send(now_, TrafficKind::kAny)) << "a packet is left over";
  for (const std::string& event : events_) ADD_FAILURE() << "not expected: " << event;
}

inline void ScriptRunner::on_received(Time, Qp&, const Received& m) {
  std::string text = m.is_write ? "received WRITE" : "received SEND";
  text += " len=" + std::to_string(m.length);
  if (m.has_imm) text += " imm=" + std::to_string(m.imm);
  if (m.has_invalidate) text += " invalidated=" + std::to_string((m.invalidated >> 8) - 1);
  if (m.solicited) text += " solicited";
  events_.push_back(text);
}

inline void ScriptRunner::on_completed(Time, Qp&, uint64_t id, WorkStatus status) {
  static constexpr const char* kNames[] = {"success",
                                           "retry_exceeded",
                                           "rnr_retry_exceeded",
                                           "remote_invalid_request",
                                           "remote_access",
                                           "remote_operational",
                                           "flushed"};
  events_.push_back("done id=" + std::to_string(id) + " " + kNames[static_cast<size_t>(status)]);
}

inline void ScriptRunner::configure(const ScriptLine& line) {
  auto set = [&](const char* key, auto& field) {
    field = static_cast<std::remove_reference_t<decltype(field)>>(line.get(key, field));
  };
  config_.rq_psn = Psn(static_cast<uint32_t>(line.get("rq_psn")));
  config_.sq_psn = Psn(static_cast<uint32_t>(line.get("sq_psn")));
  set("mtu", config_.mtu);
  set("timeout", config_.timeout);
  set("retry", config_.retry_count);
  set("rnr_retry", config_.rnr_retry);
  set("min_rnr", config_.min_rnr_timer);
  set("max_rd", config_.max_rd_atomic);
  set("max_dest_rd", config_.max_dest_rd_atomic);
  set("access", config_.access);
  set("send_queue", config_.send_queue);
  set("pkey", config_.pkey);
  set("migration", config_.migration);
  set("flow_control", config_.flow_control);
}

inline void ScriptRunner::add_region(const ScriptLine& line) {
  Region r;
  r.node = static_cast<NodeId>(line.get("node", config_.node));
  r.va = line.get("va");
  r.length = line.get("len", kScriptMemory);
  r.access = static_cast<uint8_t>((line.has("write") ? kAccessRemoteWrite : 0) |
                                  (line.has("read") ? kAccessRemoteRead : 0) |
                                  (line.has("atomic") ? kAccessRemoteAtomic : 0) |
                                  (line.has("invalidate") ? kAccessRemoteInvalidate : 0));
  r.pattern = line.has("pattern");
  const bool backed = r.length <= kScriptMemory && !line.has("discard") && !r.pattern;
  r.bytes = backed ? memory_.data() : nullptr;
  ASSERT_TRUE(regions_.add(static_cast<uint32_t>(line.get("index")), r));
}

inline Opcode script_opcode(const std::string& name) {
  for (unsigned op = 0; op < 256; ++op) {
    const char* known = opcode_info(static_cast<uint8_t>(op)).name;
    if (known != nullptr && name == known) return Opcode{static_cast<uint8_t>(op)};
  }
  if (name != "ACK" && name != "NAK" && name != "RNR") ADD_FAILURE() << "no opcode: " << name;
  return Opcode::kAcknowledge;
}

inline uint8_t script_syndrome(const ScriptLine& line) {
  if (line.has("syndrome")) return static_cast<uint8_t>(line.get("syndrome"));
  if (line.name == "NAK") return static_cast<uint8_t>(kSyndromeNak | line.get("code"));
  if (line.name == "RNR") return static_cast<uint8_t>(kSyndromeRnrNak | line.get("timer"));
  return static_cast<uint8_t>(kSyndromeAck | line.get("credits", kNoCredits));
}

inline void ScriptRunner::packet_in(const ScriptLine& line) {
  RoceView v;
  v.opcode = static_cast<uint8_t>(script_opcode(line.name));
  v.psn = Psn(static_cast<uint32_t>(line.get("psn")));
  v.ack_request = line.has("ackreq");
  v.solicited = line.has("se");
  v.migration = line.has("migration");
  v.payload_bytes = static_cast<uint32_t>(line.get("len"));
  v.pad = static_cast<uint8_t>(line.get("pad", (4 - v.payload_bytes % 4) % 4));
  v.va = line.get("va");
  v.rkey = static_cast<Rkey>(line.get("rkey"));
  if (line.has("region")) v.rkey = regions_.rkey(static_cast<uint32_t>(line.get("region")));
  v.dma_length = static_cast<uint32_t>(line.get("dma", v.payload_bytes));
  v.imm = static_cast<uint32_t>(line.get("imm"));
  if (line.has("invalidate")) v.imm = regions_.rkey(static_cast<uint32_t>(line.get("invalidate")));
  v.swap_add = line.get("add", line.get("swap"));
  v.compare = line.get("compare");
  v.atomic_original = line.get("original");
  v.syndrome = script_syndrome(line);
  v.msn = static_cast<uint32_t>(line.get("msn"));
  std::vector<uint8_t> payload(v.payload_bytes);
  for (size_t i = 0; i < payload.size(); ++i) payload[i] = script_pattern(line.get("from") + i);
  qp().on_packet(now_, v, payload.data());
}

inline void ScriptRunner::packets_out(ScriptLine line) {
  do {
    packet_out(line);
    if (testing::Test::HasFatalFailure()) return;
  } while (line.values["psn"]++ < line.last_psn);
}

inline void ScriptRunner::packet_out(const ScriptLine& line) {
  OutPacket out;
  bool departs = false;
  uint64_t id = 0;
  const bool sent = qp().can_send(now_, TrafficKind::kAny) &&
                    qp().pull(now_, TrafficKind::kAny, out, departs, id);
  const RoceFields& f = out.fields;
  if (line.name == "nothing") {
    EXPECT_FALSE(sent) << opcode_info(f.opcode).name << " " << f.psn.value();
    return;
  }
  ASSERT_TRUE(sent) << "nothing to send";
  ASSERT_STREQ(opcode_info(f.opcode).name, opcode_info(script_opcode(line.name)).name)
      << "psn " << f.psn.value();
  if (opcode_info(f.opcode).aeth) {
    EXPECT_EQ(f.syndrome, script_syndrome(line));
  }
  std::map<std::string, uint64_t> actual = {{"psn", f.psn.value()},
                                            {"msn", f.msn},
                                            {"len", out.payload_bytes},
                                            {"dma", f.dma_length},
                                            {"va", f.va},
                                            {"imm", f.imm},
                                            {"rkey", f.rkey},
                                            {"ackreq", f.ack_request ? 1 : 0},
                                            {"qpn", f.dest_qpn},
                                            {"se", f.solicited ? 1 : 0},
                                            {"add", f.swap_add},
                                            {"swap", f.swap_add},
                                            {"compare", f.compare},
                                            {"original", f.atomic_original},
                                            {"pkey", f.pkey},
                                            {"migration", f.migration ? 1 : 0}};
  for (const auto& [key, value] : line.values) {
    if (key == "place") {
      std::vector<uint8_t> payload(out.payload_bytes);
      out.payload.write(payload);
      for (size_t i = 0; i < payload.size(); ++i) {
        ASSERT_EQ(payload[i], PlacePattern::at(value + i)) << i;
      }
    } else if (key == "from") {
      std::vector<uint8_t> payload(out.payload_bytes);
      out.payload.write(payload);
      for (size_t i = 0; i < payload.size(); ++i) {
        ASSERT_EQ(payload[i], script_pattern(value + i)) << i;
      }
    } else if (key != "code" && key != "timer" && key != "credits") {
      ASSERT_EQ(actual.count(key), 1u) << key;
      EXPECT_EQ(actual.at(key), value) << key;
    }
  }
  EXPECT_EQ(f.ack_request, line.has("ackreq"));
  EXPECT_EQ(f.solicited, line.has("se"));
}

inline void ScriptRunner::post(const ScriptLine& line) {
  static const std::map<std::string, WorkOp> kOps = {{"SEND", WorkOp::kSend},
                                                     {"SEND_IMM", WorkOp::kSendImm},
                                                     {"SEND_INV", WorkOp::kSendInvalidate},
                                                     {"WRITE", WorkOp::kWrite},
                                                     {"WRITE_IMM", WorkOp::kWriteImm},
                                                     {"READ", WorkOp::kRead},
                                                     {"CMP_SWAP", WorkOp::kCompareSwap},
                                                     {"FETCH_ADD", WorkOp::kFetchAdd}};
  ASSERT_EQ(kOps.count(line.name), 1u) << line.name;
  WorkRequest r;
  r.op = kOps.at(line.name);
  r.id = line.get("id");
  r.length = static_cast<uint32_t>(line.get("len"));
  r.remote_va = line.get("va");
  r.rkey = static_cast<Rkey>(line.get("rkey"));
  r.imm = static_cast<uint32_t>(line.get("imm"));
  r.payload.bytes = sent_.data();
  r.payload.offset = line.get("from");
  r.read_to = read_.data();
  r.invalidate = static_cast<Rkey>(line.get("invalidate"));
  r.compare_add = line.get("compare", line.get("add"));
  r.swap = line.get("swap");
  r.fence = line.has("fence");
  r.solicited = line.has("solicited");
  EXPECT_EQ(qp().post(r), !line.has("refused"));
}

inline void ScriptRunner::advance(const std::string& text) {
  std::istringstream in(text.substr(text.find('+') + 1));
  double amount = 0;
  std::string unit;
  in >> amount >> unit;
  ASSERT_TRUE(unit == "us" || unit == "ns" || unit == "ms") << text;
  const double ps = amount * (unit == "us" ? 1e6 : unit == "ns" ? 1e3 : 1e9);
  const Time until = now_ + Duration::ps(static_cast<int64_t>(ps));
  while (qp().deadline() <= until) {
    now_ = std::max(now_, qp().deadline());
    qp().on_timer(now_);
  }
  now_ = until;
}

inline void ScriptRunner::expect_event(const std::string& text) {
  ASSERT_FALSE(events_.empty()) << "no event";
  EXPECT_EQ(events_.front(), text);
  events_.pop_front();
}

inline void ScriptRunner::expect_counter(const ScriptLine& line) {
  for (size_t i = 0; i < counters_.size(); ++i) {
    if (line.name == rc_event_name(static_cast<RcEvent>(i))) {
      EXPECT_EQ(counters_[i], line.get("is"));
      return;
    }
  }
  ADD_FAILURE() << "no counter: " << line.name;
}

/// memory at=A len=N from=F: what lies there is the pattern from F on; read: what READ wrote.
inline void ScriptRunner::expect_memory(const ScriptLine& line) {
  const auto& bytes = line.has("read") ? read_ : memory_;
  for (uint64_t i = 0; i < line.get("len"); ++i) {
    ASSERT_EQ(bytes[line.get("at") + i], script_pattern(line.get("from") + i)) << "byte " << i;
  }
}

/// word at=A set=V, word at=A is=V: eight bytes in the host's order.
inline void ScriptRunner::word(const ScriptLine& line) {
  uint8_t* at = (line.has("read") ? read_ : memory_).data() + line.get("at");
  uint64_t value = line.get("set");
  if (line.has("set")) {
    std::memcpy(at, &value, sizeof value);
  } else {
    std::memcpy(&value, at, sizeof value);
    EXPECT_EQ(value, line.get("is"));
  }
}

}  // namespace understudy
