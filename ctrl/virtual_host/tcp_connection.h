// One end of a TCP connection (RFC 9293): segments and a time come in, segments go out. No clock,
// no socket. Every segment with data is acknowledged at once; data that come early are kept.
// There is no congestion control, for the modelled path is the fabric, and no measured round trip:
// times of retransmission are fixed, so that equal runs are equal. No option but the MSS, so
// windows are 64 KiB at most.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "ctrl/virtual_host/tcp_segment.h"
#include "dataplane/base/units.h"

namespace understudy {

struct TcpSettings {
  uint32_t mss = 1460;                   ///< largest payload that we send or want, in bytes
  Duration timeout = Duration::ms(200);  ///< of the first retransmission; each next waits twice
  Duration most_timeout = Duration::s(10);
  /// So many in a row that nothing came back for end a connection.
  unsigned most_retransmissions = 10;
};

/// Where a connection's segments go. Must not come back to the connection from within.
class TcpOutput {
 public:
  virtual void send(const TcpFlow& flow, const TcpSegment& segment) = 0;

 protected:
  ~TcpOutput() = default;
};

/// LISTEN is the owner's: a connection begins with its SYN.
enum class TcpState : uint8_t {
  kSynSent,
  kSynReceived,
  kEstablished,
  kFinWait1,
  kFinWait2,
  kCloseWait,
  kClosing,
  kLastAck,
  kTimeWait,
  kClosed,
};

/// Why a connection is in kClosed.
enum class TcpEnd : uint8_t {
  kNone,      ///< it is not, or both sides have closed it
  kReset,     ///< by the other side
  kTimedOut,  ///< nothing came back
  kAborted,   ///< by us
};

class TcpConnection {
 public:
  /// Calls: its SYN goes out at the first push(). `output` outlives it.
  TcpConnection(const TcpFlow& flow, const TcpSettings& settings, uint32_t initial_seq,
                TcpOutput& output);
  /// Answers `syn`, a segment for a listener (see is_call()).
  TcpConnection(const TcpFlow& flow, const TcpSettings& settings, uint32_t initial_seq,
                TcpOutput& output, const TcpSegment& syn);

  /// A segment that a listener takes; all others it answers as reset_for() says.
  static bool is_call(const TcpSegment& segment) {
    return segment.has(kTcpSyn) && !segment.has(kTcpAck) && !segment.has(kTcpRst);
  }
  /// What a segment is answered with that no connection has (3.10.7.1); nothing for an RST.
  static std::optional<TcpSegment> reset_for(const TcpSegment& segment);

  void on_segment(Time now, const TcpSegment& segment);
  /// Retransmits what is due.
  void on_time(Time now);
  /// When on_time() has something to do.
  Time deadline() const { return timer_; }

  /// Queues bytes; nothing after close().
  void write(std::span<const uint8_t> bytes);
  /// No more bytes will be written or read. What is queued is delivered, then FIN. Where more data
  /// come from the other side it is told by RST that nobody reads them (RFC 1122 4.2.2.13).
  void close();
  /// RST, at once.
  void abort();
  /// Sends what there is to send and may be sent: to be called after all other calls, once for
  /// several.
  void push(Time now);

  /// Bytes in their order, taken once. Those that are not taken close the window.
  std::vector<uint8_t> read();

  TcpState state() const { return state_; }
  TcpEnd end() const { return end_; }
  /// The handshake is done; stays so.
  bool connected() const { return connected_; }
  /// The other side has closed its direction, or the connection has ended: after what read() gives
  /// there is no more.
  bool end_of_input() const;
  const TcpFlow& flow() const { return flow_; }
  size_t unacknowledged() const { return out_.size() - out_from_; }  ///< bytes written, in all
  uint64_t retransmissions() const { return retransmissions_; }
  /// Sequence number that comes next; of a call that reuses the ports (3.6.1).
  uint32_t next_expected() const { return rcv_nxt_; }

 private:
  struct SeqLess {  ///< of numbers less than 2^31 apart
    bool operator()(uint32_t a, uint32_t b) const { return static_cast<int32_t>(a - b) < 0; }
  };

  void take_syn(const TcpSegment& syn);
  void on_segment_in_syn_sent(const TcpSegment& segment);
  bool acceptable(const TcpSegment& segment) const;
  bool on_ack(Time now, const TcpSegment& segment);
  void take_data(const TcpSegment& segment);
  void keep_early(uint32_t seq, std::span<const uint8_t> bytes);
  void append(uint32_t seq, std::span<const uint8_t> bytes);
  void on_fin(Time now);
  void finish(TcpEnd end);
  void arm(Time now);
  bool send_one(Time now);
  void send_ack();
  uint16_t window() const;
  uint32_t fin_seq() const;

  TcpFlow flow_;
  TcpSettings settings_;
  TcpOutput& output_;
  TcpState state_;
  TcpEnd end_ = TcpEnd::kNone;
  bool connected_ = false;
  bool closing_ = false;  ///< close() was called
  bool ack_owed_ = false;

  // The names of RFC 9293 3.3.1.
  uint32_t iss_, snd_una_, snd_nxt_, snd_max_;  ///< snd_max_: snd_nxt_ before a retransmission
  uint32_t snd_wnd_ = 0, snd_wl1_ = 0, snd_wl2_ = 0;
  uint32_t rcv_nxt_ = 0;
  uint32_t advertised_ = 0;  ///< right edge of the window that the other side knows
  uint32_t mss_;             ///< of what we send

  std::vector<uint8_t> out_;  ///< from out_from_ on: written and not acknowledged
  size_t out_from_ = 0;
  std::vector<uint8_t> in_;  ///< in order, not read
  std::map<uint32_t, std::vector<uint8_t>, SeqLess> early_;
  size_t early_bytes_ = 0;
  std::optional<uint32_t> fin_at_;  ///< sequence number of the other side's FIN

  Time timer_ = Time::never();
  unsigned tries_ = 0;  ///< retransmissions since something came
  uint64_t retransmissions_ = 0;
};

}  // namespace understudy
