// Our parser and our capture files against an independent reader: every field that tshark shows of
// every RoCEv2 packet equals ours. Skipped where tshark is not installed.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <sstream>

#include "tests/tools/roce_check/capture.h"
#include "tests/wire/frames.h"

namespace understudy {
namespace {

constexpr const char* kFields[] = {"infiniband.bth.opcode",
                                   "infiniband.bth.se",
                                   "infiniband.bth.m",
                                   "infiniband.bth.padcnt",
                                   "infiniband.bth.p_key",
                                   "infiniband.bth.destqp",
                                   "infiniband.bth.a",
                                   "infiniband.bth.psn",
                                   "infiniband.reth.va",
                                   "infiniband.reth.r_key",
                                   "infiniband.reth.dmalen",
                                   "infiniband.aeth.syndrome",
                                   "infiniband.aeth.msn",
                                   "infiniband.deth.q_key",
                                   "infiniband.deth.srcqp",
                                   "infiniband.immdt",
                                   "infiniband.atomicacketh.origremdt",
                                   "infiniband.invariant.crc"};

bool have_tshark() { return std::system("tshark --version >/dev/null 2>&1") == 0; }

/// Lines of a command's output.
std::vector<std::string> output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string all;
  char chunk[4096];
  for (size_t n; (n = fread(chunk, 1, sizeof chunk, pipe.get())) > 0;) all.append(chunk, n);
  std::vector<std::string> lines;
  std::istringstream in(all);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// What tshark would take some payloads for, by their looks.
constexpr const char* kGuesses[] = {"rpcordma", "infiniband.eoib", "infiniband_sdp", "smb_direct",
                                    "lnet"};

/// Field name to text, of each frame; empty where a frame has no such field.
std::vector<std::map<std::string, std::string>> tshark(const std::string& path) {
  std::string command = "tshark -n -r '" + path + "' -T fields -E separator=';' -E occurrence=f";
  for (const char* guess : kGuesses) command += std::string(" --disable-protocol ") + guess;
  for (const char* field : kFields) command += std::string(" -e ") + field;
  command += " -e _ws.malformed -e frame.time_epoch 2>/dev/null";
  std::vector<std::map<std::string, std::string>> out;
  for (const std::string& line : output_of(command)) {
    std::map<std::string, std::string> frame;
    std::istringstream in(line);
    std::string value;
    for (const char* field : kFields) {
      std::getline(in, value, ';');
      if (!value.empty()) frame[field] = value;
    }
    std::getline(in, value, ';');
    EXPECT_EQ(value, "") << path << " frame " << out.size() + 1 << " is malformed";
    std::getline(in, frame["time"], ';');
    out.push_back(std::move(frame));
  }
  return out;
}

uint64_t number(const std::string& text) {
  if (text == "True") return 1;
  if (text == "False") return 0;
  return std::strtoull(text.c_str(), nullptr, 0);
}

std::map<std::string, uint64_t> ours(const RoceView& r) {
  const OpcodeInfo& info = r.info();
  std::map<std::string, uint64_t> out = {
      {"infiniband.bth.opcode", r.opcode}, {"infiniband.bth.se", r.solicited},
      {"infiniband.bth.m", r.migration},   {"infiniband.bth.padcnt", r.pad},
      {"infiniband.bth.p_key", r.pkey},    {"infiniband.bth.destqp", r.dest_qpn},
      {"infiniband.bth.a", r.ack_request}, {"infiniband.bth.psn", r.psn.value()},
  };
  if (info.reth || info.atomic_eth) {
    out["infiniband.reth.va"] = r.va;
    out["infiniband.reth.r_key"] = r.rkey;
  }
  if (info.reth) out["infiniband.reth.dmalen"] = r.dma_length;
  if (info.aeth) {
    out["infiniband.aeth.syndrome"] = r.syndrome;
    out["infiniband.aeth.msn"] = r.msn;
  }
  if (info.deth) {
    out["infiniband.deth.q_key"] = r.qkey;
    out["infiniband.deth.srcqp"] = r.src_qpn;
  }
  if (info.imm) out["infiniband.immdt"] = r.imm;
  if (info.atomic_ack) out["infiniband.atomicacketh.origremdt"] = r.atomic_original;
  if (info.kind != OpKind::kCnp) {  // tshark ends a CNP at its reserved bytes
    out["infiniband.invariant.crc"] = __builtin_bswap32(r.icrc);  // shown as the wire's bytes
  }
  return out;
}

/// Writes the capture, lets tshark read it and compares frame by frame. Returns what tshark saw.
std::vector<std::map<std::string, std::string>> compare(const TestCapture& capture) {
  const std::string path = (std::filesystem::temp_directory_path() /
                            ("tshark_" + std::to_string(::getpid()) + "_test.pcapng"))
                               .string();
  const auto bytes = capture.file();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  auto theirs = tshark(path);
  std::filesystem::remove(path);
  EXPECT_EQ(theirs.size(), capture.frames.size());
  for (size_t i = 0; i < std::min(capture.frames.size(), theirs.size()); ++i) {
    FrameView view;
    RoceView roce;
    const FrameKind kind = parse_frame(capture.frames[i].bytes, view, roce);
    if (kind == FrameKind::kBadOpcode) continue;  // of services that nobody here speaks
    EXPECT_EQ(kind == FrameKind::kRoce, theirs[i].contains("infiniband.bth.opcode")) << i + 1;
    if (kind != FrameKind::kRoce) continue;
    for (const auto& [field, value] : ours(roce)) {
      const auto text = theirs[i].find(field);
      if (text == theirs[i].end()) {
        ADD_FAILURE() << "frame " << i + 1 << ": tshark has no " << field;
        continue;
      }
      const bool bare_hex = field == "infiniband.immdt";  // printed as bytes
      EXPECT_EQ(bare_hex ? std::strtoull(text->second.c_str(), nullptr, 16) : number(text->second),
                value)
          << "frame " << i + 1 << ' ' << field;
    }
  }
  return theirs;
}

// All of them in one file, because starting tshark takes longer than reading them.
TEST(Tshark, SeesTheSameFieldsInAllRecordings) {
  if (!have_tshark()) GTEST_SKIP() << "tshark is not installed";
  size_t files = 0, compared = 0;
  TestCapture all;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(UNDERSTUDY_TEST_DATA) + "/rxe")) {
    if (entry.path().extension() != ".pcap") continue;
    ++files;
    for (TestFrame& frame : TestCapture::load(entry.path().string()).frames) {
      all.frames.push_back(std::move(frame));
    }
  }
  for (const auto& frame : compare(all)) compared += frame.contains("infiniband.bth.opcode");
  EXPECT_EQ(files, 18u);
  EXPECT_GT(compared, 2500u);
}

