// Runs the packet scripts of tests/data/rc (their README says how they read) against one queue
// pair under a virtual clock.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

#include "dataplane/rc/qp.h"

namespace understudy {
namespace {

constexpr uint32_t kMemoryBytes = 1 << 17;
constexpr const char* kStatusNames[] = {"success",
                                        "retry_exceeded",
                                        "rnr_retry_exceeded",
                                        "remote_invalid_request",
                                        "remote_access",
                                        "remote_operational",
                                        "flushed"};

uint8_t pattern(uint64_t at) { return static_cast<uint8_t>(at * 7 + (at >> 8) + 3); }

/// "WRITE_ONLY psn=5 ackreq len=64": a name, numbers by key, and flags (value 1).
struct Line {
  explicit Line(std::istringstream& in) {
    in >> name;
    for (std::string word; in >> word && word[0] != '#';) {
      const size_t equals = word.find('=');
      const std::string value = equals == std::string::npos ? "1" : word.substr(equals + 1);
      const std::string key = word.substr(0, equals);
      size_t used = 0;
      try {
        values[key] = std::stoull(value, &used, 0);
      } catch (const std::exception&) {
      }
      if (used != value.size()) ADD_FAILURE() << "not a number: " << word;
    }
  }
  uint64_t get(const std::string& key, uint64_t otherwise = 0) const {
    const auto it = values.find(key);
    return it == values.end() ? otherwise : it->second;
  }
  std::string name;
  std::map<std::string, uint64_t> values;
};

class Runner : public QpOwner {
 public:
  Runner() : regions_(16), memory_(kMemoryBytes), sent_(kMemoryBytes), read_(kMemoryBytes) {
    for (size_t i = 0; i < kMemoryBytes; ++i) memory_[i] = sent_[i] = pattern(i);
    config_.node = 1;
    config_.remote_qpn = 0x77;
    config_.mtu = 256;
    config_.timeout = 14;
  }

  void run(const std::string& text) {
    std::istringstream in(text);
    const std::string verb = (in >> std::ws, std::string(1, static_cast<char>(in.get())));
    if (verb == "<") return packet_in(Line(in));
    if (verb == ">") return packet_out(Line(in));
    if (verb == "+") return advance(text);
    if (verb == "!") return expect_event(text.substr(text.find_first_not_of(" !")));
    if (verb == "=") return expect_counter(Line(in));
    in.unget();
    const Line line(in);
    if (line.name == "qp") return configure(line);
    if (line.name == "region") return add_region(line);
    if (line.name == "remove") return regions_.remove(static_cast<uint32_t>(line.get("region")));
    if (line.name == "receives") {
      if (line.get("endless") != 0) return qp().responder().set_endless_receives();
      return qp().responder().post_receives(line.get("count"));
    }
    if (line.name == "buffer") {
      return qp().responder().set_receive_buffer({memory_.data(), line.get("bytes")});
    }
    if (line.name == "memory") return expect_memory(line);
    post(line);
  }

  void finish() {
    EXPECT_FALSE(qp().can_send(now_, TrafficKind::kAny)) << "a packet is left over";
    for (const std::string& event : events_) ADD_FAILURE() << "not expected: " << event;
  }

  void on_received(Time, Qp&, const Received& m) override {
    std::string text = m.is_write ? "received WRITE" : "received SEND";
    text += " len=" + std::to_string(m.length);
    if (m.has_imm) text += " imm=" + std::to_string(m.imm);
    events_.push_back(text);
  }
  void on_completed(Time, Qp&, uint64_t id, WorkStatus status) override {
    events_.push_back("done id=" + std::to_string(id) + " " +
                      kStatusNames[static_cast<size_t>(status)]);
  }

 private:
  Qp& qp() {
    if (!qp_) qp_ = std::make_unique<Qp>(config_, regions_, counters_, *this);
    return *qp_;
  }

  void configure(const Line& line) {
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
  }

  void add_region(const Line& line) {
    Region r;
    r.node = static_cast<NodeId>(line.get("node", config_.node));
    r.va = line.get("va");
    r.length = line.get("len", kMemoryBytes);
    r.access = static_cast<uint8_t>((line.get("write") != 0 ? kAccessRemoteWrite : 0) |
                                    (line.get("read") != 0 ? kAccessRemoteRead : 0));
    r.bytes = r.length <= kMemoryBytes ? memory_.data() : nullptr;
    ASSERT_TRUE(regions_.add(static_cast<uint32_t>(line.get("index")), r));
  }

  Opcode opcode(const std::string& name) {
    for (unsigned op = 0; op < 256; ++op) {
      const char* known = opcode_info(static_cast<uint8_t>(op)).name;
      if (known != nullptr && name == known) return Opcode{static_cast<uint8_t>(op)};
    }
    if (name != "ACK" && name != "NAK" && name != "RNR") ADD_FAILURE() << "no opcode: " << name;
    return Opcode::kAcknowledge;
  }

  static uint8_t syndrome(const Line& line) {
    if (line.name == "NAK") return static_cast<uint8_t>(kSyndromeNak | line.get("code"));
    if (line.name == "RNR") return static_cast<uint8_t>(kSyndromeRnrNak | line.get("timer"));
    return kSyndromeAck | kNoCredits;
  }

