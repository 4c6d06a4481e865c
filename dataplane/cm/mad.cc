#include "dataplane/cm/mad.h"

#include <algorithm>
#include <type_traits>

namespace understudy {
namespace {

constexpr size_t kHeaderBytes = 24;
constexpr uint8_t kBaseVersion = 1, kClass = 7, kClassVersion = 2, kMethodSend = 3;

// One description of each message (visit() below) serves both directions: Reader fills the struct
// from the datagram, Writer the datagram from the struct.

class Reader {
 public:
  static constexpr bool kWrites = false;
  explicit Reader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  /// `width` bits from bit `bit` (0 is the most significant one) of byte `byte` on.
  template <typename T>
  void bits(size_t byte, size_t bit, size_t width, T& value) const {
    uint64_t v = 0;
    for (size_t i = byte * 8 + bit; i < byte * 8 + bit + width; ++i) {
      v = v << 1 | (bytes_[i / 8] >> (7 - i % 8) & 1u);
    }
    value = static_cast<T>(v);
  }
  template <size_t N>
  void data(size_t byte, std::array<uint8_t, N>& value) const {
    std::copy_n(bytes_.begin() + static_cast<ptrdiff_t>(byte), N, value.begin());
  }
  void gid(size_t byte, IpAddress& value) const {
    value = IpAddress::v6_bytes(bytes_.data() + byte);
  }

 private:
  std::span<const uint8_t> bytes_;
};

class Writer {
 public:
  static constexpr bool kWrites = true;
  explicit Writer(std::span<uint8_t> bytes) : bytes_(bytes) {}

  template <typename T>
  void bits(size_t byte, size_t bit, size_t width, const T& value) const {
    const auto v = static_cast<uint64_t>(value);
    for (size_t i = 0; i < width; ++i) {
      const size_t at = byte * 8 + bit + i;
      const auto mask = static_cast<uint8_t>(0x80u >> at % 8);
      if ((v >> (width - 1 - i) & 1) != 0) bytes_[at / 8] |= mask;
    }
  }
  template <size_t N>
  void data(size_t byte, const std::array<uint8_t, N>& value) const {
    std::copy(value.begin(), value.end(), bytes_.begin() + static_cast<ptrdiff_t>(byte));
  }
  void gid(size_t byte, const IpAddress& value) const { data(byte, value.gid()); }

