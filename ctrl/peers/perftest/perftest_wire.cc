#include "ctrl/peers/perftest/perftest_wire.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "ctrl/peers/service.h"
#include "dataplane/base/big_endian.h"

namespace understudy {
namespace {

/// Digits of the fields before the GID.
constexpr std::array<size_t, 6> kFieldDigits = {4, 4, 6, 6, 8, 16};
constexpr uint32_t kSmallestMtu = 256;
constexpr unsigned kLargestMtuCode = 5;
constexpr uint32_t kLargestTestKind = 3;  ///< latency, bandwidth, and two of raw Ethernet's

/// The head of a key message of -R.
struct BinaryKey {
  Be32 lid, out_reads, qpn, psn, rkey, unused;
  Be64 address;
};
static_assert(sizeof(BinaryKey) == 32);

size_t binary_gid_at(size_t message) {
  return sizeof(BinaryKey) + (message == kPerftestLongBinaryKeySize ? sizeof(Be64) : 0);
}

/// The head of PerftestTest on the wire.
struct BinaryTest {
  Be32 method, connection_type, verb, kind, atomic, duration_test, report_format, unused;
  Be64 size, iterations;
  Be32 aes_xts, queue_pairs, duration, rdma_cm, write_with_imm, no_reorder, signatures, validates;
};
static_assert(sizeof(BinaryTest) == 80);

/// Takes `digits` hexadecimal digits and a colon from the front of `text`.
std::optional<uint64_t> take_field(std::string_view& text, size_t digits) {
  if (text.size() <= digits || text[digits] != ':') return std::nullopt;
  const auto value = parse_hex(text.substr(0, digits));
  text.remove_prefix(digits + 1);
  return value;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::optional<PerftestKey> parse_perftest_key(std::span<const uint8_t> bytes) {
  if (bytes.size() != kPerftestKeySize || bytes.back() != 0) return std::nullopt;
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size() - 1);
  std::array<uint64_t, kFieldDigits.size()> fields;
  for (size_t i = 0; i < fields.size(); ++i) {
    const auto value = take_field(text, kFieldDigits[i]);
    if (!value) return std::nullopt;
    fields[i] = *value;
  }
  std::array<uint8_t, 16> gid;
  for (uint8_t& byte : gid) {
    const auto value = take_field(text, 2);
    if (!value) return std::nullopt;
    byte = static_cast<uint8_t>(*value);
  }
  if (!take_field(text, 8)) return std::nullopt;  // shared receive queue: used by XRC only
  PerftestKey key;
  key.lid = static_cast<uint16_t>(fields[0]);
  key.out_reads = static_cast<uint16_t>(fields[1]);
  key.qpn = static_cast<Qpn>(fields[2]);
  key.psn = Psn(static_cast<uint32_t>(fields[3]));
  key.rkey = static_cast<Rkey>(fields[4]);
  key.address = fields[5];
  key.gid = IpAddress::v6_bytes(gid.data());
  return key;
}

std::array<uint8_t, kPerftestKeySize> format_perftest_key(const PerftestKey& key) {
  char text[kPerftestKeySize];
  int at = std::snprintf(text, sizeof text, "%04x:%04x:%06x:%06x:%08x:%016llx:", key.lid,
                         key.out_reads, key.qpn & kQpnMask, key.psn.value(), key.rkey,
                         static_cast<unsigned long long>(key.address));
  for (const uint8_t byte : key.gid.gid()) {
    at += std::snprintf(text + at, sizeof text - static_cast<size_t>(at), "%02x:", byte);
  }
  std::snprintf(text + at, sizeof text - static_cast<size_t>(at), "%08x:", 0u);
  std::array<uint8_t, kPerftestKeySize> bytes;
  std::copy_n(text, bytes.size(), bytes.begin());
  return bytes;
}

std::optional<PerftestKey> parse_perftest_binary_key(std::span<const uint8_t> bytes) {
  const bool is_long = bytes.size() == kPerftestLongBinaryKeySize;
  if (bytes.size() != kPerftestBinaryKeySize && !is_long) return std::nullopt;
  BinaryKey fields;
  std::memcpy(&fields, bytes.data(), sizeof fields);
  PerftestKey key;
  key.lid = static_cast<uint16_t>(fields.lid.get());
  key.out_reads = static_cast<uint16_t>(fields.out_reads.get());
  key.qpn = fields.qpn.get() & kQpnMask;
  key.psn = Psn(fields.psn.get() & Psn::kMask);
  key.rkey = fields.rkey.get();
  key.address = fields.address.get();
  key.gid = IpAddress::v6_bytes(bytes.data() + binary_gid_at(bytes.size()));
  return key;
}

std::vector<uint8_t> format_perftest_binary_key(const PerftestKey& key, size_t size) {
  BinaryKey fields;
  fields.lid = key.lid;
  fields.out_reads = key.out_reads;
  fields.qpn = key.qpn;
  fields.psn = key.psn.value();
  fields.rkey = key.rkey;
  fields.address = key.address;
  std::vector<uint8_t> bytes(size);
  std::memcpy(bytes.data(), &fields, sizeof fields);
  std::memcpy(bytes.data() + binary_gid_at(size), key.gid.gid().data(), key.gid.gid().size());
  return bytes;
}

const PerftestLayout* perftest_layout(unsigned version) {
  const PerftestLayout* found = nullptr;
  for (const PerftestLayout& layout : kPerftestLayouts) {
    if (version >= layout.since) found = &layout;
  }
  return found;
}

unsigned perftest_newest() { return kPerftestLayouts.back().since; }

std::optional<PerftestTest> parse_perftest_test(std::span<const uint8_t> bytes) {
  if (bytes.size() != kPerftestTestSize) return std::nullopt;
  BinaryTest fields;
  std::memcpy(&fields, bytes.data(), sizeof fields);
  const uint32_t verb = fields.verb.get();
  const uint32_t kind = fields.kind.get();
  if (verb > static_cast<uint32_t>(PerftestVerb::kAtomic) || kind > kLargestTestKind) {
    return std::nullopt;
  }
  PerftestTest test;
  test.connection_type = fields.connection_type.get();
  test.verb = static_cast<PerftestVerb>(verb);
  test.latency = kind == 0;
  test.size = fields.size.get();
  test.iterations = fields.iterations.get();
  test.validates = fields.validates.get() != 0;
  return test;
}

std::optional<unsigned> parse_perftest_version(std::span<const uint8_t> bytes) {
  if (bytes.size() != kPerftestVersionSize) return std::nullopt;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t dot = text.find('.');
  if (dot == 0 || dot > 4) return std::nullopt;  // also when there is no dot
  const size_t end = text.find('\0', dot);
  if (end == std::string_view::npos || end == dot + 1) return std::nullopt;
  unsigned whole = 0;
  for (const char c : text.substr(0, dot)) {
    if (!is_digit(c)) return std::nullopt;
    whole = whole * 10 + static_cast<unsigned>(c - '0');
  }
  unsigned hundredths = 0;
  for (size_t i = 0; i < 2; ++i) {
    const char c = dot + 1 + i < end ? text[dot + 1 + i] : '0';
    if (!is_digit(c)) return std::nullopt;
    hundredths = hundredths * 10 + static_cast<unsigned>(c - '0');
  }
  return whole * 100 + hundredths;
}

std::optional<uint32_t> mtu_of_code(unsigned code) {
  if (code < 1 || code > kLargestMtuCode) return std::nullopt;
  return kSmallestMtu << (code - 1);
}

std::optional<unsigned> code_of_mtu(uint32_t mtu) {
  for (unsigned code = 1; code <= kLargestMtuCode; ++code) {
    if (mtu_of_code(code) == mtu) return code;
  }
  return std::nullopt;
}

}  // namespace understudy
