// MADs: what Linux' own RDMA-CM sent and received, every field at its bits, and any bytes.
#include "dataplane/cm/mad.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>

#include "dataplane/cm/rdma_cm.h"
#include "tests/rigs/pcap_frames.h"
#include "tests/wire/frames.h"

namespace understudy {
namespace {

constexpr size_t kHeader = 24;

std::vector<std::vector<uint8_t>> recorded_mads(const std::string& recording) {
  const auto path = std::string(UNDERSTUDY_TEST_DATA) + "/rxe/" + recording + ".pcap";
  std::vector<std::vector<uint8_t>> out;
  for (const auto& frame : pcap_frames(path)) {
    const Parsed p(frame);
    if (p.kind != FrameKind::kRoce || p.roce.dest_qpn != kGsiQpn) continue;
    EXPECT_EQ(p.roce.qkey, kGsiQkey);
    const auto* payload = frame.data() + p.roce.payload;
    out.emplace_back(payload, payload + p.roce.payload_bytes);
  }
  return out;
}

// rules: A9.1 A9.2
TEST(Mad, RecordedMessagesAreReadAndWrittenBackBitByBit) {
  std::map<CmAttribute, int> seen;
  for (const char* recording :
       {"rxe_rping_3x1000", "rxe_ucmatose", "rxe_fetchadd_rdmacm", "rxe_read_4k_mtu1024_rdmacm",
        "rxe_send_4k_mtu1024_rdmacm", "rxe_write_4k_mtu1024_rdmacm"}) {
    for (const auto& bytes : recorded_mads(recording)) {
      const auto mad = parse_mad(bytes);
      ASSERT_TRUE(mad) << recording << ": " << mad_error_name(mad.error());
      ++seen[cm_attribute(mad->message)];
      const auto again = format_mad(*mad);
      EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), again.begin(), again.end())) << recording;
    }
  }
  EXPECT_EQ(seen[CmAttribute::kReq], 11);
  EXPECT_EQ(seen[CmAttribute::kRep], 11);
  EXPECT_EQ(seen[CmAttribute::kRtu], 11);
  EXPECT_EQ(seen[CmAttribute::kDreq], 10);
  EXPECT_EQ(seen[CmAttribute::kDrep], 10);
}

// rules: A9.2 A9.3
TEST(Mad, RpingsRequestSaysWhatTsharkSays) {
  const auto mads = recorded_mads("rxe_rping_3x1000");
  ASSERT_EQ(mads.size(), 5u);
  const auto mad = parse_mad(mads[0]);
  ASSERT_TRUE(mad);
  EXPECT_EQ(mad->transaction_id, 0x000000025a8be335u);
  const auto& req = std::get<CmReq>(mad->message);
  EXPECT_EQ(req.local_comm_id, 0x35e38b5au);
  EXPECT_EQ(rdma_port(req.service_id, PortSpace::kTcp), 0x1c06);
  EXPECT_EQ(req.service_id, rdma_service_id(PortSpace::kTcp, 7174));
  EXPECT_EQ(rdma_port(req.service_id, PortSpace::kUdp), std::nullopt);
  EXPECT_EQ(req.ca_guid, 0x505400fffe0a0902u);
  EXPECT_EQ(req.qpn, 0x20u);
  EXPECT_EQ(req.responder_resources, 1);
  EXPECT_EQ(req.initiator_depth, 1);
  EXPECT_EQ(req.remote_cm_response_timeout, 20);
  EXPECT_EQ(req.local_cm_response_timeout, 20);
  EXPECT_EQ(req.transport_type, 0);
  EXPECT_EQ(req.starting_psn, 0xdaa368u);
  EXPECT_EQ(req.retry_count, 7);
  EXPECT_EQ(req.rnr_retry_count, 7);
  EXPECT_EQ(req.pkey, 0xffff);
  EXPECT_EQ(mtu_bytes(req.path_mtu), 1024u);
  EXPECT_EQ(req.max_cm_retries, 15);
  EXPECT_EQ(req.primary.local_lid, kRoceLid);
  EXPECT_EQ(req.primary.local_gid.text(), "10.9.0.2");
  EXPECT_EQ(req.primary.remote_gid.text(), "10.9.0.1");
  EXPECT_EQ(req.primary.hop_limit, 64);
  EXPECT_EQ(req.primary.ack_timeout, 19);
  const auto header = parse_rdma_header(req.private_data);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->src_port, 0xad69);
  EXPECT_EQ(header->src.text(), "10.9.0.2");
  EXPECT_EQ(header->dst.text(), "10.9.0.1");
  const auto rep = std::get<CmRep>(parse_mad(mads[1])->message);
  EXPECT_EQ(rep.local_comm_id, 0x64a85407u);
  EXPECT_EQ(rep.remote_comm_id, req.local_comm_id);
  EXPECT_EQ(rep.qpn, 0x20u);
  EXPECT_EQ(rep.starting_psn, 0xcf50ddu);
  EXPECT_EQ(rep.target_ack_delay, 15);
  EXPECT_EQ(rep.rnr_retry_count, 7);
  EXPECT_EQ(std::get<CmDreq>(parse_mad(mads[3])->message).remote_qpn, rep.qpn);
}

