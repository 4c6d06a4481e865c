// Reads frames from a capture file. Classic pcap, of microseconds or nanoseconds, goes through
// libpcap; pcapng through our own reader, because libpcap shows neither directions, drop counts and
// scheduled times nor interfaces that differ; ERF too, as libpcap reads none from files.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/wire/pcapng.h"

namespace understudy {

struct SourceFrame {
  uint64_t number = 0;  ///< from 1 on, as tshark counts; over all files of one capture
  /// Time of the run; for captures of others: since the second in which the capture begins.
  Time at;
  Time scheduled = Time::never();
  CaptureDirection direction = CaptureDirection::kUnknown;
  std::span<const uint8_t> bytes;  ///< valid until the next call
  uint32_t original_bytes = 0;
  std::vector<LinkChange> changes;
  /// Of an understudy run, where a packet between two real nodes passes two; else 0.
  uint32_t interface = 0;
};

/// One of the files that a capture consists of.
struct CapturedFile {
  std::string path;
  uint64_t before = 0;  ///< frames in the files before it
  uint64_t frames = 0;
};

/// What a capture says about itself; final when all frames have been read.
struct SourceSummary {
  std::string format;                   ///< "pcap", "pcapng", "erf" or "live"
  std::vector<std::string> interfaces;  ///< names, where the file knows them
  uint64_t frames = 0;
  uint64_t cut_frames = 0;  ///< shorter in the file than on the wire
  uint64_t drops = 0;       ///< counted by the capture itself, all interfaces
  bool has_drop_counts = false;
  /// The same of the last blocks of a file that has not been read to its end, where it has them.
  std::optional<uint64_t> foretold_drops;
  std::vector<CapturedFile> files;  ///< that have been read, of a capture in consecutive ones
  bool truncated = false;           ///< the file ends inside a packet
  bool has_run_times = false;       ///< written by understudy
  /// Of a capture that began while its connections were at work: before this time it may lack what
  /// was on its way when it began.
  std::optional<Time> whole_from;
  int64_t first_second = 0;  ///< calendar time that SourceFrame::at counts from; 0: the run's
};

class CaptureSource {
 public:
  virtual ~CaptureSource() = default;
  /// The next frame, nothing at the end; an error when the file makes no sense.
  virtual Result<std::optional<SourceFrame>> next() = 0;
  const SourceSummary& summary() const { return summary_; }

 protected:
  SourceSummary summary_;
};

/// A pipe, or "-" for standard input, is read as it comes, in pcap's format only. Errors name the
/// file: not readable, of an unknown format, not Ethernet.
Result<std::unique_ptr<CaptureSource>> open_capture_source(const std::string& path);

}  // namespace understudy