 private:
  std::span<uint8_t> bytes_;
};

template <typename Codec, typename T>
using Struct = std::conditional_t<Codec::kWrites, const T, T>;

template <typename Codec, typename Message>
void visit_ids(const Codec& c, Message& m) {
  c.bits(0, 0, 32, m.local_comm_id);
  c.bits(4, 0, 32, m.remote_comm_id);
}

template <typename Codec>
void visit_req_path(const Codec& c, size_t at, Struct<Codec, CmPath>& p) {
  c.bits(at, 0, 16, p.local_lid);
  c.bits(at + 2, 0, 16, p.remote_lid);
  c.gid(at + 4, p.local_gid);
  c.gid(at + 20, p.remote_gid);
  c.bits(at + 36, 0, 20, p.flow_label);
  c.bits(at + 39, 2, 6, p.packet_rate);
  c.bits(at + 40, 0, 8, p.traffic_class);
  c.bits(at + 41, 0, 8, p.hop_limit);
  c.bits(at + 42, 0, 4, p.sl);
  c.bits(at + 42, 4, 1, p.subnet_local);
  c.bits(at + 43, 0, 5, p.ack_timeout);
}

template <typename Codec>
void visit(const Codec& c, Struct<Codec, CmReq>& m) {
  c.bits(0, 0, 32, m.local_comm_id);
  c.bits(8, 0, 64, m.service_id);
  c.bits(16, 0, 64, m.ca_guid);
  c.bits(28, 0, 32, m.qkey);
  c.bits(32, 0, 24, m.qpn);
  c.bits(35, 0, 8, m.responder_resources);
  c.bits(36, 0, 24, m.local_eecn);
  c.bits(39, 0, 8, m.initiator_depth);
  c.bits(40, 0, 24, m.remote_eecn);
  c.bits(43, 0, 5, m.remote_cm_response_timeout);
  c.bits(43, 5, 2, m.transport_type);
  c.bits(43, 7, 1, m.flow_control);
  c.bits(44, 0, 24, m.starting_psn);
  c.bits(47, 0, 5, m.local_cm_response_timeout);
  c.bits(47, 5, 3, m.retry_count);
  c.bits(48, 0, 16, m.pkey);
  c.bits(50, 0, 4, m.path_mtu);
  c.bits(50, 4, 1, m.rdc_exists);
  c.bits(50, 5, 3, m.rnr_retry_count);
  c.bits(51, 0, 4, m.max_cm_retries);
  c.bits(51, 4, 1, m.srq);
  c.bits(51, 5, 3, m.extended_transport_type);
  visit_req_path<Codec>(c, 52, m.primary);
  visit_req_path<Codec>(c, 96, m.alternate);
  c.data(140, m.private_data);
}

template <typename Codec>
void visit(const Codec& c, Struct<Codec, CmMra>& m) {
  visit_ids(c, m);
  c.bits(8, 0, 2, m.subject);
  c.bits(9, 0, 5, m.service_timeout);
  c.data(10, m.private_data);
}

template <typename Codec>
void visit(const Codec& c, Struct<Codec, CmRej>& m) {
  visit_ids(c, m);
  c.bits(8, 0, 2, m.subject);
  c.bits(9, 0, 7, m.info_length);
  c.bits(10, 0, 16, m.reason);
  c.data(12, m.info);
  c.data(84, m.private_data);
}

template <typename Codec>
void visit(const Codec& c, Struct<Codec, CmRep>& m) {
  visit_ids(c, m);
  c.bits(8, 0, 32, m.qkey);
  c.bits(12, 0, 24, m.qpn);
  c.bits(16, 0, 24, m.local_eecn);
  c.bits(20, 0, 24, m.starting_psn);
  c.bits(24, 0, 8, m.responder_resources);
  c.bits(25, 0, 8, m.initiator_depth);
  c.bits(26, 0, 5, m.target_ack_delay);
  c.bits(26, 5, 2, m.failover);
  c.bits(26, 7, 1, m.flow_control);
  c.bits(27, 0, 3, m.rnr_retry_count);
  c.bits(27, 3, 1, m.srq);
  c.bits(28, 0, 64, m.ca_guid);
  c.data(36, m.private_data);
}

template <typename Codec>
void visit(const Codec& c, Struct<Codec, CmRtu>& m) {
  visit_ids(c, m);
  c.data(8, m.private_data);
}

template <typename Codec>
void visit(const Codec& c, Struct<Codec, CmDreq>& m) {
  visit_ids(c, m);
  c.bits(8, 0, 24, m.remote_qpn);
  c.data(12, m.private_data);
}

template <typename Codec>
void visit(const Codec& c, Struct<Codec, CmDrep>& m) {
  visit_ids(c, m);
  c.data(8, m.private_data);
}

template <typename Codec>
void visit(const Codec& c, Struct<Codec, CmSidrReq>& m) {
  c.bits(0, 0, 32, m.request_id);
  c.bits(4, 0, 16, m.pkey);
  c.bits(8, 0, 64, m.service_id);
  c.data(16, m.private_data);
}

template <typename Codec>
void visit(const Codec& c, Struct<Codec, CmSidrRep>& m) {
  c.bits(0, 0, 32, m.request_id);
  c.bits(4, 0, 8, m.status);
  c.bits(5, 0, 8, m.info_length);
  c.bits(8, 0, 24, m.qpn);
  c.bits(12, 0, 64, m.service_id);
  c.bits(20, 0, 32, m.qkey);
  c.data(24, m.info);
  c.data(96, m.private_data);
}

template <typename Codec>
void visit(const Codec& c, Struct<Codec, CmLap>& m) {
  visit_ids(c, m);
  c.bits(12, 0, 24, m.remote_qpn);
  c.bits(15, 0, 5, m.remote_cm_response_timeout);
  c.bits(20, 0, 16, m.alternate.local_lid);
  c.bits(22, 0, 16, m.alternate.remote_lid);
  c.gid(24, m.alternate.local_gid);
  c.gid(40, m.alternate.remote_gid);
  // From here on a LAP orders a path's fields in its own way.
  c.bits(56, 0, 20, m.alternate.flow_label);
  c.bits(59, 0, 8, m.alternate.traffic_class);
  c.bits(60, 0, 8, m.alternate.hop_limit);
  c.bits(61, 2, 6, m.alternate.packet_rate);
  c.bits(62, 0, 4, m.alternate.sl);
  c.bits(62, 4, 1, m.alternate.subnet_local);
  c.bits(63, 0, 5, m.alternate.ack_timeout);
  c.data(64, m.private_data);
}

template <typename Codec>
void visit(const Codec& c, Struct<Codec, CmApr>& m) {
  visit_ids(c, m);
  c.bits(8, 0, 8, m.info_length);
  c.bits(9, 0, 8, m.status);
  c.data(12, m.info);
  c.data(84, m.private_data);
}

template <typename Message>
CmMessage read(const Reader& reader) {
  Message m;
  visit<Reader>(reader, m);
  return m;
}

/// Nothing where no message has that attribute.
bool read_message(CmAttribute attribute, const Reader& reader, CmMessage& out) {
  switch (attribute) {
    case CmAttribute::kReq:
      return out = read<CmReq>(reader), true;
    case CmAttribute::kMra:
      return out = read<CmMra>(reader), true;
    case CmAttribute::kRej:
      return out = read<CmRej>(reader), true;
    case CmAttribute::kRep:
      return out = read<CmRep>(reader), true;
    case CmAttribute::kRtu:
      return out = read<CmRtu>(reader), true;
    case CmAttribute::kDreq:
      return out = read<CmDreq>(reader), true;
    case CmAttribute::kDrep:
      return out = read<CmDrep>(reader), true;
    case CmAttribute::kSidrReq:
      return out = read<CmSidrReq>(reader), true;
    case CmAttribute::kSidrRep:
      return out = read<CmSidrRep>(reader), true;
    case CmAttribute::kLap:
      return out = read<CmLap>(reader), true;
    case CmAttribute::kApr:
      return out = read<CmApr>(reader), true;
  }
  return false;
}

struct Header {
  uint8_t base_version = kBaseVersion, mad_class = kClass, class_version = kClassVersion;
  uint8_t method = kMethodSend;
  uint16_t status = 0;
  uint64_t transaction_id = 0;
  CmAttribute attribute = CmAttribute::kReq;
};

template <typename Codec>
void visit_header(const Codec& c, Struct<Codec, Header>& h) {
  c.bits(0, 0, 8, h.base_version);
  c.bits(1, 0, 8, h.mad_class);
  c.bits(2, 0, 8, h.class_version);
  c.bits(3, 0, 8, h.method);
  c.bits(4, 0, 16, h.status);
  c.bits(8, 0, 64, h.transaction_id);
  c.bits(16, 0, 16, h.attribute);
}

}  // namespace

tl::expected<CmMad, MadError> parse_mad(std::span<const uint8_t> bytes) {
  if (bytes.size() != kMadBytes) return tl::unexpected(MadError::kSize);
  Header h;
  visit_header(Reader(bytes), h);
  if (h.base_version != kBaseVersion) return tl::unexpected(MadError::kBaseVersion);
  if (h.mad_class != kClass) return tl::unexpected(MadError::kClass);
  if (h.class_version != kClassVersion) return tl::unexpected(MadError::kClassVersion);
  if (h.method != kMethodSend) return tl::unexpected(MadError::kMethod);
  CmMad mad;
  mad.transaction_id = h.transaction_id;
  mad.status = h.status;
  if (!read_message(h.attribute, Reader(bytes.subspan(kHeaderBytes)), mad.message)) {
    return tl::unexpected(MadError::kAttribute);
  }
  return mad;
}

std::array<uint8_t, kMadBytes> format_mad(const CmMad& mad) {
  std::array<uint8_t, kMadBytes> bytes{};
  Header h;
  h.status = mad.status;
  h.transaction_id = mad.transaction_id;
  h.attribute = cm_attribute(mad.message);
  visit_header(Writer(bytes), h);
  const Writer body{std::span(bytes).subspan(kHeaderBytes)};
  std::visit([&](const auto& m) { visit<Writer>(body, m); }, mad.message);
  return bytes;
}

CmAttribute cm_attribute(const CmMessage& message) {
  // The variant's alternatives stand in the order of their attributes.
  return static_cast<CmAttribute>(static_cast<size_t>(CmAttribute::kReq) + message.index());
}

const char* cm_attribute_name(CmAttribute attribute) {
  static constexpr std::array kNames = {"REQ",  "MRA",      "REJ",      "REP", "RTU", "DREQ",
                                        "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR"};
  const size_t index = static_cast<size_t>(attribute) - static_cast<size_t>(CmAttribute::kReq);
  return index < kNames.size() ? kNames[index] : "?";
}

const char* rej_reason_name(RejReason reason) {
  switch (reason) {
    case RejReason::kNoQp:
      return "no queue pair left";
    case RejReason::kNoResources:
      return "no resources left";
    case RejReason::kTimeout:
      return "timeout";
    case RejReason::kUnsupported:
      return "unsupported request";
    case RejReason::kInvalidCommId:
      return "unknown communication id";
    case RejReason::kInvalidServiceId:
      return "nobody listens there";
    case RejReason::kInvalidTransportType:
      return "transport service not supported";
    case RejReason::kStaleConnection:
      return "stale connection";
    case RejReason::kInvalidGid:
      return "address not accepted";
    case RejReason::kInvalidMtu:
      return "path MTU not accepted";
    case RejReason::kInsufficientResponderResources:
      return "too few responder resources";
    case RejReason::kConsumer:
      return "rejected by the consumer";
    case RejReason::kDuplicateLocalCommId:
      return "duplicate communication id";
    case RejReason::kInvalidClassVersion:
      return "class version not supported";
  }
  return "reason";
}

const char* mad_error_name(MadError error) {
  static constexpr std::array kNames = {"not 256 bytes long",      "unknown base version",
                                        "not a message of the CM", "unknown class version",
                                        "method is not Send",      "unknown attribute"};
  return kNames[static_cast<size_t>(error)];
}

}  // namespace understudy