// rules: A9.3
TEST(RdmaHeader, IsWrittenAsItIsRead) {
  std::array<uint8_t, kRdmaHeaderBytes> bytes{};
  format_rdma_header({4660, *IpAddress::parse("10.9.0.2"), *IpAddress::parse("10.9.0.1")}, bytes);
  EXPECT_EQ(bytes[1], 0x40);
  EXPECT_EQ(bytes[2], 0x12);
  EXPECT_EQ(bytes[16], 10);  // an IPv4 address stands in the last four bytes of its field
  EXPECT_EQ(bytes[4] | bytes[14], 0);
  format_rdma_header({1, *IpAddress::parse("fd00::2"), *IpAddress::parse("fd00::1")}, bytes);
  const auto v6 = parse_rdma_header(bytes);
  ASSERT_TRUE(v6);
  EXPECT_EQ(v6->dst.text(), "fd00::1");
  bytes[1] = 0x50;
  EXPECT_FALSE(parse_rdma_header(bytes));
  bytes[1] = 0x60;
  bytes[0] = 1;
  EXPECT_FALSE(parse_rdma_header(bytes));
  EXPECT_FALSE(parse_rdma_header(std::span(bytes).first(35)));
}

/// One field of a message and the place that the standard's table gives it.
struct Field {
  const char* name;
  std::function<CmMessage()> all_ones;  ///< the message whose other fields are zeros
  size_t byte, bit, width;
};

template <typename M>
M zeroed() {
  M m;
  if constexpr (requires { m.pkey; }) m.pkey = 0;
  if constexpr (requires { m.reason; }) m.reason = RejReason{0};
  if constexpr (std::is_same_v<M, CmApr>) m.status = AprStatus{0};
  return m;
}

template <typename M, typename F>
std::function<CmMessage()> ones(F member) {
  return [member] {
    M m = zeroed<M>();
    auto& field = member(m);
    using T = std::remove_reference_t<decltype(field)>;
    if constexpr (std::is_same_v<T, IpAddress>) {
      const std::vector<uint8_t> all(16, 0xff);
      field = IpAddress::v6_bytes(all.data());
    } else if constexpr (requires { field.fill(0xff); }) {
      field.fill(0xff);
    } else if constexpr (std::is_same_v<T, bool>) {
      field = true;
    } else if constexpr (std::is_enum_v<T>) {
      field = static_cast<T>(static_cast<std::underlying_type_t<T>>(~0));
    } else {
      field = static_cast<T>(~T{0});
    }
    return CmMessage(m);
  };
}

#define AT(M, member, byte, bit, width)                                                  \
  Field {                                                                                \
#M "." #member, ones < M>([](M & m) -> auto& { return m.member; }), byte, bit, width \
  }

