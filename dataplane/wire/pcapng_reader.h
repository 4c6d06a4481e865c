// Reads the blocks of a pcapng file of any maker: either byte order, several sections and
// interfaces, any time resolution. Blocks and options it does not know are skipped. What understudy
// adds to its own captures (wire/pcapng.h) is read too.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/wire/pcapng.h"

namespace understudy {

/// A point on the calendar: seconds since 1970 and 0 <= ps < 1e12. (64 bits of picoseconds would
/// end after 106 days.)
struct CalendarTime {
  int64_t seconds = 0;
  int64_t ps = 0;
  auto operator<=>(const CalendarTime&) const = default;
};

struct PcapngInterfaceRecord {
  uint32_t index = 0;  ///< over all sections of the file
  std::string name;
  uint16_t linktype = 0;
  uint32_t snap_length = 0;
  std::optional<CalendarTime> run_start;  ///< Time::zero() of an understudy run
};

struct PcapngPacketRecord {
  uint32_t interface = 0;
  std::optional<CalendarTime> at;  ///< nothing for simple packet blocks
  std::optional<Time> run_at;      ///< the same as the run's time, and
  std::optional<Time> scheduled;   ///< the modelled one, both of an understudy run
  CaptureDirection direction = CaptureDirection::kUnknown;
  std::span<const uint8_t> bytes;
  uint32_t original_bytes = 0;
  std::vector<LinkChange> changes;  ///< of links since the packet before
};

struct PcapngStatisticsRecord {
  uint32_t interface = 0;
  std::optional<uint64_t> received, device_drops, drops;
};

/// std::monostate: the end of the file.
using PcapngRecord =
    std::variant<std::monostate, PcapngInterfaceRecord, PcapngPacketRecord, PcapngStatisticsRecord>;

/// True if a file that starts with these bytes claims to be pcapng.
bool looks_like_pcapng(std::span<const uint8_t> file);

class PcapngReader {
 public:
  /// `file` must outlive the reader and the packets it returns.
  explicit PcapngReader(std::span<const uint8_t> file) : file_(file) {}

  /// The next record. Errors name the byte offset of the block at fault;
  /// nothing can be read after one.
  Result<PcapngRecord> next();
  /// True when the file ended inside a block: what came before it has been returned.
  bool truncated() const { return truncated_; }
  /// Where the next block begins.
  size_t offset() const { return at_; }

 private:
  struct Clock {
    uint64_t units_per_second = 1'000'000;
    int64_t offset_seconds = 0;
  };
  struct Interface {
    Clock clock;
    uint32_t snap_length = 0;
  };
  class Block;

  Result<Block> next_block();
  Result<void> read_section(Block& block);
  Result<PcapngRecord> read_interface(Block& block);
  Result<PcapngRecord> read_packet(Block& block);
  Result<PcapngRecord> read_simple_packet(Block& block);
  Result<PcapngRecord> read_statistics(Block& block);
  tl::unexpected<Error> fault(const std::string& what) const;
  static CalendarTime calendar(const Clock& clock, uint64_t stamp);

  std::span<const uint8_t> file_;
  size_t at_ = 0;           ///< start of the next block
  size_t block_start_ = 0;  ///< of the block being read
  bool swapped_ = false;    ///< the section is big-endian
  bool truncated_ = false;
  uint32_t section_first_ = 0;  ///< index of the section's first interface
  std::vector<Interface> interfaces_;
};

}  // namespace understudy
