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

/// Largest that has room in a header.
inline constexpr uint32_t kTcpWindow = 65535;

struct TcpSettings {
  uint32_t mss = 1460;                   ///< largest payload that we send or want, in bytes
  Duration timeout = Duration::ms(200);  ///< of the first retransmission; each next waits twice
  Duration most_timeout = Duration::s(10);
  /// After so many in a row without anything from the other side a connection has ended.
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
  /// Answers `syn`, a segment for a listener (is_call()), at the first push().
  TcpConnection(const TcpFlow& flow, const TcpSettings& settings, uint32_t initial_seq,
                TcpOutput& output, const TcpSegment& syn);

  /// A segment that a listener takes; all others it answers as reset_for() says.
  static bool is_call(const TcpSegment& segment) {
    return segment.has(kTcpSyn) && !segment.has(kTcpAck) && !segment.has(kTcpRst);
  }
  /// What a segment is answered with that no connection has (3.10.7.1); nothing for an RST.
  static std::optional<TcpSegment> reset_for(const TcpSegment& segment);

  /// push() is to be called after each of these, once for several.
  void on_segment(const TcpSegment& segment);
  /// Queues bytes; nothing after close().
  void write(std::span<const uint8_t> bytes);
  /// No more bytes will be written or read. What is queued is delivered, then FIN. Where more data
  /// come from the other side it is told by RST that nobody reads them (RFC 1122 4.2.2.13).
  void close();
  /// Bytes in their order, taken once. Those that are not taken close the window.
  std::vector<uint8_t> read();

  /// Sends what there is to send and may be sent.
  void push(Time now);
  /// Retransmits what is due.
  void on_time(Time now);
  /// When on_time() has something to do.
  Time deadline() const { return timer_; }
  /// RST, at once.
  void abort();

  TcpState state() const { return state_; }
  TcpEnd end() const { return end_; }
  /// The handshake is done; stays so.
  bool connected() const { return connected_; }
  /// The other side has closed its direction, or the connection has ended: after what read() gives
  /// there is no more.
  bool end_of_input() const;
  const TcpFlow& flow() const { return flow_; }
  size_t unread() const { return in_.size(); }
  size_t unacknowledged() const { return out_.size() - out_from_; }  ///< bytes written, in all
  uint64_t retransmissions() const { return retransmissions_; }
  /// The sequence number that is due: later ones are of a call that reuses the ports (3.6.1).
  uint32_t next_expected() const { return rcv_nxt_; }

 private:
  struct SeqLess {  ///< of numbers less than 2^31 apart
    bool operator()(uint32_t a, uint32_t b) const { return tcp_after(a, b) < 0; }
  };

  void take_syn(const TcpSegment& syn);
  void answer_in_syn_sent(const TcpSegment& segment);
  bool acceptable(const TcpSegment& segment) const;
  /// False: there is no more to do with the segment.
  bool take_ack(const TcpSegment& segment);
  void take_window(const TcpSegment& segment);
  void advance(uint32_t ack);
  void establish();
  void take_data(const TcpSegment& segment);
  void append(uint32_t seq, std::span<const uint8_t> bytes);
  void take_fin();
  void finish(TcpEnd end);

  /// Sends the next segment; false: there is none, or it may not go. `probe`: one byte may go
  /// whatever the window.
  bool send_next(bool probe);
  void send_segment(uint32_t seq, uint8_t flags, std::span<const uint8_t> payload);
  bool has_unsent() const;
  uint32_t empty_seq() const;
  void arm(Time now);
  uint32_t fin_seq() const { return data_seq_ + static_cast<uint32_t>(unacknowledged()); }

  TcpFlow flow_;
  TcpSettings settings_;
  TcpOutput* output_;
  TcpState state_ = TcpState::kSynSent;
  TcpEnd end_ = TcpEnd::kNone;
  bool connected_ = false;
  bool closing_ = false;   ///< close() was called
  bool ack_owed_ = false;  ///< by the next push()

  // The names of RFC 9293 3.3.1.
  uint32_t iss_, snd_una_, snd_nxt_;
  uint32_t snd_max_;   ///< past all that has been sent; snd_nxt_ goes back for retransmissions
  uint32_t data_seq_;  ///< of the first byte that is not acknowledged
  uint32_t snd_wnd_ = 0, snd_wl1_ = 0, snd_wl2_ = 0;
  uint32_t mss_;  ///< of what we send
  uint32_t rcv_nxt_ = 0;
  uint32_t advertised_ = 0;  ///< right edge of the window that the other side knows

  std::vector<uint8_t> out_;  ///< from out_from_ on: written and not acknowledged
  size_t out_from_ = 0;
  std::vector<uint8_t> in_;  ///< in order, not read
  std::map<uint32_t, std::vector<uint8_t>, SeqLess> early_;
  size_t early_bytes_ = 0;
  std::optional<uint32_t> fin_at_;  ///< sequence number of the other side's FIN

  Time timer_ = Time::never();
  unsigned tries_ = 0;   ///< retransmissions of what is due to be acknowledged
  unsigned silent_ = 0;  ///< retransmissions since something came
  bool held_ = false;    ///< a retransmission is under way: no more until it is answered
  uint64_t retransmissions_ = 0;
};

}  // namespace understudy