const std::vector<Field>& fields() {
  static const std::vector<Field> kFields = {
      AT(CmReq, local_comm_id, 0, 0, 32),
      AT(CmReq, service_id, 8, 0, 64),
      AT(CmReq, ca_guid, 16, 0, 64),
      AT(CmReq, qkey, 28, 0, 32),
      AT(CmReq, qpn, 32, 0, 24),
      AT(CmReq, responder_resources, 35, 0, 8),
      AT(CmReq, local_eecn, 36, 0, 24),
      AT(CmReq, initiator_depth, 39, 0, 8),
      AT(CmReq, remote_eecn, 40, 0, 24),
      AT(CmReq, remote_cm_response_timeout, 43, 0, 5),
      AT(CmReq, transport_type, 43, 5, 2),
      AT(CmReq, flow_control, 43, 7, 1),
      AT(CmReq, starting_psn, 44, 0, 24),
      AT(CmReq, local_cm_response_timeout, 47, 0, 5),
      AT(CmReq, retry_count, 47, 5, 3),
      AT(CmReq, pkey, 48, 0, 16),
      AT(CmReq, path_mtu, 50, 0, 4),
      AT(CmReq, rdc_exists, 50, 4, 1),
      AT(CmReq, rnr_retry_count, 50, 5, 3),
      AT(CmReq, max_cm_retries, 51, 0, 4),
      AT(CmReq, srq, 51, 4, 1),
      AT(CmReq, extended_transport_type, 51, 5, 3),
      AT(CmReq, primary.local_lid, 52, 0, 16),
      AT(CmReq, primary.remote_lid, 54, 0, 16),
      AT(CmReq, primary.local_gid, 56, 0, 128),
      AT(CmReq, primary.remote_gid, 72, 0, 128),
      AT(CmReq, primary.flow_label, 88, 0, 20),
      AT(CmReq, primary.packet_rate, 91, 2, 6),
      AT(CmReq, primary.traffic_class, 92, 0, 8),
      AT(CmReq, primary.hop_limit, 93, 0, 8),
      AT(CmReq, primary.sl, 94, 0, 4),
      AT(CmReq, primary.subnet_local, 94, 4, 1),
      AT(CmReq, primary.ack_timeout, 95, 0, 5),
      AT(CmReq, alternate.local_lid, 96, 0, 16),
      AT(CmReq, alternate.remote_gid, 116, 0, 128),
      AT(CmReq, alternate.ack_timeout, 139, 0, 5),
      AT(CmReq, private_data, 140, 0, 736),
      AT(CmMra, local_comm_id, 0, 0, 32),
      AT(CmMra, remote_comm_id, 4, 0, 32),
      AT(CmMra, subject, 8, 0, 2),
      AT(CmMra, service_timeout, 9, 0, 5),
      AT(CmMra, private_data, 10, 0, 1776),
      AT(CmRej, remote_comm_id, 4, 0, 32),
      AT(CmRej, subject, 8, 0, 2),
      AT(CmRej, info_length, 9, 0, 7),
      AT(CmRej, reason, 10, 0, 16),
      AT(CmRej, info, 12, 0, 576),
      AT(CmRej, private_data, 84, 0, 1184),
      AT(CmRep, local_comm_id, 0, 0, 32),
      AT(CmRep, remote_comm_id, 4, 0, 32),
      AT(CmRep, qkey, 8, 0, 32),
      AT(CmRep, qpn, 12, 0, 24),
      AT(CmRep, local_eecn, 16, 0, 24),
      AT(CmRep, starting_psn, 20, 0, 24),
      AT(CmRep, responder_resources, 24, 0, 8),
      AT(CmRep, initiator_depth, 25, 0, 8),
      AT(CmRep, target_ack_delay, 26, 0, 5),
      AT(CmRep, failover, 26, 5, 2),
      AT(CmRep, flow_control, 26, 7, 1),
      AT(CmRep, rnr_retry_count, 27, 0, 3),
      AT(CmRep, srq, 27, 3, 1),
      AT(CmRep, ca_guid, 28, 0, 64),
      AT(CmRep, private_data, 36, 0, 1568),
      AT(CmRtu, remote_comm_id, 4, 0, 32),
      AT(CmRtu, private_data, 8, 0, 1792),
      AT(CmDreq, remote_comm_id, 4, 0, 32),
      AT(CmDreq, remote_qpn, 8, 0, 24),
      AT(CmDreq, private_data, 12, 0, 1760),
      AT(CmDrep, remote_comm_id, 4, 0, 32),
      AT(CmDrep, private_data, 8, 0, 1792),
      AT(CmSidrReq, request_id, 0, 0, 32),
      AT(CmSidrReq, pkey, 4, 0, 16),
      AT(CmSidrReq, service_id, 8, 0, 64),
      AT(CmSidrReq, private_data, 16, 0, 1728),
      AT(CmSidrRep, request_id, 0, 0, 32),
      AT(CmSidrRep, status, 4, 0, 8),
      AT(CmSidrRep, info_length, 5, 0, 8),
      AT(CmSidrRep, qpn, 8, 0, 24),
      AT(CmSidrRep, service_id, 12, 0, 64),
      AT(CmSidrRep, qkey, 20, 0, 32),
      AT(CmSidrRep, info, 24, 0, 576),
      AT(CmSidrRep, private_data, 96, 0, 1088),
      AT(CmLap, remote_comm_id, 4, 0, 32),
      AT(CmLap, remote_qpn, 12, 0, 24),
      AT(CmLap, remote_cm_response_timeout, 15, 0, 5),
      AT(CmLap, alternate.local_lid, 20, 0, 16),
      AT(CmLap, alternate.local_gid, 24, 0, 128),
      AT(CmLap, alternate.remote_gid, 40, 0, 128),
      AT(CmLap, alternate.flow_label, 56, 0, 20),
      AT(CmLap, alternate.traffic_class, 59, 0, 8),
      AT(CmLap, alternate.hop_limit, 60, 0, 8),
      AT(CmLap, alternate.packet_rate, 61, 2, 6),
      AT(CmLap, alternate.sl, 62, 0, 4),
      AT(CmLap, alternate.subnet_local, 62, 4, 1),
      AT(CmLap, alternate.ack_timeout, 63, 0, 5),
      AT(CmLap, private_data, 64, 0, 1344),
      AT(CmApr, remote_comm_id, 4, 0, 32),
      AT(CmApr, info_length, 8, 0, 8),
      AT(CmApr, status, 9, 0, 8),
      AT(CmApr, info, 12, 0, 576),
      AT(CmApr, private_data, 84, 0, 1184),
  };
  return kFields;
}
#undef AT

