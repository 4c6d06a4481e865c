// What a connection sends, and when again.
#include <algorithm>

#include "ctrl/virtual_host/tcp_connection.h"

namespace understudy {

void TcpConnection::push(Time now) {
  if (state_ == TcpState::kClosed) return;
  while (!held_ && send_next(false)) {
  }
  if (ack_owed_) send_segment(empty_seq(), kTcpAck, {});
  arm(now);
}

/// Where the other side is, as far as is known: past all that has been sent and found room.
uint32_t TcpConnection::empty_seq() const {
  const uint32_t edge = snd_una_ + snd_wnd_;
  return tcp_after(snd_max_, edge) > 0 ? edge : snd_max_;
}

bool TcpConnection::send_next(bool probe) {
  if (state_ == TcpState::kSynSent || state_ == TcpState::kSynReceived) {
    if (snd_nxt_ != iss_) return false;
    send_segment(iss_, state_ == TcpState::kSynSent ? kTcpSyn : kTcpSyn | kTcpAck, {});
    return true;
  }
  if (!has_unsent()) return false;
  const size_t offset = snd_nxt_ - data_seq_;
  const size_t unsent = unacknowledged() - offset;
  int32_t room = tcp_after(snd_una_ + snd_wnd_, snd_nxt_);
  if (probe) room = std::max(room, 1);
  if (room <= 0) return false;
  const size_t bytes = std::min({unsent, static_cast<size_t>(room), size_t{mss_}});
  const bool last = bytes == unsent;
  const bool fin = closing_ && last && bytes < static_cast<size_t>(room);
  if (bytes == 0 && !fin) return false;
  uint8_t flags = kTcpAck;
  if (fin) flags |= kTcpFin;
  if (last && bytes != 0) flags |= kTcpPsh;
  send_segment(snd_nxt_, flags, std::span(out_).subspan(out_from_ + offset, bytes));
  return true;
}

/// Bytes or FIN that have not been sent, or are to be sent again.
bool TcpConnection::has_unsent() const {
  if (!connected_ || state_ == TcpState::kTimeWait || state_ == TcpState::kClosed) return false;
  const size_t offset = snd_nxt_ - data_seq_;
  return offset < unacknowledged() || (closing_ && offset == unacknowledged());
}

void TcpConnection::send_segment(uint32_t seq, uint8_t flags, std::span<const uint8_t> payload) {
  // Room is told of in steps that are worth it (RFC 9293 3.8.6.2.2).
  const uint32_t edge = rcv_nxt_ + kTcpWindow - static_cast<uint32_t>(in_.size());
  if (tcp_after(edge, advertised_) >=
      static_cast<int32_t>(std::min(settings_.mss, kTcpWindow / 2))) {
    advertised_ = edge;
  }
  TcpSegment segment;
  segment.seq = seq;
  segment.flags = flags;
  segment.payload = payload;
  segment.window = static_cast<uint16_t>(kTcpWindow);
  if (segment.has(kTcpAck)) {
    segment.ack = rcv_nxt_;
    segment.window = static_cast<uint16_t>(advertised_ - rcv_nxt_);
    ack_owed_ = false;
  }
  if (segment.has(kTcpSyn)) segment.mss = static_cast<uint16_t>(settings_.mss);
  if (segment.length() != 0) {
    if (tcp_after(snd_max_, seq) > 0) ++retransmissions_;
    snd_nxt_ = seq + segment.length();
    if (tcp_after(snd_nxt_, snd_max_) > 0) snd_max_ = snd_nxt_;
  }
  output_->send(flow_, segment);
}

void TcpConnection::arm(Time now) {
  if (state_ == TcpState::kClosed || (snd_una_ == snd_max_ && !has_unsent())) {
    timer_ = Time::never();
    tries_ = 0;
    return;
  }
  if (!timer_.is_never()) return;
  Duration wait = settings_.timeout;
  for (unsigned i = 0; i < tries_ && wait < settings_.most_timeout; ++i) wait = wait * 2;
  timer_ = now + std::min(wait, settings_.most_timeout);
}

void TcpConnection::on_time(Time now) {
  if (now < timer_) return;
  if (silent_ >= settings_.most_retransmissions) return finish(TcpEnd::kTimedOut);
  ++silent_;
  ++tries_;
  timer_ = Time::never();
  snd_nxt_ = snd_una_;
  send_next(true);
  held_ = true;
  arm(now);
}

}  // namespace understudy
