// Frames of a network interface while they pass, in memory that does not grow: who does not take
// them in time loses some, and they are counted.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "tools/roce_check/packets/capture_source.h"

namespace understudy {

class LiveCapture {
 public:
  /// Its bytes are valid during the call.
  using Taker = std::function<void(const SourceFrame&)>;

  virtual ~LiveCapture() = default;
  /// On the clock of SourceFrame::at; it never steps.
  virtual Time now() const = 0;
  /// Hands over frames that have passed, waiting up to `patience` for the first one; a signal ends
  /// the waiting. Error: no frame will come any more, and why.
  virtual Result<void> take(Duration patience, const Taker& taker) = 0;
  /// Hands over what has passed up to now, at the end of a capture. After an error: what is left.
  virtual void take_rest(const Taker& taker) = 0;
  /// Its drops are those up to the last take.
  const SourceSummary& summary() const { return summary_; }

 protected:
  SourceSummary summary_;
};

/// How long after its beginning a capture may lack what was on its way before: longer than an ACK
/// timeout of code 18, which is 1.07 s.
constexpr Duration kSettlingIn = Duration::s(2);

/// Bytes of the kernel's buffer: what comes while the last packets are judged.
constexpr uint64_t kLiveBuffer = uint64_t{64} << 20;
constexpr uint64_t kLeastLiveBuffer = uint64_t{1} << 20, kMostLiveBuffer = uint64_t{1} << 30;

/// RoCEv2 packets of an Ethernet interface, in VLANs, too; those for other hosts as well. Needs the
/// capability CAP_NET_RAW until it returns. Where memory is short the buffer is smaller. Error: one
/// sentence that names the interface.
Result<std::unique_ptr<LiveCapture>> open_live_capture(const std::string& interface,
                                                       uint64_t buffer = kLiveBuffer);

/// What the kernel is asked for, in the language of pcap-filter(7).
const char* live_filter();

}  // namespace understudy
