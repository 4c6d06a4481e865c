#include "dataplane/wire/pcapng.h"

#include <concepts>

namespace understudy {
namespace {

/// Writes one block: everything between its first and its repeated length, options last.
class BlockWriter {
 public:
  BlockWriter(std::vector<uint8_t>& out, uint32_t type) : out_(out), start_(out.size()) {
    put(type);
    put(uint32_t{0});  // the length, known at the end
  }

  template <std::unsigned_integral T>
  void put(T v) {
    uint8_t little[sizeof v];
    for (size_t i = 0; i < sizeof v; ++i) little[i] = static_cast<uint8_t>(v >> (8 * i));
    out_.insert(out_.end(), little, little + sizeof v);
  }
  void put_signed(int64_t v) { put(static_cast<uint64_t>(v)); }
  void bytes(std::span<const uint8_t> data) {
    out_.insert(out_.end(), data.begin(), data.end());
    while ((out_.size() - start_) % 4 != 0) out_.push_back(0);
  }
  void text(std::string_view s) { bytes({reinterpret_cast<const uint8_t*>(s.data()), s.size()}); }

  void option(uint16_t code, size_t length) {
    put(code);
    put(static_cast<uint16_t>(length));
    has_options_ = true;
  }
  void option_u64(uint16_t code, uint64_t v) {
    option(code, sizeof v);
    put(v);
  }
  void option_text(uint16_t code, std::string_view s) {
    option(code, s.size());
    text(s);
  }
  void option_custom(std::string_view tag, size_t length) {
    option(kPcapngOptCustom, sizeof kPcapngEnterprise + tag.size() + length);
    put(kPcapngEnterprise);
    text(tag);
  }

  void finish() {
    if (has_options_) {
      put(kPcapngOptEnd);
      put(uint16_t{0});
    }
    const uint32_t length = static_cast<uint32_t>(out_.size() - start_ + sizeof(uint32_t));
    put(length);
    for (size_t i = 0; i < sizeof length; ++i) {
      out_[start_ + 4 + i] = static_cast<uint8_t>(length >> (8 * i));
    }
  }

 private:
  std::vector<uint8_t>& out_;
  size_t start_;
  bool has_options_ = false;
};

/// Nanoseconds since 1970, rounded down.
int64_t stamp(CaptureEpoch epoch, Time at) {
  const int64_t ps = epoch.ps + at.ps();
  return epoch.seconds * 1'000'000'000 + (ps - (ps < 0 ? 999 : 0)) / 1000;
}

/// pcapng splits a time stamp into its high and its low half, in this order.
void put_stamp(BlockWriter& block, int64_t v) {
  block.put(static_cast<uint32_t>(static_cast<uint64_t>(v) >> 32));
  block.put(static_cast<uint32_t>(static_cast<uint64_t>(v)));
}

}  // namespace

void append_pcapng_section(std::vector<uint8_t>& out, std::string_view application) {
  BlockWriter block(out, kPcapngSection);
  block.put(kPcapngByteOrder);
  block.put(uint16_t{1});  // version 1.0
  block.put(uint16_t{0});
  block.put_signed(-1);  // the section's length is not known beforehand
  block.option_text(kPcapngOptUserAppl, application);
  block.finish();
}

void append_pcapng_interface(std::vector<uint8_t>& out, std::string_view name, uint32_t snap_length,
                             CaptureEpoch epoch) {
  constexpr uint8_t kNanoseconds[] = {9};
  BlockWriter block(out, kPcapngInterface);
  block.put(kLinktypeEthernet);
  block.put(uint16_t{0});
  block.put(snap_length);
  block.option_text(kPcapngOptIfName, name);
  block.option(kPcapngOptIfTsresol, sizeof kNanoseconds);
  block.bytes(kNanoseconds);
  block.option_custom("strt", 16);
  block.put_signed(epoch.seconds);
  block.put_signed(epoch.ps);
  block.finish();
}

/// Whether it is given, and if so what it is.
constexpr uint32_t bits_of(std::optional<bool> value) { return value ? (*value ? 3u : 1u) : 0u; }

void append_pcapng_packet(std::vector<uint8_t>& out, uint32_t interface, CaptureEpoch epoch,
                          const CapturedFrame& frame, std::span<const LinkChange> changes) {
  BlockWriter block(out, kPcapngPacket);
  block.put(interface);
  put_stamp(block, stamp(epoch, frame.at));
  block.put(static_cast<uint32_t>(frame.bytes.size()));
  block.put(frame.original_bytes);
  block.bytes(frame.bytes);
  if (frame.direction != CaptureDirection::kUnknown) {
    block.option(kPcapngOptEpbFlags, sizeof(uint32_t));
    block.put(static_cast<uint32_t>(frame.direction));
  }
  block.option_custom("time", 16);
  block.put_signed(frame.at.ps());
  block.put_signed(frame.scheduled.ps());
  for (const LinkChange& change : changes) {
    block.option_custom("link", 32);
    block.put_signed(change.at.ps());
    block.put(change.node);
    block.put((change.rate ? 1u : 0u) | (change.latency ? 2u : 0u) | bits_of(change.down) << 2 |
              bits_of(change.paused) << 4);
    block.put(change.rate.value_or(Rate()).bps());
    block.put_signed(change.latency.value_or(Duration()).ps());
    if (!change.loss) continue;
    block.option_custom("loss", 8);
    block.put(static_cast<uint64_t>(*change.loss * kLossUnit));
  }
  block.finish();
}

void append_pcapng_statistics(std::vector<uint8_t>& out, uint32_t interface, CaptureEpoch epoch,
                              Time at, const CaptureCounts& counts) {
  BlockWriter block(out, kPcapngStatistics);
  block.put(interface);
  put_stamp(block, stamp(epoch, at));
  block.option_u64(kPcapngOptIsbReceived, counts.received);
  block.option_u64(kPcapngOptIsbIfDrop, counts.device_drops);
  block.option_u64(kPcapngOptIsbOsDrop, counts.drops);
  block.option_u64(kPcapngOptIsbDelivered, counts.received - counts.drops);
  block.finish();
}

}  // namespace understudy
