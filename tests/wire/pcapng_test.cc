// Capture files: our blocks read back by our reader and by libpcap; foreign and damaged files.
#include "dataplane/wire/pcapng.h"

#include <gtest/gtest.h>
#include <pcap/pcap.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "dataplane/port/capture.h"
#include "dataplane/wire/pcapng_reader.h"

namespace understudy {
namespace {

const CaptureEpoch kEpoch{1'700'000'000, 250'000'000'000};
constexpr Time kAt = Time::from_ps(3'000'000'000'123);

std::vector<uint8_t> some_bytes(size_t n) {
  std::vector<uint8_t> out(n);
  std::iota(out.begin(), out.end(), uint8_t{1});
  return out;
}

std::vector<uint8_t> one_packet_file(std::span<const uint8_t> bytes) {
  std::vector<uint8_t> out;
  append_pcapng_section(out, "understudy test");
  append_pcapng_interface(out, "port0", 0, kEpoch);
  append_pcapng_packet(out, 0, kEpoch,
                       {CaptureDirection::kOut, kAt, kAt - Duration::ns(7), bytes,
                        static_cast<uint32_t>(bytes.size())});
  return out;
}

std::vector<PcapngRecord> read_all(std::span<const uint8_t> file, bool* truncated = nullptr) {
  PcapngReader reader(file);
  std::vector<PcapngRecord> out;
  for (;;) {
    auto record = reader.next();
    if (!record) {
      ADD_FAILURE() << record.error().text;
      break;
    }
    if (std::holds_alternative<std::monostate>(*record)) break;
    out.push_back(*record);
  }
  if (truncated != nullptr) *truncated = reader.truncated();
  return out;
}

std::string temporary(const char* name) {
  return (std::filesystem::temp_directory_path() /
          (std::to_string(::getpid()) + "_" + std::string(name)))
      .string();
}

std::vector<uint8_t> slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Pcapng, RoundTripKeepsPicosecondsDirectionAndSchedule) {
  const auto bytes = some_bytes(61);
  const auto file = one_packet_file(bytes);
  const auto records = read_all(file);
  ASSERT_EQ(records.size(), 2u);
  const auto& interface = std::get<PcapngInterfaceRecord>(records[0]);
  EXPECT_EQ(interface.name, "port0");
  EXPECT_EQ(interface.linktype, kLinktypeEthernet);
  EXPECT_EQ(interface.run_start, (CalendarTime{1'700'000'000, 250'000'000'000}));
  const auto& packet = std::get<PcapngPacketRecord>(records[1]);
  EXPECT_EQ(packet.at, (CalendarTime{1'700'000'003, 250'000'000'000}));  // nanoseconds
  EXPECT_EQ(packet.run_at, kAt);
  EXPECT_EQ(packet.scheduled, kAt - Duration::ns(7));
  EXPECT_EQ(packet.direction, CaptureDirection::kOut);
  EXPECT_EQ(packet.original_bytes, 61u);
  EXPECT_TRUE(std::ranges::equal(packet.bytes, bytes));
}

TEST(Pcapng, StatisticsAndLinkChangesRoundTrip) {
  std::vector<uint8_t> file;
  append_pcapng_section(file, "t");
  append_pcapng_interface(file, "a", 128, {});
  append_pcapng_interface(file, "b", 128, {});
  const std::vector<LinkChange> changes = {
      {kAt, 3, Rate::bits_per_second(50'000'000), Duration::us(4)},
      {kAt, 4, std::nullopt, Duration::us(5)},
      {.at = kAt, .node = 5, .down = true, .loss = 0.25},
      {.at = kAt, .node = 6, .down = false, .paused = true}};
  append_pcapng_packet(file, 0, {}, {CaptureDirection::kIn, kAt, Time::never(), {}, 0}, changes);
  append_pcapng_statistics(file, 1, {}, kAt, {1000, 2, 30});
  const auto records = read_all(file);
  ASSERT_EQ(records.size(), 4u);
  const auto& packet = std::get<PcapngPacketRecord>(records[2]);
  EXPECT_FALSE(packet.scheduled.has_value());
  ASSERT_EQ(packet.changes.size(), 4u);
  EXPECT_FALSE(packet.changes[1].down || packet.changes[1].paused || packet.changes[1].loss);
  EXPECT_EQ(packet.changes[2].down, true);
  EXPECT_EQ(packet.changes[2].loss, 0.25);
  EXPECT_FALSE(packet.changes[2].paused);
  EXPECT_EQ(packet.changes[3].down, false);
  EXPECT_EQ(packet.changes[3].paused, true);
  EXPECT_FALSE(packet.changes[3].loss);
  EXPECT_EQ(packet.changes[0].at, kAt);
  EXPECT_EQ(packet.changes[0].node, 3u);
  EXPECT_EQ(packet.changes[0].rate, Rate::bits_per_second(50'000'000));
  EXPECT_EQ(packet.changes[0].latency, Duration::us(4));
  EXPECT_FALSE(packet.changes[1].rate.has_value());
  const auto& counts = std::get<PcapngStatisticsRecord>(records[3]);
  EXPECT_EQ(counts.interface, 1u);
  EXPECT_EQ(counts.received, 1000u);
  EXPECT_EQ(counts.device_drops, 2u);
  EXPECT_EQ(counts.drops, 30u);
}

TEST(Pcapng, LibpcapReadsOurTimeStamps) {
  const std::string path = temporary("libpcap.pcapng");
  const auto bytes = some_bytes(60);
  const auto file = one_packet_file(bytes);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
  char error[PCAP_ERRBUF_SIZE] = "";
  pcap_t* pcap =
      pcap_open_offline_with_tstamp_precision(path.c_str(), PCAP_TSTAMP_PRECISION_NANO, error);
  ASSERT_NE(pcap, nullptr) << error;
  pcap_pkthdr* header = nullptr;
  const u_char* data = nullptr;
  ASSERT_EQ(pcap_next_ex(pcap, &header, &data), 1);
  EXPECT_EQ(header->ts.tv_sec, 1'700'000'003);
  EXPECT_EQ(header->ts.tv_usec, 250'000'000);
  EXPECT_TRUE(std::ranges::equal(std::span(data, header->caplen), bytes));
  EXPECT_EQ(pcap_next_ex(pcap, &header, &data), PCAP_ERROR_BREAK);
  pcap_close(pcap);
  std::filesystem::remove(path);
}

// A file of another maker: big-endian, microseconds, an unknown block, an unknown option, a simple
// packet, no direction.
TEST(Pcapng, ForeignBigEndianFile) {
  std::vector<uint8_t> file;
  auto put = [&](std::initializer_list<uint32_t> words) {
    for (uint32_t w : words) {
      for (int shift = 24; shift >= 0; shift -= 8) file.push_back(static_cast<uint8_t>(w >> shift));
    }
  };
  put({0x0a0d0d0a, 28, 0x1a2b3c4d, 0x00010000, 0xffffffff, 0xffffffff, 28});
  put({0x00000001, 32, 0x00010000, 65535, 0x77770003, 0x61626300, 0x00000000, 32});
  put({0x00001234, 16, 0xdeadbeef, 16});
  put({0x00000006, 36, 0, 0, 5'000'001, 4, 4, 0x01020304, 36});
  put({0x00000003, 20, 4, 0x05060708, 20});
  const auto records = read_all(file);
  ASSERT_EQ(records.size(), 3u);
  const auto& packet = std::get<PcapngPacketRecord>(records[1]);
  EXPECT_EQ(packet.at, (CalendarTime{5, 1'000'000}));
  EXPECT_EQ(packet.direction, CaptureDirection::kUnknown);
  EXPECT_EQ(packet.bytes[3], 4);
  EXPECT_FALSE(packet.scheduled.has_value());
  EXPECT_EQ(std::get<PcapngPacketRecord>(records[2]).bytes[0], 5);
}

TEST(Pcapng, EveryTruncationIsNoticedAndNeverCrashes) {
  const auto whole = one_packet_file(some_bytes(61));
  for (size_t n = 0; n < whole.size(); ++n) {
    PcapngReader reader({whole.data(), n});
    size_t packets = 0;
    bool failed = false;
    for (;;) {
      const auto record = reader.next();
      failed = !record.has_value();
      if (failed || std::holds_alternative<std::monostate>(*record)) break;
      packets += std::holds_alternative<PcapngPacketRecord>(*record) ? 1 : 0;
    }
    EXPECT_EQ(packets, 0u) << n;
    const bool at_block_end = !failed && !reader.truncated();
    EXPECT_TRUE(!at_block_end || n == 0 || read_all(std::span(whole).first(n)).size() <= 1) << n;
  }
  bool truncated = false;
  read_all(std::span(whole).first(whole.size() - 4), &truncated);
  EXPECT_TRUE(truncated);
  read_all(whole, &truncated);
  EXPECT_FALSE(truncated);
}

TEST(Pcapng, DamagedBlocksAreErrorsWithTheirPosition) {
  auto file = one_packet_file(some_bytes(60));
  file[file.size() - 4] ^= 1;  // the packet block's second length
  PcapngReader reader(file);
  ASSERT_TRUE(reader.next().has_value());
  const auto record = reader.next();
  ASSERT_FALSE(record.has_value());
  EXPECT_NE(record.error().text.find("its two lengths differ"), std::string::npos);
  EXPECT_NE(record.error().text.find("pcapng block at byte "), std::string::npos);
}

CaptureOptions two_ports(const std::string& path) {
  return {path, "understudy test", {"port0", "port1"}, 100, {}};
}

void write_frames(Capture& capture, int frames) {
  const auto bytes = some_bytes(200);
  for (int i = 0; i < frames; ++i) {
    capture.tap(static_cast<size_t>(i % 2))
        .frame(i % 3 == 0 ? CaptureDirection::kIn : CaptureDirection::kOut, kAt + Duration::ns(i),
               kAt, bytes);
  }
}

TEST(Capture, DirectCapturesOfEqualRunsAreByteEqual) {
  const std::string first = temporary("direct1.pcapng");
  const std::string second = temporary("direct2.pcapng");
  for (const auto& path : {first, second}) {
    auto capture = open_direct_capture(two_ports(path));
    ASSERT_TRUE(capture) << capture.error().text;
    write_frames(**capture, 20'000);
    ASSERT_TRUE((*capture)->close());
  }
  const auto bytes = slurp(first);
  EXPECT_EQ(bytes, slurp(second));
  const auto records = read_all(bytes);
  EXPECT_EQ(records.size(), 2u + 20'000u + 2u);
  const auto& packet = std::get<PcapngPacketRecord>(records[2]);
  EXPECT_EQ(packet.bytes.size(), 100u);  // the snap length
  EXPECT_EQ(packet.original_bytes, 200u);
  EXPECT_EQ(std::get<PcapngStatisticsRecord>(records.back()).received, 10'000u);
  std::filesystem::remove(first);
  std::filesystem::remove(second);
}

// A ring that holds a few frames only: whatever is not in the file is in the statistics.
TEST(Capture, WhatTheThreadedCaptureDropsIsCounted) {
  const std::string path = temporary("threaded.pcapng");
  auto capture = open_threaded_capture(two_ports(path), 4096);
  ASSERT_TRUE(capture) << capture.error().text;
  write_frames(**capture, 20'000);
  (*capture)->device_drops(1, 7);
  ASSERT_TRUE((*capture)->close());
  uint64_t packets[2] = {0, 0};
  for (const auto& record : read_all(slurp(path))) {
    if (const auto* p = std::get_if<PcapngPacketRecord>(&record)) ++packets[p->interface];
    if (const auto* s = std::get_if<PcapngStatisticsRecord>(&record)) {
      EXPECT_EQ(s->received, 10'000u);
      EXPECT_EQ(s->received.value() - s->drops.value(), packets[s->interface]);
      EXPECT_EQ(s->device_drops, s->interface == 1 ? 7u : 0u);
    }
  }
  EXPECT_GT((*capture)->drops(), 0u);  // 20,000 frames do not fit, however fast the thread is
  std::filesystem::remove(path);
}

// A process that is killed leaves a file that can be read up to the last flush.
TEST(Capture, ThreadedCaptureCanBeReadBeforeItIsClosed) {
  const std::string path = temporary("open.pcapng");
  auto capture = open_threaded_capture(two_ports(path));
  ASSERT_TRUE(capture) << capture.error().text;
  write_frames(**capture, 100);
  size_t records = 0;
  for (int i = 0; i < 1000 && records < 102; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    bool truncated = true;
    const auto file = slurp(path);
    records = read_all(file, &truncated).size();
    EXPECT_FALSE(truncated);
  }
  EXPECT_EQ(records, 102u);
  EXPECT_EQ((*capture)->drops(), 0u);
  std::filesystem::remove(path);
}

TEST(Capture, ErrorsNameTheFile) {
  const auto capture = open_direct_capture(two_ports("/nonexistent/x.pcapng"));
  ASSERT_FALSE(capture);
  EXPECT_EQ(capture.error().text, "capture /nonexistent/x.pcapng: No such file or directory");
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  EXPECT_FALSE(open_direct_capture(two_ports("/dev/full")));
}

}  // namespace
}  // namespace understudy
