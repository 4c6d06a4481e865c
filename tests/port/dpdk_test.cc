// DpdkPort on devices that need neither root nor hardware: rings that loop back, capture files.
#include <gtest/gtest.h>
#include <pcap/pcap.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "dataplane/port/dpdk_port.h"
#include "tests/port/eal.h"

namespace understudy {
namespace {

const auto* const eal = ::testing::AddGlobalTestEnvironment(new EalEnvironment(4));

using Bytes = std::vector<uint8_t>;

Bytes frame_of(size_t bytes, uint8_t seed) {
  Bytes frame(bytes);
  for (size_t i = 0; i < bytes; ++i) frame[i] = static_cast<uint8_t>(i * 7 + seed);
  return frame;
}

bool send(Port& port, const Bytes& frame, Time scheduled = Time::zero()) {
  uint8_t* out = port.tx().reserve(static_cast<uint32_t>(frame.size()));
  if (out == nullptr) return false;
  std::copy(frame.begin(), frame.end(), out);
  port.tx().commit(static_cast<uint32_t>(frame.size()), scheduled);
  return true;
}

/// Everything that is there to receive.
std::vector<Bytes> receive(Port& port) {
  std::vector<Bytes> all;
  for (;;) {
    const auto frames = port.rx();
    if (frames.empty()) return all;
    EXPECT_LE(frames.size(), kRxBurst);
    for (const auto frame : frames) all.emplace_back(frame.begin(), frame.end());
  }
}

std::unique_ptr<DpdkPort> open(const std::string& device) {
  auto port = DpdkPort::open({"gpu", device});
  EXPECT_TRUE(port) << port.error().text;
  return port ? std::move(*port) : nullptr;
}

std::string open_error(const std::string& device) {
  const auto port = DpdkPort::open({"gpu", device});
  return port ? "" : port.error().text;
}

struct Seen {
  Time at, scheduled;
  Bytes bytes;
  bool operator==(const Seen&) const = default;
};

class ListTap : public CaptureTap {
 public:
  void frame(CaptureDirection direction, Time at, Time scheduled,
             std::span<const uint8_t> bytes) override {
    EXPECT_EQ(direction, CaptureDirection::kOut);
    seen.push_back({at, scheduled, {bytes.begin(), bytes.end()}});
  }
  std::vector<Seen> seen;
};

TEST(DpdkPort, FramesOfAnySizeLoopBackUnchanged) {
  auto port = open("net_ring0");
  ASSERT_NE(port, nullptr);
  EXPECT_TRUE(port->link_up());
  EXPECT_EQ(port->mtu(), 4200U);
  std::vector<Bytes> sent;
  for (const size_t bytes : {14u, 60u, 1514u, 4214u, 9018u, 9216u}) {
    sent.push_back(frame_of(bytes, static_cast<uint8_t>(bytes)));
    ASSERT_TRUE(send(*port, sent.back()));
  }
  EXPECT_EQ(port->tx().reserve(9217), nullptr);
  EXPECT_TRUE(receive(*port).empty());  // nothing leaves before flush()
  port->flush(Time::zero());
  EXPECT_TRUE(receive(*port) == sent);
  const PortCounters c = port->counters();
  EXPECT_EQ(c.tx_frames, 6U);
  EXPECT_EQ(c.tx_bytes, 14U + 60 + 1514 + 4214 + 9018 + 9216);
  EXPECT_EQ(c.rx_frames, 6U);
  EXPECT_EQ(c.rx_bytes, c.tx_bytes);
}

/// Buffers come back in any order, and had other frames before.
TEST(DpdkPort, ZerosStandWhereTheyAreAskedFor) {
  auto port = open("net_ring0");
  ASSERT_NE(port, nullptr);
  std::mt19937 random(5);
  std::vector<Bytes> sent;
  for (int round = 0; round < 4000; ++round) {
    Bytes frame = frame_of(60 + random() % 9000, static_cast<uint8_t>(round));
    if (random() % 4 == 0) {
      ASSERT_TRUE(send(*port, frame));
    } else {
      const auto some = [&](uint32_t below) { return static_cast<uint32_t>(random() % below); };
      const uint32_t head = 50 + some(100), tail = 4 + some(4);
      const uint32_t zeros = some(3) == 0 ? 4096 : some(8500);
      uint8_t* out = port->tx().reserve_zeros(head, zeros, tail);
      ASSERT_NE(out, nullptr);
      frame = frame_of(head + zeros + tail, static_cast<uint8_t>(round));
      std::fill_n(frame.begin() + head, zeros, uint8_t{0});
      std::copy_n(frame.begin(), head, out);
      std::copy_n(frame.end() - tail, tail, out + head + zeros);
      port->tx().commit(head + zeros + tail, Time::zero());
    }
    sent.push_back(frame);
    if (sent.size() < 20 + random() % 20) continue;
    port->flush(Time::zero());
    ASSERT_EQ(receive(*port), sent);
    sent.clear();
  }
}

TEST(DpdkPort, AFullDeviceLosesNothingAndCaptureShowsWhatItTook) {
  auto port = open("net_ring0");
  ASSERT_NE(port, nullptr);
  ListTap tap;
  port->set_capture(&tap);
  std::vector<Bytes> sent, received;
  std::vector<Seen> expected;
  int refused = 0;
  // The ring holds about a thousand frames; nobody reads for the first 1200 turns.
  for (int turn = 0; sent.size() < 1500; ++turn) {
    ASSERT_LT(turn, 5000);
    const Bytes frame = frame_of(60, static_cast<uint8_t>(sent.size() % 251));
    const Time scheduled = Time::zero() + Duration::us(static_cast<int64_t>(sent.size()));
    if (send(*port, frame, scheduled)) {
      sent.push_back(frame);
    } else {
      ++refused;
    }
    port->flush(Time::zero() + Duration::us(turn));
    EXPECT_EQ(tap.seen.size(), port->counters().tx_frames);
    if (turn < 1200) continue;
    for (Bytes& got : receive(*port)) received.push_back(std::move(got));
  }
  port->flush(Time::zero() + Duration::s(100));
  for (Bytes& got : receive(*port)) received.push_back(std::move(got));
  EXPECT_GT(refused, 100);
  EXPECT_EQ(port->counters().tx_retried, static_cast<uint64_t>(refused));
  EXPECT_EQ(port->counters().tx_link_down, 0U);
  EXPECT_TRUE(received == sent);  // printed, they would fill screens
  ASSERT_EQ(tap.seen.size(), sent.size());
  for (size_t i = 0; i < sent.size(); ++i) {
    EXPECT_TRUE(tap.seen[i].bytes == sent[i]) << i;
    EXPECT_EQ(tap.seen[i].scheduled, Time::zero() + Duration::us(static_cast<int64_t>(i)));
    EXPECT_GE(tap.seen[i].at, i == 0 ? Time::zero() : tap.seen[i - 1].at);
  }
  // What waited was written down when the device took it, not when it was offered.
  EXPECT_GE(tap.seen[1100].at, Time::zero() + Duration::us(1200));
}

TEST(DpdkPort, ADeviceThatTakesNothingCostsOneFrameIn100Milliseconds) {
  auto port = open("net_ring0");
  ASSERT_NE(port, nullptr);
  uint8_t next = 0;
  int64_t ms = 0;
  // Fills the ring, until a frame waits.
  while (port->counters().tx_retried == 0) {
    ASSERT_TRUE(send(*port, frame_of(60, next++)));
    port->flush(Time::zero() + Duration::ms(ms));
  }
  for (; ms < 100; ++ms) port->flush(Time::zero() + Duration::ms(ms));
  EXPECT_EQ(port->counters().tx_refused, 0U);
  EXPECT_FALSE(send(*port, frame_of(60, next)));
  port->flush(Time::zero() + Duration::ms(ms));
  EXPECT_EQ(port->counters().tx_refused, 1U);
  EXPECT_TRUE(send(*port, frame_of(60, next)));
  for (; ms < 199; ++ms) port->flush(Time::zero() + Duration::ms(ms));
  EXPECT_EQ(port->counters().tx_refused, 1U);
  (void)receive(*port);
  port->flush(Time::zero() + Duration::ms(ms));
  EXPECT_EQ(receive(*port), std::vector<Bytes>{frame_of(60, next)});
}

TEST(DpdkPort, ScatteredFramesAreMadeWhole) {
  auto port = open("net_ring0");
  ASSERT_NE(port, nullptr);
  uint16_t id = 0;
  ASSERT_EQ(rte_eth_dev_get_port_by_name("net_ring0", &id), 0);
  rte_mempool* pool =
      rte_pktmbuf_pool_create("scattered", 63, 0, 0, RTE_PKTMBUF_HEADROOM + 2000, SOCKET_ID_ANY);
  ASSERT_NE(pool, nullptr);
  const auto chain = [&](std::vector<size_t> parts) {
    rte_mbuf* head = nullptr;
    for (const size_t bytes : parts) {
      rte_mbuf* part = rte_pktmbuf_alloc(pool);
      const Bytes content = frame_of(bytes, static_cast<uint8_t>(bytes));
      std::copy(content.begin(), content.end(),
                reinterpret_cast<uint8_t*>(rte_pktmbuf_append(part, static_cast<uint16_t>(bytes))));
      if (head == nullptr) {
        head = part;
      } else {
        EXPECT_EQ(rte_pktmbuf_chain(head, part), 0);
      }
    }
    EXPECT_EQ(rte_eth_tx_burst(id, 0, &head, 1), 1);
  };
  chain({500, 700});
  chain({1500, 700});  // no room in the first part
  chain({60});
  Bytes whole = frame_of(500, 500 % 256);
  const Bytes rest = frame_of(700, 700 % 256);
  whole.insert(whole.end(), rest.begin(), rest.end());
  EXPECT_TRUE(receive(*port) == (std::vector<Bytes>{whole, frame_of(60, 60)}));
  EXPECT_EQ(port->counters().rx_unreadable, 1U);
  port.reset();
  rte_mempool_free(pool);
}

TEST(DpdkPort, ReadsAndWritesCaptureFiles) {
  std::string pattern = ::testing::TempDir() + "us_port_XXXXXX";
  const std::string folder = mkdtemp(pattern.data());
  const std::string in = folder + "/in.pcap";
  const std::string out = folder + "/out.pcap";
  const std::vector<Bytes> frames = {frame_of(60, 1), frame_of(4214, 2), frame_of(9000, 3)};
  pcap_t* dead = pcap_open_dead(DLT_EN10MB, 65535);
  pcap_dumper_t* dump = pcap_dump_open(dead, in.c_str());
  ASSERT_NE(dump, nullptr);
  for (const Bytes& frame : frames) {
    pcap_pkthdr header{};
    header.caplen = header.len = static_cast<bpf_u_int32>(frame.size());
    pcap_dump(reinterpret_cast<u_char*>(dump), &header, frame.data());
  }
  pcap_dump_close(dump);
  pcap_close(dead);
  {
    auto port = open("net_pcap0,rx_pcap=" + in + ",tx_pcap=" + out);
    ASSERT_NE(port, nullptr);
    const auto received = receive(*port);
    EXPECT_TRUE(received == frames);
    for (const Bytes& frame : received) ASSERT_TRUE(send(*port, frame));
    port->flush(Time::zero());
    EXPECT_EQ(port->counters().tx_frames, 3U);
  }
  std::array<char, PCAP_ERRBUF_SIZE> error;
  pcap_t* written = pcap_open_offline(out.c_str(), error.data());
  ASSERT_NE(written, nullptr) << error.data();
  pcap_pkthdr* header = nullptr;
  const u_char* data = nullptr;
  for (const Bytes& frame : frames) {
    ASSERT_EQ(pcap_next_ex(written, &header, &data), 1);
    EXPECT_EQ(Bytes(data, data + header->caplen), frame);
  }
  EXPECT_NE(pcap_next_ex(written, &header, &data), 1);
  pcap_close(written);
  std::filesystem::remove_all(folder);
}

TEST(DpdkPort, ErrorsNamePortDeviceAndReason) {
  auto first = open("net_ring0");
  const std::string twice = open_error("net_ring0");
  EXPECT_NE(twice.find("port \"gpu\": device net_ring0: is in use"), std::string::npos) << twice;

  const std::string no_file = open_error("net_pcap0,rx_pcap=/nonexistent/x.pcap");
  EXPECT_NE(no_file.find("port \"gpu\": device net_pcap0"), std::string::npos) << no_file;
  EXPECT_NE(no_file.find("/nonexistent/x.pcap"), std::string::npos) << no_file;

  const std::string bad_key = open_error("net_pcap0,colour=blue");
  EXPECT_NE(bad_key.find("colour=blue"), std::string::npos) << bad_key;

  const auto no_stamps = DpdkPort::open({"gpu", "net_null0", true});
  ASSERT_FALSE(no_stamps);
  EXPECT_NE(no_stamps.error().text.find(
                "port \"gpu\": device net_null0: transmit_time_stamps: it offers none"),
            std::string::npos)
      << no_stamps.error().text;

  const std::string absent = open_error("ffff:ff:1f.7");
  EXPECT_NE(absent.find("no such device ffff:ff:1f.7"), std::string::npos) << absent;
}

TEST(Eal, ErrorsNameThePort) {
  const auto absent = Eal::start({{{"gpu", "ffff:ff:1f.7"}}, false});
  ASSERT_FALSE(absent);
  EXPECT_NE(absent.error().text.find("port \"gpu\": no such device"), std::string::npos)
      << absent.error().text;
  const auto twice = Eal::start({{{"gpu", "net_null0"}}, false});
  ASSERT_FALSE(twice);
  EXPECT_NE(twice.error().text.find("DPDK does not start"), std::string::npos)
      << twice.error().text;
}

}  // namespace
}  // namespace understudy
