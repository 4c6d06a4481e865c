// Clients of later perftest versions: the recorded exchange of 4.5 with what the layout table says
// that has changed, up to and beyond the newest version that is known.
#include <gtest/gtest.h>

#include "ctrl/peers/perftest/perftest.h"
#include "ctrl/peers/perftest/perftest_kind.h"
#include "ctrl/peers/services/service_peer.h"
#include "tests/ctrl/peers/recording.h"

namespace understudy {
namespace {

constexpr uint32_t kLatency = 0, kBandwidth = 1;

std::vector<uint8_t> version_text(const std::string& version) {
  std::vector<uint8_t> bytes(version.begin(), version.end());
  bytes.resize(kPerftestVersionSize);
  return bytes;
}

void put_be32(std::vector<uint8_t>& bytes, size_t at, uint32_t value) {
  for (size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<uint8_t>(value >> (24 - 8 * i));
}

/// What a client from 6.28 on says; fields at the offsets of its C structure.
std::vector<uint8_t> test_message(PerftestVerb verb, uint32_t kind, uint32_t size) {
  std::vector<uint8_t> bytes(kPerftestTestSize, 0x5a);
  for (size_t at = 0; at < 80; at += 4) put_be32(bytes, at, 0);
  put_be32(bytes, 8, static_cast<uint32_t>(verb));
  put_be32(bytes, 12, kind);
  put_be32(bytes, 36, size);
  put_be32(bytes, 44, 1000);
  put_be32(bytes, 52, 1);
  return bytes;
}

/// The client's side of a recording as a later version would send it, and the answers due.
struct Exchange {
  std::vector<std::vector<uint8_t>> client, server;
};

Exchange later(const std::string& recording, const std::string& version,
               const std::string& answered, const std::vector<uint8_t>& test) {
  Exchange exchange;
  for (const RecordedWrite& write : load_recording(recording)) {
    if (write.bytes.size() == kPerftestDone.size()) continue;  // not said any more
    auto& side = write.from_client ? exchange.client : exchange.server;
    side.push_back(write.bytes);
    if (write.bytes.size() == kPerftestReportField && !write.from_client) {
      side.back().assign(kPerftestReportField, 0);
    }
    if (write.bytes.size() == kPerftestMtuSize && !test.empty()) side.push_back(test);
  }
  exchange.client[0] = version_text(version);
  exchange.server[0] = version_text(answered);
  return exchange;
}

/// Plays it; returns the requested behaviours.
std::vector<Behaviour> play(ServicePeer& peer, const Exchange& exchange) {
  std::vector<Behaviour> behaviours;
  for (size_t i = 0; i < exchange.client.size(); ++i) {
    SCOPED_TRACE("message " + std::to_string(i));
    peer.on_bytes(Time(), exchange.client[i]);
    for (const EndpointRequest& request : peer.take_requests()) {
      behaviours.push_back(request.behaviour);
      const auto key = parse_perftest_key(exchange.server[i]);
      EXPECT_TRUE(key.has_value());
      peer.on_endpoint(Time(), {key->qpn, key->psn, key->address, key->rkey});
    }
    EXPECT_EQ(peer.take_output(), exchange.server[i]);
    EXPECT_EQ(peer.failure(), "");
  }
  EXPECT_FALSE(peer.finished());
  peer.on_closed(Time());
  EXPECT_TRUE(peer.finished());
  EXPECT_EQ(peer.failure(), "");
  return behaviours;
}

TEST(PerftestVersions, From617OnClosingIsTheEnd) {
  for (const char* version : {"6.17", "6.20", "6.27"}) {
    SCOPED_TRACE(version);
    ServicePeer peer(recorded_service(ServiceKind::kAuto));
    EXPECT_EQ(play(peer, later("write_bw", version, version, {})),
              std::vector{Behaviour::kMemoryTarget});
  }
}

TEST(PerftestVersions, From617OnClosingInTheTestIsStillAFailure) {
  Exchange exchange = later("write_bw", "6.27", "6.27", {});
  exchange.client.resize(exchange.client.size() - 1);  // without the last key message
  ServicePeer peer(recorded_service(ServiceKind::kAuto));
  for (size_t i = 0; i < exchange.client.size(); ++i) {
    peer.on_bytes(Time(), exchange.client[i]);
    for (size_t n = peer.take_requests().size(); n > 0; --n) {
      peer.on_endpoint(Time(), {0x40000, Psn(1), 0x1000, 7});
    }
  }
  peer.on_closed(Time());
  EXPECT_NE(peer.failure().find("closed before the end of its test"), std::string::npos);
}

struct Stated {
  const char* recording;
  PerftestVerb verb;
  uint32_t kind;
  Behaviour behaviour;
};

TEST(PerftestVersions, From628OnAutoIsWhatTheClientSays) {
  const Stated table[] = {
      {"write_bw", PerftestVerb::kWrite, kBandwidth, Behaviour::kMemoryTarget},
      {"write_lat", PerftestVerb::kWrite, kLatency, Behaviour::kWriteEcho},
      {"send_bw", PerftestVerb::kSend, kBandwidth, Behaviour::kReceiveSink},
      {"send_lat", PerftestVerb::kSend, kLatency, Behaviour::kSendEcho},
      {"read_bw", PerftestVerb::kRead, kBandwidth, Behaviour::kMemoryTarget},
      {"read_lat", PerftestVerb::kRead, kLatency, Behaviour::kMemoryTarget},
      {"read_bw", PerftestVerb::kAtomic, kBandwidth, Behaviour::kMemoryTarget},
      {"read_lat", PerftestVerb::kAtomic, kLatency, Behaviour::kMemoryTarget},
      {"write_bw", PerftestVerb::kWriteImm, kBandwidth, Behaviour::kMemoryTarget},
  };
  for (const Stated& stated : table) {
    for (const char* version : {"6.28", "6.29"}) {
      for (const size_t extra : {size_t{0}, kPerftestTestExtra}) {
        SCOPED_TRACE(std::string(stated.recording) + " " + version);
        auto test = test_message(stated.verb, stated.kind, 8);
        test.resize(test.size() + extra);
        ServicePeer peer(recorded_service(ServiceKind::kAuto));
        EXPECT_EQ(play(peer, later(stated.recording, version, version, test)),
                  std::vector{stated.behaviour});
      }
    }
  }
}

TEST(PerftestVersions, ANewerOneThanKnownGetsTheNewestKnown) {
  for (const char* version : {"6.30", "7.01"}) {
    ServicePeer peer(recorded_service(ServiceKind::kAuto));
    play(peer, later("read_bw", version, "6.29", test_message(PerftestVerb::kRead, kBandwidth, 8)));
  }
}

TEST(PerftestVersions, TheStatedSizeIsWhatIbWriteLatGetsFirst) {
  ServicePeer peer(recorded_service(ServiceKind::kAuto));
  const Exchange exchange =
      later("write_lat", "6.29", "6.29", test_message(PerftestVerb::kWrite, kLatency, 20000));
  uint32_t opening = 0;
  for (size_t i = 0; i < exchange.client.size(); ++i) {
    peer.on_bytes(Time(), exchange.client[i]);
    for (size_t n = peer.take_requests().size(); n > 0; --n) {
      peer.on_endpoint(Time(), {0x40000, Psn(1), 0x1000, 7});
    }
    for (const EndpointStart& start : peer.take_starts()) opening = start.opening_bytes;
  }
  EXPECT_EQ(opening, 20000u);
}

TEST(PerftestVersions, UnreliableConnectionsAreWhatTheClientOrTheServiceSays) {
  const auto unreliable = [](const std::string& version, bool says, bool configured) {
    Service service = recorded_service(ServiceKind::kWriteBw);
    service.unreliable = configured;
    ServicePeer peer(service);
    auto test = test_message(PerftestVerb::kWrite, kBandwidth, 8);
    if (says) put_be32(test, 4, PerftestTest::kUnreliable);
    if (version == "6.06") test.clear();  // it states nothing
    const Exchange exchange = later("write_bw", version, version, test);
    for (const auto& bytes : exchange.client) {
      peer.on_bytes(Time(), bytes);
      for (const EndpointRequest& request : peer.take_requests()) return request.unreliable;
    }
    ADD_FAILURE() << "no queue pair was asked for: " << peer.failure();
    return false;
  };
  EXPECT_TRUE(unreliable("6.29", true, false));
  EXPECT_TRUE(unreliable("6.29", true, true));
  EXPECT_FALSE(unreliable("6.29", false, false));
  EXPECT_TRUE(unreliable("6.06", false, true));
  EXPECT_FALSE(unreliable("6.06", false, false));
}

TEST(PerftestVersions, WhatCannotBeServedIsNamed) {
  const auto failure = [](ServiceKind kind, std::vector<uint8_t> test) {
    ServicePeer peer(recorded_service(kind));
    const Exchange exchange = later("write_bw", "6.29", "6.29", test);
    for (size_t i = 0; i < 5; ++i) peer.on_bytes(Time(), exchange.client[i]);
    EXPECT_TRUE(peer.finished());
    EXPECT_EQ(peer.failure().rfind("service w0:18515 (kind \"", 0), 0u) << peer.failure();
    return peer.failure();
  };
  const auto contains = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos ? std::string("") : text;
  };
  auto test = test_message(PerftestVerb::kWrite, kBandwidth, 8);
  EXPECT_EQ(
      contains(failure(ServiceKind::kReadBw, test), "runs ib_write_bw; set kind = \"write_bw\""),
      "");
  put_be32(test, 4, 2);
  EXPECT_EQ(contains(failure(ServiceKind::kAuto, test), "neither RC nor UC"), "");
  put_be32(test, 4, 0);
  put_be32(test, 76, 1);
  EXPECT_EQ(contains(failure(ServiceKind::kAuto, test), "--data_validation"), "");
  EXPECT_EQ(
      contains(failure(ServiceKind::kAuto, test_message(PerftestVerb::kWriteImm, kLatency, 8)),
               "with immediate data"),
      "");
  EXPECT_EQ(contains(failure(ServiceKind::kAuto, test_message(static_cast<PerftestVerb>(9), 0, 8)),
                     "not a statement"),
            "");
}

}  // namespace
}  // namespace understudy
