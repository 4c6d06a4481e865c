// RDMA-CM on QP1: messages, and the states of a connection that is being made or closed.
//
// This file: the communication manager's datagrams (MADs) as plain structs, and their codec, bit by
// bit (IBTA volume 1, chapter 12; rules A9.1 and A9.2). Reserved bits are written as zeros and
// ignored when they come.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <tl/expected.hpp>
#include <variant>

#include "dataplane/base/address.h"
#include "dataplane/base/ids.h"

namespace understudy {

inline constexpr size_t kMadBytes = 256;
inline constexpr uint16_t kRoceLid = 0xffff;  ///< what stands for a LID where there is none

/// Attribute id: which message a MAD is.
enum class CmAttribute : uint16_t {
  kReq = 0x10,
  kMra = 0x11,
  kRej = 0x12,
  kRep = 0x13,
  kRtu = 0x14,
  kDreq = 0x15,
  kDrep = 0x16,
  kSidrReq = 0x17,
  kSidrRep = 0x18,
  kLap = 0x19,
  kApr = 0x1a,
};
const char* cm_attribute_name(CmAttribute attribute);

/// Which message an MRA or a REJ is about.
enum class CmSubject : uint8_t { kReq = 0, kRep = 1, kOther = 2 };

/// Why a REJ was sent (table of reasons; numbers that are not here may come too).
enum class RejReason : uint16_t {
  kNoQp = 1,
  kNoResources = 3,
  kTimeout = 4,
  kUnsupported = 5,
  kInvalidCommId = 6,
  kInvalidServiceId = 8,
  kInvalidTransportType = 9,
  kStaleConnection = 10,
  kInvalidGid = 12,
  kInvalidMtu = 26,
  kInsufficientResponderResources = 27,
  kConsumer = 28,
  kDuplicateLocalCommId = 30,
  kInvalidClassVersion = 31,
};
/// In words; "reason" for a number that has no name here.
const char* rej_reason_name(RejReason reason);

enum class AprStatus : uint8_t { kSuccess = 0, kInvalidCommId = 1, kUnsupported = 2 };
enum class SidrStatus : uint8_t { kSuccess = 0, kUnsupported = 1, kReject = 2, kNoQp = 3 };

/// One path of a REQ or the new one of a LAP, as the sender sees it.
struct CmPath {
  uint16_t local_lid = 0, remote_lid = 0;
  IpAddress local_gid, remote_gid;
  uint32_t flow_label = 0;
  uint8_t packet_rate = 0;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint8_t sl = 0;
  bool subnet_local = false;
  uint8_t ack_timeout = 0;  ///< 4.096 us << n
};

struct CmReq {
  uint32_t local_comm_id = 0;
  uint64_t service_id = 0;
  uint64_t ca_guid = 0;
  uint32_t qkey = 0;
  Qpn qpn = 0;
  uint8_t responder_resources = 0;  ///< READs and ATOMICs that the sender can answer at a time
  uint32_t local_eecn = 0, remote_eecn = 0;
  uint8_t initiator_depth = 0;             ///< ... and that it wants to have outstanding
  uint8_t remote_cm_response_timeout = 0;  ///< 4.096 us << n, as are all times here
  uint8_t transport_type = 0;              ///< 0 RC, 1 UC, 2 RD, 3 extended
  bool flow_control = false;
  uint32_t starting_psn = 0;  ///< of the first packet that the message's receiver shall send
  uint8_t local_cm_response_timeout = 0;
  uint8_t retry_count = 0;
  uint16_t pkey = 0xffff;
  uint8_t path_mtu = 0;  ///< 1..5: 256..4096 bytes
  bool rdc_exists = false;
  uint8_t rnr_retry_count = 0;
  uint8_t max_cm_retries = 0;
  bool srq = false;
  uint8_t extended_transport_type = 0;
  CmPath primary, alternate;
  std::array<uint8_t, 92> private_data{};
};

struct CmMra {
  uint32_t local_comm_id = 0, remote_comm_id = 0;
  CmSubject subject = CmSubject::kReq;
  uint8_t service_timeout = 0;
  std::array<uint8_t, 222> private_data{};
};

struct CmRej {
  uint32_t local_comm_id = 0, remote_comm_id = 0;
  CmSubject subject = CmSubject::kReq;
  uint8_t info_length = 0;  ///< valid bytes of `info`
  RejReason reason = RejReason::kConsumer;
  std::array<uint8_t, 72> info{};
  std::array<uint8_t, 148> private_data{};
};

struct CmRep {
  uint32_t local_comm_id = 0, remote_comm_id = 0;
  uint32_t qkey = 0;
  Qpn qpn = 0;
  uint32_t local_eecn = 0;
  uint32_t starting_psn = 0;  ///< of the first packet that the message's receiver shall send
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t target_ack_delay = 0;
  uint8_t failover = 0;  ///< 0 accepted, 1 not supported, 2 rejected
  bool flow_control = false;
  uint8_t rnr_retry_count = 0;
  bool srq = false;
  uint64_t ca_guid = 0;
  std::array<uint8_t, 196> private_data{};
};

struct CmRtu {
  uint32_t local_comm_id = 0, remote_comm_id = 0;
  std::array<uint8_t, 224> private_data{};
};

struct CmDreq {
  uint32_t local_comm_id = 0, remote_comm_id = 0;
  Qpn remote_qpn = 0;  ///< of the receiver of this message
  std::array<uint8_t, 220> private_data{};
};

struct CmDrep {
  uint32_t local_comm_id = 0, remote_comm_id = 0;
  std::array<uint8_t, 224> private_data{};
};

struct CmLap {
  uint32_t local_comm_id = 0, remote_comm_id = 0;
  Qpn remote_qpn = 0;
  uint8_t remote_cm_response_timeout = 0;
  CmPath alternate;
  std::array<uint8_t, 168> private_data{};
};

struct CmApr {
  uint32_t local_comm_id = 0, remote_comm_id = 0;
  uint8_t info_length = 0;
  AprStatus status = AprStatus::kUnsupported;
  std::array<uint8_t, 72> info{};
  std::array<uint8_t, 148> private_data{};
};

struct CmSidrReq {
  uint32_t request_id = 0;
  uint16_t pkey = 0xffff;
  uint64_t service_id = 0;
  std::array<uint8_t, 216> private_data{};
};

struct CmSidrRep {
  uint32_t request_id = 0;
  SidrStatus status = SidrStatus::kSuccess;
  uint8_t info_length = 0;
  Qpn qpn = 0;
  uint64_t service_id = 0;
  uint32_t qkey = 0;
  std::array<uint8_t, 72> info{};
  std::array<uint8_t, 136> private_data{};
};

using CmMessage = std::variant<CmReq, CmMra, CmRej, CmRep, CmRtu, CmDreq, CmDrep, CmSidrReq,
                               CmSidrRep, CmLap, CmApr>;
CmAttribute cm_attribute(const CmMessage& message);

/// A communication management datagram.
struct CmMad {
  uint64_t transaction_id = 0;
  uint16_t status = 0;
  CmMessage message;
};

/// Why bytes are no message of the communication manager (rule A9.1).
enum class MadError : uint8_t {
  kSize,          ///< not 256 bytes
  kBaseVersion,   ///< not 1
  kClass,         ///< not communication management (7)
  kClassVersion,  ///< not 2
  kMethod,        ///< not Send (3)
  kAttribute,     ///< no message that we know
};
const char* mad_error_name(MadError error);

tl::expected<CmMad, MadError> parse_mad(std::span<const uint8_t> bytes);
std::array<uint8_t, kMadBytes> format_mad(const CmMad& mad);

/// Path MTU code 1..5 as bytes; 0 for any other number.
constexpr uint32_t mtu_bytes(uint8_t code) { return code >= 1 && code <= 5 ? 128u << code : 0; }
/// The code of the largest path MTU that is at most `bytes` (256 or more).
constexpr uint8_t mtu_code(uint32_t bytes) {
  uint8_t code = 1;
  while (code < 5 && mtu_bytes(static_cast<uint8_t>(code + 1)) <= bytes) ++code;
  return code;
}

}  // namespace understudy
