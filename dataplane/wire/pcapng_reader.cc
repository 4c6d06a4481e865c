#include "dataplane/wire/pcapng_reader.h"

#include <algorithm>
#include <concepts>
#include <cstdlib>
#include <cstring>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

constexpr int64_t kPsPerSecond = 1'000'000'000'000;
constexpr int64_t kMaxSeconds = int64_t{1} << 50;  // no sum of two such times overflows
constexpr size_t kBlockFrame = 12;                 // type, length, length again

size_t padded(size_t n) { return (n + 3) & ~size_t{3}; }

}  // namespace

/// A cursor over the body of one block in the byte order of its section.
class PcapngReader::Block {
 public:
  Block(uint32_t type, std::span<const uint8_t> body, bool swapped)
      : type_(type), body_(body), swapped_(swapped) {}

  uint32_t type() const { return type_; }
  bool has(size_t n) const { return body_.size() - at_ >= n; }

  /// The caller has checked has(); nothing is ever read past the body.
  template <std::unsigned_integral T>
  T take() {
    return number<T>(take_bytes(sizeof(T)));
  }
  int64_t take_signed() { return static_cast<int64_t>(take<uint64_t>()); }
  uint64_t take_stamp() {
    const uint64_t high = take<uint32_t>();
    return high << 32 | take<uint32_t>();
  }
  std::span<const uint8_t> take_bytes(size_t n) {
    const auto out = body_.subspan(at_, std::min(n, body_.size() - at_));
    at_ += out.size();
    return out;
  }
  void skip_padding(size_t n) { take_bytes(padded(n) - n); }

  template <std::unsigned_integral T>
  T number(std::span<const uint8_t> bytes) const {
    T v = 0;
    for (size_t i = 0; i < bytes.size() && i < sizeof v; ++i) {
      const size_t from = swapped_ ? bytes.size() - 1 - i : i;
      v = static_cast<T>(v | static_cast<T>(static_cast<T>(bytes[from]) << (8 * i)));
    }
    return v;
  }

  struct Option {
    uint16_t code;
    std::span<const uint8_t> value;
  };
  /// The next option; nothing at the end of options or where the rest makes no sense.
  std::optional<Option> next_option() {
    if (!has(4)) return std::nullopt;
    Option o{take<uint16_t>(), {}};
    const size_t length = take<uint16_t>();
    if (o.code == kPcapngOptEnd || !has(length)) return std::nullopt;
    o.value = take_bytes(length);
    skip_padding(length);
    return o;
  }
  /// The value of our own custom option with this tag and length, as a cursor.
  std::optional<Block> custom(const Option& o, const char* tag, size_t length) const {
    if (o.code != kPcapngOptCustom || o.value.size() != 8 + length) return std::nullopt;
    if (number<uint32_t>(o.value.first(4)) != kPcapngEnterprise) return std::nullopt;
    if (std::memcmp(o.value.data() + 4, tag, 4) != 0) return std::nullopt;
    return Block(0, o.value.subspan(8), swapped_);
  }

 private:
  uint32_t type_;
  std::span<const uint8_t> body_;
  size_t at_ = 0;
  bool swapped_;
};

bool looks_like_pcapng(std::span<const uint8_t> file) {
  constexpr uint8_t kMagic[] = {0x0a, 0x0d, 0x0d, 0x0a};  // reads the same in both byte orders
  return file.size() >= sizeof kMagic && std::memcmp(file.data(), kMagic, sizeof kMagic) == 0;
}

tl::unexpected<Error> PcapngReader::fault(const std::string& what) const {
  return fail("pcapng block at byte " + std::to_string(block_start_) + ": " + what);
}