  void packet_in(const Line& line) {
    RoceView v;
    v.opcode = static_cast<uint8_t>(opcode(line.name));
    v.psn = Psn(static_cast<uint32_t>(line.get("psn")));
    v.ack_request = line.get("ackreq") != 0;
    v.payload_bytes = static_cast<uint32_t>(line.get("len"));
    v.pad = static_cast<uint8_t>(line.get("pad", (4 - v.payload_bytes % 4) % 4));
    v.va = line.get("va");
    v.rkey = static_cast<Rkey>(line.get("rkey"));
    if (line.values.count("region") != 0) {
      v.rkey = regions_.rkey(static_cast<uint32_t>(line.get("region")));
    }
    v.dma_length = static_cast<uint32_t>(line.get("dma", v.payload_bytes));
    v.imm = static_cast<uint32_t>(line.get("imm"));
    v.syndrome = syndrome(line);
    v.msn = static_cast<uint32_t>(line.get("msn"));
    std::vector<uint8_t> payload(v.payload_bytes);
    for (size_t i = 0; i < payload.size(); ++i) payload[i] = pattern(line.get("from") + i);
    qp().on_packet(now_, v, payload.data());
  }

  void packet_out(const Line& line) {
    OutPacket out;
    bool departs = false;
    uint64_t id = 0;
    const bool sent = qp().can_send(now_, TrafficKind::kAny) &&
                      qp().pull(now_, TrafficKind::kAny, out, departs, id);
    if (line.name == "nothing") {
      EXPECT_FALSE(sent) << opcode_info(out.fields.opcode).name << " " << out.fields.psn.value();
      return;
    }
    ASSERT_TRUE(sent) << "nothing to send";
    ASSERT_STREQ(opcode_info(out.fields.opcode).name, opcode_info(opcode(line.name)).name)
        << "psn " << out.fields.psn.value();
    if (out.fields.opcode == Opcode::kAcknowledge) {
      EXPECT_EQ(out.fields.syndrome, syndrome(line));
    }
    const std::map<std::string, uint64_t> actual = {
        {"psn", out.fields.psn.value()}, {"msn", out.fields.msn},
        {"len", out.payload_bytes},      {"dma", out.fields.dma_length},
        {"va", out.fields.va},           {"imm", out.fields.imm},
        {"rkey", out.fields.rkey},       {"ackreq", out.fields.ack_request ? 1 : 0},
        {"qpn", out.fields.dest_qpn}};
    for (const auto& [key, value] : line.values) {
      if (key == "from") {
        std::vector<uint8_t> payload(out.payload_bytes);
        out.payload.write(payload);
        for (size_t i = 0; i < payload.size(); ++i) ASSERT_EQ(payload[i], pattern(value + i)) << i;
      } else if (key != "code" && key != "timer") {
        ASSERT_EQ(actual.count(key), 1u) << key;
        EXPECT_EQ(actual.at(key), value) << key;
      }
    }
    EXPECT_EQ(out.fields.ack_request, line.get("ackreq") != 0);
  }

  void post(const Line& line) {
    static const std::map<std::string, WorkOp> kOps = {{"SEND", WorkOp::kSend},
                                                       {"SEND_IMM", WorkOp::kSendImm},
                                                       {"WRITE", WorkOp::kWrite},
                                                       {"WRITE_IMM", WorkOp::kWriteImm},
                                                       {"READ", WorkOp::kRead}};
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
    EXPECT_EQ(qp().post(r), line.get("refused") == 0);
  }

  void advance(const std::string& text) {
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

  void expect_event(const std::string& text) {
    ASSERT_FALSE(events_.empty()) << "no event";
    EXPECT_EQ(events_.front(), text);
    events_.pop_front();
  }

  void expect_counter(const Line& line) {
    for (size_t i = 0; i < counters_.size(); ++i) {
      if (line.name == rc_event_name(static_cast<RcEvent>(i))) {
        EXPECT_EQ(counters_[i], line.get("is"));
        return;
      }
    }
    ADD_FAILURE() << "no counter: " << line.name;
  }

  /// memory at=A len=N from=F: what lies there is the pattern from F on; of=read: what READ wrote.
  void expect_memory(const Line& line) {
    const auto& bytes = line.get("read") != 0 ? read_ : memory_;
    for (uint64_t i = 0; i < line.get("len"); ++i) {
      ASSERT_EQ(bytes[line.get("at") + i], pattern(line.get("from") + i)) << "byte " << i;
    }
  }

  QpConfig config_;
  RegionTable regions_;
  RcCounters counters_{};
  std::vector<uint8_t> memory_, sent_, read_;
  std::unique_ptr<Qp> qp_;
  std::deque<std::string> events_;
  Time now_;
};

class RcScript : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(RcScript, Runs) {
  std::ifstream in(GetParam());
  ASSERT_TRUE(in) << GetParam();
  std::unique_ptr<Runner> runner = std::make_unique<Runner>();
  std::string title = "?", line;
  for (int number = 1; std::getline(in, line); ++number) {
    SCOPED_TRACE(GetParam().filename().string() + ":" + std::to_string(number) + " [" + title +
                 "] " + line);
    if (line.empty() || line[0] == '#') continue;
    if (line.rfind("---", 0) == 0) {
      if (number > 1) runner->finish();
      runner = std::make_unique<Runner>();
      title = line.substr(3);
      continue;
    }
    runner->run(line);
    if (HasFatalFailure()) return;
  }
  runner->finish();
}

std::vector<std::filesystem::path> scripts() {
  std::vector<std::filesystem::path> out;
  for (const auto& entry : std::filesystem::directory_iterator(UNDERSTUDY_TEST_DATA "/rc")) {
    if (entry.path().extension() == ".rc") out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

INSTANTIATE_TEST_SUITE_P(Files, RcScript, testing::ValuesIn(scripts()),
                         [](const auto& info) { return info.param.stem().string(); });

}  // namespace
}  // namespace understudy
