#include "ctrl/peers/rdma_core/pingpong.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

namespace understudy {
namespace {

constexpr std::array<char, 5> kDone = {'d', 'o', 'n', 'e', '\0'};
constexpr uint64_t kAnySizeBytes = uint64_t{1}
                                   << 31;  // the client does not tell its message's size

constexpr uint32_t kUdPingpongQkey = 0x11111111;

}  // namespace

std::optional<PingpongMessage> parse_pingpong(std::span<const uint8_t> bytes) {
  if (bytes.size() != kPingpongMessageSize || bytes.back() != 0) return std::nullopt;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size() - 1);
  if (text[4] != ':' || text[11] != ':' || text[18] != ':') return std::nullopt;
  const auto lid = parse_hex(text.substr(0, 4));
  const auto qpn = parse_hex(text.substr(5, 6));
  const auto psn = parse_hex(text.substr(12, 6));
  if (!lid || !qpn || !psn) return std::nullopt;
  std::array<uint8_t, 16> gid;
  for (size_t i = 0; i < gid.size(); ++i) {
    const auto byte = parse_hex(text.substr(19 + 2 * i, 2));
    if (!byte) return std::nullopt;
    gid[i] = static_cast<uint8_t>(*byte);
  }
  return PingpongMessage{static_cast<uint16_t>(*lid), static_cast<Qpn>(*qpn),
                         Psn(static_cast<uint32_t>(*psn)), IpAddress::v6_bytes(gid.data())};
}

std::vector<uint8_t> format_pingpong(const PingpongMessage& message) {
  char text[kPingpongMessageSize];
  int at = std::snprintf(text, sizeof text, "%04x:%06x:%06x:", message.lid, message.qpn & kQpnMask,
                         message.psn.value());
  for (const uint8_t byte : message.gid.gid()) {
    at += std::snprintf(text + at, sizeof text - static_cast<size_t>(at), "%02x", byte);
  }
  return {text, text + sizeof text};
}

void PingpongPeer::on_bytes(Time, std::span<const uint8_t> bytes) {
  if (finished_) return;
  input_.insert(input_.end(), bytes.begin(), bytes.end());
  if (input_.size() > kPingpongMessageSize + kDone.size()) {
    return give_up(std::string("more bytes than ") + program() + " sends");
  }
  if (state_ == State::kAddress) read_address();
  if (state_ == State::kDone) read_done();
}

void PingpongPeer::read_address() {
  if (input_.size() < kPingpongMessageSize) return;
  const auto message = parse_pingpong(std::span(input_).first(kPingpongMessageSize));
  if (!message) {
    return give_up(std::string("not an ") + program() + " address: \"" + printable(input_, 52) +
                   "\"");
  }
  input_.erase(input_.begin(), input_.begin() + kPingpongMessageSize);
  const auto gid = matching_gid(service_, message->gid);
  if (!gid) {
    failure_ = gid.error().text;
    finished_ = true;
    return;
  }
  gid_ = *gid;
  EndpointRequest request;
  request.behaviour = datagrams() ? Behaviour::kDatagramEcho : Behaviour::kSendEcho;
  request.local = gid_;
  request.remote = message->gid;
  request.remote_qpn = message->qpn;
  request.remote_psn = message->psn;
  request.local_psn = choose_psn(service_, message->gid, message->qpn);
  if (datagrams()) {
    request.qkey = kUdPingpongQkey;
    request.mtu = service_.mtu;
  } else {
    request.mtu = std::min(service_.mtu, service_.pingpong_mtu);
    request.region_bytes = kAnySizeBytes;
    request.unreliable = service_.unreliable;
  }
  requests_.push_back(request);
  state_ = State::kEndpoint;
}

void PingpongPeer::on_endpoint(Time, const EndpointReady& ready) {
  if (finished_ || state_ != State::kEndpoint) return;
  output_ = format_pingpong({0, ready.qpn, ready.psn, gid_});
  state_ = State::kDone;
  read_done();
}

void PingpongPeer::read_done() {
  if (input_.size() < kDone.size()) return;
  if (!std::equal(kDone.begin(), kDone.end(), input_.begin())) {
    return give_up("\"done\" expected, got \"" + printable(input_, 5) + "\"");
  }
  state_ = State::kFinished;
  finished_ = true;
}

void PingpongPeer::on_closed(Time) {
  if (finished_) return;
  give_up(state_ == State::kAddress ? "the client closed after " + std::to_string(input_.size()) +
                                          " of the 52 bytes of an " + program() + " address"
                                    : "the client closed before it said \"done\"");
}

const char* PingpongPeer::program() const {
  return datagrams() ? "ibv_ud_pingpong" : "ibv_rc_pingpong";
}

void PingpongPeer::give_up(const std::string& reason) {
  failure_ = service_label(service_) + ": " + reason;
  finished_ = true;
}

}  // namespace understudy
