// RDMA-CM of a port as its peers meet it: datagrams and packets in, datagrams and packets out,
// queue pairs made and removed, all under virtual time. The test plays the real node.
#pragma once

#include <gtest/gtest.h>

#include "ctrl/compile/shard_config.h"
#include "ctrl/config/read/load.h"
#include "ctrl/services/cm_control.h"
#include "dataplane/cm/rdma_cm.h"
#include "tests/engine/rig.h"

namespace understudy {

inline constexpr char kCmConfig[] = R"(format = 1
[fabric]
mtu = 2048
[[prefix]]
nic = 0
v4 = "10.0.0.0/24"
[[node]]
name = "gpu"
real = true
link = { rate = "unlimited", latency = "1us" }
[[node]]
name = "w"
link = { rate = "unlimited", latency = "1us" }
[[port]]
real = "gpu"
device = "virtual"
[[service]]
node = "w"
port = 7471
kind = "ucmatose"
[[service]]
node = "w"
port = 7174
kind = "rping"
[[service]]
node = "w"
port = 18515
kind = "pingpong"
[[service]]
node = "w"
port = 7175
kind = "rping"
accept_delay = "60ms"
)";
inline const IpAddress kClient = *IpAddress::parse("10.0.0.1"),
                       kNode = *IpAddress::parse("10.0.0.2");

class CmControlTest : public testing::Test {
 protected:
  explicit CmControlTest(const char* text = kCmConfig)
      : config(*load_config_text(text, "test")),
        shard(emulator_shard(config, {0}, MacAddress{})),
        control(shard),
        endpoints(config, {&control}),
        cm(config, 0, control, endpoints,
           {[this](const ServiceReport& r) { reports.push_back(r); },
            [this](const std::string& line) { lines.push_back(line); },
            [this](const CmControl::EndedCaller& caller) { callers.push_back(caller); }}) {
    cm.listen();
    addressing.src_mac = node_mac(0);
    addressing.dst_mac = shard.nodes()[1].mac;
    addressing.src = kClient;
    addressing.dst = kNode;
  }

  /// Lets time pass; control looks in every 100 us.
  void advance(Duration by) {
    const Time until = now + by;
    while (now < until) {
      now = std::min(until, now + Duration::us(100));
      poll();
    }
  }
  void poll() {
    for (int i = 0; i < 3; ++i) {
      for (const auto& ended : endpoints.take_ended_traffic()) {
        cm.traffic_ended(now, ended.connection, ended.result);
      }
      cm.poll(now);
      control.poll();
      sink.now = now;
      shard.poll(now, sink);
    }
  }
  void receive(const RoceFields& fields, std::span<const uint8_t> payload) {
    const auto frame = roce_frame(addressing, fields, payload);
    const std::span<const uint8_t> frames[] = {frame};
    shard.rx({now, Duration(), frames});
  }
  void send(CmMessage message, uint64_t tid = 5) {
    give(std::move(message), tid);
    advance(Duration::us(300));
  }
  /// As send(), but control does not look in yet.
  void give(CmMessage message, uint64_t tid = 5) {
    RoceFields fields;
    fields.opcode = Opcode::kUdSendOnly;
    fields.dest_qpn = fields.src_qpn = kGsiQpn;
    fields.qkey = kGsiQkey;
    receive(fields, format_mad({tid, 0, std::move(message)}));
  }
  void send_data(Qpn qpn, uint32_t psn, uint32_t bytes) {
    RoceFields fields;
    fields.opcode = Opcode::kSendOnly;
    fields.dest_qpn = qpn;
    fields.psn = Psn(psn);
    fields.ack_request = true;
    receive(fields, std::vector<uint8_t>(bytes));
    advance(Duration::us(300));
  }
  void acknowledge(Qpn qpn, uint32_t psn, uint8_t credits = kNoCredits, uint32_t msn = 0) {
    RoceFields fields;
    fields.opcode = Opcode::kAcknowledge;
    fields.dest_qpn = qpn;
    fields.psn = Psn(psn);
    fields.syndrome = credits;
    fields.msn = msn;
    receive(fields, {});
    advance(Duration::us(300));
  }
  /// The next packet that left, which is a datagram with such a message.
  template <typename M>
  M sent() {
    for (; seen < sink.sent.size(); ++seen) {
      const Parsed p(sink.sent[seen].bytes);
      if (p.kind != FrameKind::kRoce || p.roce.dest_qpn != kGsiQpn) continue;
      ++seen;
      EXPECT_EQ(p.view.src, kNode);
      EXPECT_EQ(p.view.dst, kClient);
      const auto mad = parse_mad({p.bytes.data() + p.roce.payload, p.roce.payload_bytes});
      EXPECT_TRUE(mad);
      if (!std::holds_alternative<M>(mad->message)) {
        ADD_FAILURE() << "it is a " << cm_attribute_name(cm_attribute(mad->message));
        return {};
      }
      return std::get<M>(mad->message);
    }
    ADD_FAILURE() << "no datagram was sent";
    return {};
  }
  /// Packets of connections that left since the last call.
  std::vector<Parsed> data_sent() {
    std::vector<Parsed> out;
    for (; seen < sink.sent.size(); ++seen) {
      Parsed p(sink.sent[seen].bytes);
      if (p.kind == FrameKind::kRoce && p.roce.dest_qpn != kGsiQpn) out.push_back(std::move(p));
    }
    return out;
  }

  CmReq request(uint16_t port, uint32_t id = 100, Qpn qpn = 0x20) const {
    CmReq req;
    req.local_comm_id = id;
    req.service_id = rdma_service_id(PortSpace::kTcp, port);
    req.ca_guid = 0xc;
    req.qpn = qpn;
    req.responder_resources = 1;
    req.initiator_depth = 40;
    req.local_cm_response_timeout = req.remote_cm_response_timeout = 10;  // 4 ms
    req.starting_psn = 0x1000;
    req.retry_count = req.rnr_retry_count = 7;
    req.path_mtu = 3;
    req.max_cm_retries = 3;
    req.primary.local_gid = kClient;
    req.primary.remote_gid = kNode;
    req.primary.ack_timeout = 10;
    format_rdma_header({1234, kClient, kNode}, req.private_data);
    return req;
  }
  template <typename M>
  static M to(const CmRep& rep) {
    M m;
    m.local_comm_id = rep.remote_comm_id;
    m.remote_comm_id = rep.local_comm_id;
    return m;
  }
  static CmDreq dreq_to(const CmRep& rep) {
    CmDreq dreq = to<CmDreq>(rep);
    dreq.remote_qpn = rep.qpn;
    return dreq;
  }

  uint64_t counted(const std::string& name) const {
    for (const auto& [n, count] : cm.counters()) {
      if (n == name) return count;
    }
    ADD_FAILURE() << name;
    return 0;
  }

  Config config;
  Shard shard;
  ShardControl control;
  ServiceEndpoints endpoints;
  std::vector<ServiceReport> reports;
  std::vector<std::string> lines;
  std::vector<CmControl::EndedCaller> callers;
  CmControl cm;
  RigSink sink;
  RoceAddressing addressing;
  Time now;
  size_t seen = 0;
};

}  // namespace understudy
