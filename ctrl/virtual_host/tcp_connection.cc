#include "ctrl/virtual_host/tcp_connection.h"

#include <algorithm>
#include <utility>

namespace understudy {
namespace {

/// Of data that came early, which may overlap: more than this is not kept.
constexpr size_t kMostEarlyBytes = 2 * kTcpWindow;
constexpr uint32_t kLeastMss = 64;
constexpr uint16_t kDefaultMss4 = 536, kDefaultMss6 = 1220;  // RFC 9293 3.7.1

}  // namespace

TcpConnection::TcpConnection(const TcpFlow& flow, const TcpSettings& settings, uint32_t initial_seq,
                             TcpOutput& output)
    : flow_(flow),
      settings_(settings),
      output_(&output),
      iss_(initial_seq),
      snd_una_(initial_seq),
      snd_nxt_(initial_seq),
      snd_max_(initial_seq),
      data_seq_(initial_seq + 1),
      mss_(settings.mss) {}

TcpConnection::TcpConnection(const TcpFlow& flow, const TcpSettings& settings, uint32_t initial_seq,
                             TcpOutput& output, const TcpSegment& syn)
    : TcpConnection(flow, settings, initial_seq, output) {
  take_syn(syn);
  state_ = TcpState::kSynReceived;
}

std::optional<TcpSegment> TcpConnection::reset_for(const TcpSegment& segment) {
  if (segment.has(kTcpRst)) return std::nullopt;
  TcpSegment reset;
  reset.flags = kTcpRst;
  if (segment.has(kTcpAck)) {
    reset.seq = segment.ack;
  } else {
    reset.flags |= kTcpAck;
    reset.ack = segment.seq + segment.length();
  }
  return reset;
}

void TcpConnection::take_syn(const TcpSegment& syn) {
  rcv_nxt_ = syn.seq + 1;
  advertised_ = rcv_nxt_ + kTcpWindow;
  snd_wnd_ = syn.window;
  snd_wl1_ = syn.seq;
  const bool v4 = flow_.local.address.is_v4();
  const uint32_t theirs = syn.mss.value_or(v4 ? kDefaultMss4 : kDefaultMss6);
  mss_ = std::min(settings_.mss, std::max(theirs, kLeastMss));
}

/// RFC 9293 3.10.7.3. Data beside a SYN are not taken: they come again.
void TcpConnection::answer_in_syn_sent(const TcpSegment& segment) {
  const bool acknowledges = segment.has(kTcpAck);
  if (acknowledges && segment.ack != snd_max_) {
    if (const auto reset = reset_for(segment)) output_->send(flow_, *reset);
    return;
  }
  if (segment.has(kTcpRst)) {
    if (acknowledges) finish(TcpEnd::kReset);
    return;
  }
  if (!segment.has(kTcpSyn)) return;
  take_syn(segment);
  if (acknowledges) {
    snd_wl2_ = segment.ack;
    advance(segment.ack);
    establish();
    ack_owed_ = true;
  } else {
    state_ = TcpState::kSynReceived;  // both have called: our SYN goes again, with an ACK
    snd_nxt_ = iss_;
    held_ = false;
  }
}

void TcpConnection::establish() {
  connected_ = true;
  state_ = closing_ ? TcpState::kFinWait1 : TcpState::kEstablished;
}

/// RFC 9293 3.10.7.4, first step; an empty segment may also stand at the window's end, where the
/// other side is when it has filled it.
bool TcpConnection::acceptable(const TcpSegment& segment) const {
  const int32_t window = tcp_after(advertised_, rcv_nxt_);
  const int32_t first = tcp_after(segment.seq, rcv_nxt_);
  const int32_t end = tcp_after(segment.seq + segment.length(), rcv_nxt_);
  if (segment.length() == 0) return first >= 0 && first <= window;
  if (window == 0) return first == 0;  // for what it acknowledges; its data find no room
  return first < window && end > 0;
}

void TcpConnection::on_segment(const TcpSegment& segment) {
  if (state_ == TcpState::kClosed) return;
  if (state_ == TcpState::kSynSent) return answer_in_syn_sent(segment);
  if (!acceptable(segment)) {
    if (segment.has(kTcpRst)) return;
    if (state_ == TcpState::kSynReceived && is_call(segment) && segment.seq + 1 == rcv_nxt_) {
      snd_nxt_ = iss_;  // the same call again: our answer was lost
      held_ = false;
      return;
    }
    // What an old segment acknowledges counts: else two sides that both repeat what the other one
    // has would only tell each other so, for ever.
    const bool old = tcp_after(segment.seq, rcv_nxt_) < 0;
    if (connected_ && old && segment.has(kTcpAck) && !segment.has(kTcpSyn)) take_ack(segment);
    ack_owed_ = state_ != TcpState::kClosed;
    return;
  }
  if (connected_) silent_ = 0;
  if (segment.has(kTcpRst)) {
    // One that is not exactly due may be a forgery: the real other side answers the ACK.
    if (segment.seq != rcv_nxt_) {
      ack_owed_ = true;
    } else if (state_ != TcpState::kTimeWait) {  // RFC 1337
      finish(TcpEnd::kReset);
    }
    return;
  }
  if (segment.has(kTcpSyn)) {
    ack_owed_ = true;
    return;
  }
  if (!segment.has(kTcpAck) || !take_ack(segment)) return;
  take_data(segment);
}

bool TcpConnection::take_ack(const TcpSegment& segment) {
  const bool good = tcp_after(segment.ack, snd_una_) > 0 && tcp_after(segment.ack, snd_max_) <= 0;
  if (state_ == TcpState::kSynReceived) {
    if (!good) {
      if (const auto reset = reset_for(segment)) output_->send(flow_, *reset);
      return false;
    }
    establish();
  }
  if (tcp_after(segment.ack, snd_max_) > 0) {
    ack_owed_ = true;
    return false;
  }
  if (tcp_after(segment.ack, snd_una_) >= 0) take_window(segment);
  if (!good) return true;
  const bool all = closing_ && segment.ack == fin_seq() + 1;  // the FIN, too
  advance(segment.ack);
  if (!all) return true;
  if (state_ == TcpState::kFinWait1) state_ = TcpState::kFinWait2;
  if (state_ == TcpState::kClosing) state_ = TcpState::kTimeWait;
  if (state_ == TcpState::kLastAck) finish(TcpEnd::kNone);
  return state_ != TcpState::kClosed;
}

void TcpConnection::take_window(const TcpSegment& segment) {
  const int32_t newer = tcp_after(segment.seq, snd_wl1_);
  if (newer < 0 || (newer == 0 && tcp_after(segment.ack, snd_wl2_) < 0)) return;
  if (segment.window != snd_wnd_) held_ = false;
  if (snd_wnd_ == 0 && segment.window != 0) {
    tries_ = 0;
    timer_ = Time::never();  // it was the probe's
    snd_nxt_ = snd_una_;     // and that found no room
  }
  snd_wnd_ = segment.window;
  snd_wl1_ = segment.seq;
  snd_wl2_ = segment.ack;
}

void TcpConnection::advance(uint32_t ack) {
  if (const int32_t bytes = tcp_after(ack, data_seq_); bytes > 0) {
    const size_t taken = std::min(static_cast<size_t>(bytes), unacknowledged());
    out_from_ += taken;
    data_seq_ += static_cast<uint32_t>(taken);
    if (out_from_ * 2 >= out_.size()) {  // so that each byte is moved once on average
      out_.erase(out_.begin(), out_.begin() + static_cast<ptrdiff_t>(out_from_));
      out_from_ = 0;
    }
  }
  snd_una_ = ack;
  if (tcp_after(snd_nxt_, snd_una_) < 0) snd_nxt_ = snd_una_;
  tries_ = silent_ = 0;
  held_ = false;
  timer_ = Time::never();
}

void TcpConnection::take_data(const TcpSegment& segment) {
  const uint32_t end = segment.seq + static_cast<uint32_t>(segment.payload.size());
  if (end_of_input()) return;
  if (segment.length() != 0) ack_owed_ = true;
  if (!segment.payload.empty()) {
    if (closing_ && tcp_after(end, rcv_nxt_) > 0) return abort();
    append(segment.seq, segment.payload);
  }
  if (segment.has(kTcpFin) && !fin_at_ && tcp_after(end, advertised_) < 0) fin_at_ = end;
  while (!early_.empty() && tcp_after(early_.begin()->first, rcv_nxt_) <= 0) {
    const auto next = early_.extract(early_.begin());
    early_bytes_ -= next.mapped().size();
    append(next.key(), next.mapped());
  }
  if (fin_at_ == rcv_nxt_) take_fin();
}

/// Of the bytes from `seq` on, those that are due; or keeps them for later.
void TcpConnection::append(uint32_t seq, std::span<const uint8_t> bytes) {
  const uint32_t border = fin_at_.value_or(advertised_);
  const int32_t room = tcp_after(border, seq);
  if (room <= 0) return;
  bytes = bytes.first(std::min(bytes.size(), static_cast<size_t>(room)));
  const int32_t known = tcp_after(rcv_nxt_, seq);
  if (known < 0) {
    auto& kept = early_[seq];
    if (kept.size() >= bytes.size() || early_bytes_ + bytes.size() > kMostEarlyBytes) {
      if (kept.empty()) early_.erase(seq);
      return;
    }
    early_bytes_ += bytes.size() - kept.size();
    kept.assign(bytes.begin(), bytes.end());
    return;
  }
  if (static_cast<size_t>(known) >= bytes.size()) return;
  bytes = bytes.subspan(static_cast<size_t>(known));
  in_.insert(in_.end(), bytes.begin(), bytes.end());
  rcv_nxt_ += static_cast<uint32_t>(bytes.size());
}

void TcpConnection::take_fin() {
  ++rcv_nxt_;
  ack_owed_ = true;
  early_.clear();
  early_bytes_ = 0;
  if (state_ == TcpState::kEstablished) state_ = TcpState::kCloseWait;
  if (state_ == TcpState::kFinWait1) state_ = TcpState::kClosing;
  if (state_ == TcpState::kFinWait2) state_ = TcpState::kTimeWait;
}

bool TcpConnection::end_of_input() const {
  switch (state_) {
    case TcpState::kCloseWait:
    case TcpState::kClosing:
    case TcpState::kLastAck:
    case TcpState::kTimeWait:
    case TcpState::kClosed:
      return true;
    default:
      return false;
  }
}

std::vector<uint8_t> TcpConnection::read() {
  // The other side may wait for room.
  if (!in_.empty() && tcp_after(advertised_, rcv_nxt_) < static_cast<int32_t>(kTcpWindow / 2)) {
    ack_owed_ = true;
  }
  return std::exchange(in_, {});
}

void TcpConnection::write(std::span<const uint8_t> bytes) {
  if (closing_ || state_ == TcpState::kClosed) return;
  out_.insert(out_.end(), bytes.begin(), bytes.end());
}

void TcpConnection::close() {
  if (closing_ || state_ == TcpState::kClosed) return;
  closing_ = true;
  in_.clear();
  if (state_ == TcpState::kSynSent) finish(TcpEnd::kAborted);
  if (state_ == TcpState::kEstablished) state_ = TcpState::kFinWait1;
  if (state_ == TcpState::kCloseWait) state_ = TcpState::kLastAck;
}

void TcpConnection::abort() {
  if (state_ == TcpState::kClosed || state_ == TcpState::kTimeWait) return;
  if (state_ != TcpState::kSynSent) send_segment(empty_seq(), kTcpRst | kTcpAck, {});
  finish(TcpEnd::kAborted);
}

void TcpConnection::finish(TcpEnd end) {
  state_ = TcpState::kClosed;
  end_ = end;
  timer_ = Time::never();
  ack_owed_ = false;
  out_.clear();
  out_from_ = 0;
  early_.clear();
  early_bytes_ = 0;
}

}  // namespace understudy
