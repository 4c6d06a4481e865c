// The file behind a capture: encodes blocks into a buffer and writes whole blocks, so that the file
// can be read at any moment. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dataplane/base/result.h"
#include "dataplane/base/unique_fd.h"
#include "dataplane/port/capture.h"

namespace understudy {

class CaptureFile {
 public:
  /// Creates or overwrites the file and writes its header and interface blocks.
  static Result<std::unique_ptr<CaptureFile>> create(const CaptureOptions& options);
  ~CaptureFile();
  CaptureFile(const CaptureFile&) = delete;
  CaptureFile& operator=(const CaptureFile&) = delete;

  size_t interfaces() const { return counts_.size(); }
  uint32_t snap_length() const { return options_.snap_length; }
  CaptureCounts& counts(size_t interface) { return counts_[interface]; }
  const CaptureCounts& counts(size_t interface) const { return counts_[interface]; }

  void packet(size_t interface, const CapturedFrame& frame);
  /// Stands in the next packet.
  void link_change(const LinkChange& change) { changes_.push_back(change); }
  /// Writes the buffered blocks. After a write error packets are only counted as drops.
  void flush();
  /// Writes the statistics blocks and closes the file. Once only.
  Result<void> close();

 private:
  CaptureFile(CaptureOptions options, UniqueFd fd);

  CaptureOptions options_;
  UniqueFd fd_;
  std::vector<uint8_t> buffer_;
  std::vector<CaptureCounts> counts_;
  std::vector<uint64_t> buffered_;   ///< packets of each interface that are not in the file yet
  std::vector<LinkChange> changes_;  ///< since the last packet
  Time last_;                        ///< newest time stamp
  std::string error_;
};

}  // namespace understudy