// rules: A9.2
TEST(Mad, EachFieldIsAtTheBitsOfTheStandardsTable) {
  for (const Field& field : fields()) {
    CmMad mad;
    mad.message = field.all_ones();
    const auto bytes = format_mad(mad);
    for (size_t bit = 0; bit < (kMadBytes - kHeader) * 8; ++bit) {
      const size_t first = field.byte * 8 + field.bit;
      const bool set = (bytes[kHeader + bit / 8] >> (7 - bit % 8) & 1) != 0;
      ASSERT_EQ(set, bit >= first && bit < first + field.width)
          << field.name << " bit " << bit % 8 << " of byte " << bit / 8;
    }
  }
}

// rules: A9.1 A9.2
TEST(Mad, WhatIsReadFromAnyBytesIsWrittenAndReadAgain) {
  std::mt19937_64 random(9);
  for (int i = 0; i < 2000; ++i) {
    auto bytes = random_bytes(kMadBytes, random);
    bytes[0] = 1;
    bytes[1] = 7;
    bytes[2] = 2;
    bytes[3] = 3;
    bytes[16] = 0;
    bytes[17] = static_cast<uint8_t>(0x10 + i % 11);
    const auto mad = parse_mad(bytes);
    ASSERT_TRUE(mad);
    ASSERT_EQ(static_cast<int>(cm_attribute(mad->message)), 0x10 + i % 11);
    const auto once = format_mad(*mad);
    const auto read = parse_mad(once);
    ASSERT_TRUE(read);
    ASSERT_EQ(read->transaction_id, mad->transaction_id);
    ASSERT_EQ(format_mad(*read), once);
    // Nothing was set that did not come: the difference is reserved bits.
    for (size_t at = 0; at < kMadBytes; ++at) ASSERT_EQ(once[at] & ~bytes[at], 0) << at;
  }
}

// rules: A9.1
TEST(Mad, OtherDatagramsAreRefusedWithTheReason) {
  CmMad mad;
  mad.message = CmRtu{};
  const auto good = format_mad(mad);
  const auto error = [&](size_t at, uint8_t value) {
    auto bytes = good;
    bytes[at] = value;
    const auto parsed = parse_mad(bytes);
    EXPECT_FALSE(parsed);
    return parsed.error();
  };
  EXPECT_EQ(parse_mad(std::span(good).first(255)).error(), MadError::kSize);
  EXPECT_EQ(parse_mad({}).error(), MadError::kSize);
  EXPECT_EQ(error(0, 2), MadError::kBaseVersion);
  EXPECT_EQ(error(1, 3), MadError::kClass);  // subnet administration
  EXPECT_EQ(error(2, 1), MadError::kClassVersion);
  EXPECT_EQ(error(3, 0x81), MadError::kMethod);
  EXPECT_EQ(error(17, 0x0f), MadError::kAttribute);
  EXPECT_EQ(error(17, 0x1b), MadError::kAttribute);
  EXPECT_EQ(error(16, 1), MadError::kAttribute);
}

TEST(Mad, PathMtuCodes) {
  EXPECT_EQ(mtu_bytes(0), 0u);
  EXPECT_EQ(mtu_bytes(1), 256u);
  EXPECT_EQ(mtu_bytes(5), 4096u);
  EXPECT_EQ(mtu_bytes(6), 0u);
  EXPECT_EQ(mtu_code(256), 1);
  EXPECT_EQ(mtu_code(1500), 3);
  EXPECT_EQ(mtu_code(9000), 5);
}

}  // namespace
}  // namespace understudy
