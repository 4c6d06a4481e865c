// A TcpConnection and a script that plays the other side, segment by segment. Numbers are counted
// from both initial ones, which lie so that they wrap on the way.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "ctrl/virtual_host/tcp_connection.h"

namespace understudy {

class TcpScript : private TcpOutput {
 public:
  static constexpr uint32_t kOurs = 0xfffffff0, kTheirs = 0x7ffffffa;
  static constexpr uint16_t kWide = 60000;

  enum class Start : uint8_t {
    kCalling,      ///< ours calls; its SYN has gone
    kCalled,       ///< ours has been called; its answer has gone
    kEstablished,  ///< then the handshake was done
  };
  /// `window`: the other side's in its SYN and ACK.
  explicit TcpScript(Start start, const TcpSettings& settings = {}, uint16_t window = 65535) {
    const TcpFlow flow{{IpAddress::v4(0x0a000001), 5000}, {IpAddress::v4(0x0a000002), 40000}};
    if (start == Start::kCalling) {
      tcp_.emplace(flow, settings, kOurs, output());
      push();
      return;
    }
    TcpSegment syn;
    syn.seq = kTheirs;
    syn.flags = kTcpSyn;
    syn.window = window;
    syn.mss = 1460;
    tcp_.emplace(flow, settings, kOurs, output(), syn);
    push();
    if (start == Start::kCalled) return;
    come("A", 1, 1, "", window);
    EXPECT_EQ(state(), TcpState::kEstablished);
    EXPECT_EQ(sent(), "SA 0 1");
  }
  TcpScript(const TcpScript&) = delete;

  TcpConnection& tcp() { return *tcp_; }
  TcpState state() const { return tcp_->state(); }

  /// A segment comes: letters of its flags, sequence number, acknowledgement, payload.
  void come(std::string_view flags, uint32_t seq, uint32_t ack, std::string_view payload = "",
            uint16_t window = 65535) {
    TcpSegment segment;
    for (const char flag : flags) {
      segment.flags |= flag == 'S'   ? kTcpSyn
                       : flag == 'F' ? kTcpFin
                       : flag == 'R' ? kTcpRst
                       : flag == 'P' ? kTcpPsh
                                     : kTcpAck;
    }
    segment.seq = kTheirs + seq;
    segment.ack = kOurs + ack;
    segment.window = window;
    segment.payload = {reinterpret_cast<const uint8_t*>(payload.data()), payload.size()};
    tcp_->on_segment(segment);
    push();
  }
  void say(std::string_view text) {
    tcp_->write({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
    push();
  }
  void close() {
    tcp_->close();
    push();
  }
  std::string heard() {
    const auto bytes = tcp_->read();
    push();
    return {bytes.begin(), bytes.end()};
  }
  /// Time goes on to the deadline.
  void wait() {
    ASSERT_FALSE(tcp_->deadline().is_never());
    now = tcp_->deadline();
    tcp_->on_time(now);
    push();
  }
  /// What has been sent since the last call, as "SA 0 1" (flags, sequence number, acknowledgement),
  /// with "+3" for 3 bytes of payload and "w7" for a window that is less than kWide.
  std::string sent() {
    std::string text;
    for (const std::string& segment : std::exchange(sent_, {})) {
      text += (text.empty() ? "" : ", ") + segment;
    }
    return text;
  }
  const std::string& payload() const { return last_; }  ///< of the last segment sent with one

  Time now;

 private:
  TcpOutput& output() { return *this; }
  void push() { tcp_->push(now); }
  void send(const TcpFlow&, const TcpSegment& segment) override {
    std::string text;
    constexpr std::pair<uint8_t, char> kLetters[] = {
        {kTcpSyn, 'S'}, {kTcpFin, 'F'}, {kTcpRst, 'R'}, {kTcpPsh, 'P'}, {kTcpAck, 'A'}};
    for (const auto& [flag, letter] : kLetters) {
      if (segment.has(flag)) text += letter;
    }
    text += " " + std::to_string(segment.seq - kOurs);
    if (segment.has(kTcpAck)) text += " " + std::to_string(segment.ack - kTheirs);
    if (!segment.payload.empty()) {
      text += " +" + std::to_string(segment.payload.size());
      last_.assign(segment.payload.begin(), segment.payload.end());
    }
    if (segment.window < kWide && !segment.has(kTcpRst)) {
      text += " w" + std::to_string(segment.window);
    }
    sent_.push_back(std::move(text));
  }

  std::optional<TcpConnection> tcp_;
  std::vector<std::string> sent_;
  std::string last_;
};

}  // namespace understudy