// Every opcode we know, IPv4 and IPv6, tagged and not, in a capture that we write ourselves.
TEST(Tshark, ReadsOurOwnCaptures) {
  if (!have_tshark()) GTEST_SKIP() << "tshark is not installed";
  std::mt19937_64 random(3);
  TestCapture capture;
  for (const Opcode opcode : known_opcodes()) {
    for (const bool v6 : {false, true}) {
      for (const bool tagged : {false, true}) {
        RoceFields fields;
        fields.opcode = opcode;
        fields.dest_qpn = static_cast<Qpn>(2 + random() % 0xfffff0);
        fields.psn = Psn(static_cast<uint32_t>(random()));
        fields.va = random();
        fields.rkey = static_cast<Rkey>(random());
        fields.dma_length = static_cast<uint32_t>(random());
        fields.imm = static_cast<uint32_t>(random());
        fields.syndrome = kSyndromeAck | kNoCredits;
        fields.msn = static_cast<uint32_t>(random()) & Psn::kMask;
        fields.atomic_original = random();
        fields.qkey = static_cast<uint32_t>(random());
        fields.src_qpn = static_cast<Qpn>(random()) & kQpnMask;
        const bool data = opcode_info(opcode).kind == OpKind::kSend ||
                          opcode_info(opcode).kind == OpKind::kWrite ||
                          opcode_info(opcode).kind == OpKind::kReadResponse ||
                          opcode_info(opcode).kind == OpKind::kUd;
        const auto payload = random_bytes(data ? 1 + random() % 64 : 0, random);
        TestFrame frame;
        frame.bytes = roce_frame(
            sample_addressing(v6, tagged ? std::optional<uint16_t>(0x6064) : std::nullopt), fields,
            payload);
        frame.at = Time::from_ps(static_cast<int64_t>(1'000'000'000 * (capture.frames.size() + 1)));
        frame.scheduled = frame.at;
        frame.direction = CaptureDirection::kOut;
        capture.frames.push_back(std::move(frame));
      }
    }
  }
  auto theirs = compare(capture);
  ASSERT_EQ(theirs.size(), capture.frames.size());
  EXPECT_EQ(theirs[4]["time"], "0.005000000");
}

}  // namespace
}  // namespace understudy