Result<PcapngReader::Block> PcapngReader::next_block() {
  block_start_ = at_;
  const auto rest = file_.subspan(at_);
  if (rest.size() < kBlockFrame) {
    truncated_ = true;
    at_ = file_.size();
    return Block(0, {}, false);
  }
  if (looks_like_pcapng(rest)) {
    const auto magic = Block(0, {}, false).number<uint32_t>(rest.subspan(8, 4));
    if (magic != kPcapngByteOrder && magic != __builtin_bswap32(kPcapngByteOrder)) {
      return fault("no byte-order magic in the section header");
    }
    swapped_ = magic != kPcapngByteOrder;
  } else if (at_ == 0) {
    return fault("no section header");
  }
  const Block order(0, {}, swapped_);
  const uint32_t type = order.number<uint32_t>(rest.first(4));
  const uint32_t length = order.number<uint32_t>(rest.subspan(4, 4));
  if (length < kBlockFrame || length % 4 != 0) {
    return fault("length " + std::to_string(length) + " is not a multiple of 4 of at least 12");
  }
  if (length > rest.size()) {
    truncated_ = true;
    at_ = file_.size();
    return Block(0, {}, false);
  }
  if (order.number<uint32_t>(rest.subspan(length - 4, 4)) != length) {
    return fault("its two lengths differ");
  }
  at_ += length;
  return Block(type, rest.subspan(8, length - kBlockFrame), swapped_);
}

Result<PcapngRecord> PcapngReader::next() {
  while (at_ < file_.size()) {
    auto block = TRY(next_block());
    if (truncated_) break;
    switch (block.type()) {
      case kPcapngSection:
        TRY(read_section(block));
        break;
      case kPcapngInterface:
        return read_interface(block);
      case kPcapngPacket:
        return read_packet(block);
      case kPcapngSimplePacket:
        return read_simple_packet(block);
      case kPcapngStatistics:
        return read_statistics(block);
      default:
        break;
    }
  }
  return std::monostate();
}

Result<void> PcapngReader::read_section(Block& block) {
  if (!block.has(16)) return fault("section header too short");
  block.take<uint32_t>();
  if (const auto major = block.take<uint16_t>(); major != 1) {
    return fault("version " + std::to_string(major) + " of the format is unknown");
  }
  section_first_ = static_cast<uint32_t>(interfaces_.size());
  return {};
}

Result<PcapngRecord> PcapngReader::read_interface(Block& block) {
  if (!block.has(8)) return fault("interface description too short");
  PcapngInterfaceRecord out;
  out.index = static_cast<uint32_t>(interfaces_.size());
  out.linktype = block.take<uint16_t>();
  block.take<uint16_t>();
  out.snap_length = block.take<uint32_t>();
  Interface interface;
  interface.snap_length = out.snap_length;
  while (const auto o = block.next_option()) {
    if (o->code == kPcapngOptIfName) {
      out.name.assign(reinterpret_cast<const char*>(o->value.data()), o->value.size());
    } else if (o->code == kPcapngOptIfTsresol && o->value.size() == 1) {
      const unsigned exponent = o->value[0] & 0x7f;
      const bool binary = (o->value[0] & 0x80) != 0;
      if (exponent > (binary ? 63u : 19u)) return fault("if_tsresol is out of range");
      uint64_t units = 1;
      for (unsigned i = 0; i < exponent; ++i) units *= binary ? 2 : 10;
      interface.clock.units_per_second = units;
    } else if (o->code == kPcapngOptIfTsoffset && o->value.size() == 8) {
      interface.clock.offset_seconds = static_cast<int64_t>(block.number<uint64_t>(o->value));
      if (std::abs(interface.clock.offset_seconds / 2) > kMaxSeconds) {
        return fault("if_tsoffset is out of range");
      }
    } else if (auto start = block.custom(*o, "strt", 16)) {
      const int64_t seconds = start->take_signed();
      out.run_start = CalendarTime{seconds, start->take_signed()};
    }
  }
  interfaces_.push_back(interface);
  return out;
}

Result<PcapngRecord> PcapngReader::read_packet(Block& block) {
  if (!block.has(20)) return fault("packet block too short");
  PcapngPacketRecord out;
  out.interface = section_first_ + block.take<uint32_t>();
  if (out.interface < section_first_ || out.interface >= interfaces_.size()) {
    return fault("its interface has no description");
  }
  const Clock& clock = interfaces_[out.interface].clock;
  out.at = calendar(clock, block.take_stamp());
  const uint32_t captured = block.take<uint32_t>();
  out.original_bytes = block.take<uint32_t>();
  if (!block.has(captured)) return fault("its packet is longer than the block");
  out.bytes = block.take_bytes(captured);
  block.skip_padding(captured);
  while (const auto o = block.next_option()) {
    if (o->code == kPcapngOptEpbFlags && o->value.size() == 4) {
      const uint32_t direction = block.number<uint32_t>(o->value) & 3;
      if (direction != 3) out.direction = static_cast<CaptureDirection>(direction);
    } else if (auto time = block.custom(*o, "time", 16)) {
      out.run_at = Time::from_ps(time->take_signed());
      const Time scheduled = Time::from_ps(time->take_signed());
      if (!scheduled.is_never()) out.scheduled = scheduled;
    } else if (auto link = block.custom(*o, "link", 32)) {
      LinkChange change;
      change.at = Time::from_ps(link->take_signed());
      change.node = link->take<uint32_t>();
      const uint32_t what = link->take<uint32_t>();
      const uint64_t bps = link->take<uint64_t>();
      const int64_t latency = link->take_signed();
      if ((what & 1) != 0) change.rate = Rate::bits_per_second(bps);
      if ((what & 2) != 0) change.latency = Duration::ps(latency);
      if ((what & 4) != 0) change.down = (what & 8) != 0;
      if ((what & 16) != 0) change.paused = (what & 32) != 0;
      out.changes.push_back(change);
    } else if (auto loss = block.custom(*o, "loss", 8); loss && !out.changes.empty()) {
      out.changes.back().loss = static_cast<double>(loss->take<uint64_t>()) / kLossUnit;
    }
  }
  return out;
}

Result<PcapngRecord> PcapngReader::read_simple_packet(Block& block) {
  if (!block.has(4)) return fault("packet block too short");
  if (section_first_ >= interfaces_.size()) return fault("its interface has no description");
  PcapngPacketRecord out;
  out.interface = section_first_;
  out.original_bytes = block.take<uint32_t>();
  uint32_t captured = out.original_bytes;
  const uint32_t snap = interfaces_[section_first_].snap_length;
  if (snap != 0) captured = std::min(captured, snap);
  if (!block.has(captured)) return fault("its packet is longer than the block");
  out.bytes = block.take_bytes(captured);
  return out;
}

Result<PcapngRecord> PcapngReader::read_statistics(Block& block) {
  if (!block.has(12)) return fault("interface statistics too short");
  PcapngStatisticsRecord out;
  out.interface = section_first_ + block.take<uint32_t>();
  if (out.interface < section_first_ || out.interface >= interfaces_.size()) {
    return fault("its interface has no description");
  }
  block.take_stamp();
  while (const auto o = block.next_option()) {
    if (o->value.size() != 8) continue;
    const auto v = block.number<uint64_t>(o->value);
    if (o->code == kPcapngOptIsbReceived) out.received = v;
    if (o->code == kPcapngOptIsbIfDrop) out.device_drops = v;
    if (o->code == kPcapngOptIsbOsDrop) out.drops = v;
  }
  return out;
}

CalendarTime PcapngReader::calendar(const Clock& clock, uint64_t stamp) {
  const uint64_t units = clock.units_per_second;
  const auto seconds = static_cast<int64_t>(std::min<uint64_t>(stamp / units, kMaxSeconds));
  const auto ps = static_cast<unsigned __int128>(stamp % units) * kPsPerSecond / units;
  return {seconds + clock.offset_seconds, static_cast<int64_t>(ps)};
}

}  // namespace understudy
