#include "ctrl/peers/perftest.h"

#include <algorithm>
#include <string>

namespace understudy {
namespace {

constexpr unsigned kOldestVersion = 570;   ///< perftest 4.5 itself refuses older ones
constexpr size_t kMostQueuePairs = 16384;  ///< perftest's own limit for -q
/// More than a client can have under way without an answer; it is at most one message.
constexpr size_t kMostInput = 4096;
constexpr uint32_t kMostOpeningBytes = 65536;
/// The client's message size is not in the handshake; a message of RC is at most this long.
constexpr uint64_t kRegionBytes = uint64_t{1} << 31;

bool is_send(ServiceKind kind) {
  return kind == ServiceKind::kSendBw || kind == ServiceKind::kSendLat;
}

bool is_read(ServiceKind kind) {
  return kind == ServiceKind::kReadBw || kind == ServiceKind::kReadLat;
}

}  // namespace

void PerftestPeer::on_bytes(Time, std::span<const uint8_t> bytes) {
  if (finished_) return;
  if (input_.size() + bytes.size() > kMostInput) {
    return give_up("the client sent " + std::to_string(input_.size() + bytes.size()) +
                   " bytes without waiting for an answer");
  }
  input_.insert(input_.end(), bytes.begin(), bytes.end());
  while (!finished_ && step()) {
  }
}

bool PerftestPeer::step() {
  switch (state_) {
    case State::kVersion:
      return read_version();
    case State::kCycleBuffer:
      return read_cycle_buffer();
    case State::kCacheLine:  // both sides take the larger value, so an echo changes nothing
      return echo(kPerftestIntSize, State::kMtu);
    case State::kMtu:
      return read_mtu();
    case State::kKeys:
      return read_key_or_end();
    case State::kReport:
      return read_report();
    case State::kEndpoint:
    case State::kEnd:
      return false;
  }
  return false;
}

bool PerftestPeer::read_version() {
  if (input_.size() < kPerftestVersionSize) return false;
  const auto version = parse_perftest_version(front(kPerftestVersionSize));
  if (!version) {
    give_up("not a perftest version: \"" + printable(input_, kPerftestVersionSize) + "\"");
    return false;
  }
  if (*version < kOldestVersion) {
    give_up("the client's perftest protocol \"" + printable(input_, 5) +
            "\" is older than 5.70; use perftest 4.5 or newer");
    return false;
  }
  drop(kPerftestVersionSize);
  std::array<uint8_t, kPerftestVersionSize> ours{};
  std::copy(kPerftestVersion.begin(), kPerftestVersion.end(), ours.begin());
  send(ours);
  state_ = State::kCycleBuffer;
  return true;
}

bool PerftestPeer::read_cycle_buffer() {
  if (input_.size() < kPerftestIntSize) return false;
  for (const uint8_t byte : front(kPerftestIntSize)) cycle_buffer_ = cycle_buffer_ << 8 | byte;
  return echo(kPerftestIntSize, State::kCacheLine);
}

bool PerftestPeer::echo(size_t size, State next) {
  if (input_.size() < size) return false;
  send(front(size));
  drop(size);
  state_ = next;
  return true;
}

bool PerftestPeer::read_mtu() {
  if (input_.size() < kPerftestMtuSize) return false;
  const unsigned digit = input_[0];
  const auto theirs = digit >= '0' ? mtu_of_code(digit - '0') : std::nullopt;
  if (!theirs || input_[1] != 0) {
    give_up("not a path MTU code: \"" + printable(input_, kPerftestMtuSize) + "\"");
    return false;
  }
  const auto code = code_of_mtu(service_.mtu);
  if (!code) {
    give_up("the emulated node's mtu " + std::to_string(service_.mtu) + " is no path MTU");
    return false;
  }
  drop(kPerftestMtuSize);
  mtu_ = std::min(*theirs, service_.mtu);  // as both ends of perftest choose it
  const std::array<uint8_t, kPerftestMtuSize> ours = {static_cast<uint8_t>('0' + *code), 0};
  send(ours);
  state_ = State::kKeys;
  return true;
}

bool PerftestPeer::read_key_or_end() {
  if (input_.empty()) return false;
  // A report starts with the message size, whose top byte is 0; a key starts with a digit.
  if (input_[0] == 0) {
    if (answers_.empty()) {
      give_up("a report before any queue pair");
      return false;
    }
    report_fields_ = 0;
    state_ = State::kReport;
    return true;
  }
  if (input_.size() >= kPerftestDone.size() &&
      std::equal(kPerftestDone.begin(), kPerftestDone.end(), input_.begin())) {
    state_ = State::kEnd;
    finished_ = true;
    return false;
  }
  if (input_.size() >= kPerftestKeySizeWithoutGid && input_[kPerftestKeySizeWithoutGid - 1] == 0) {
    give_up("the client sent no GID; give it a GID index (-x) of its IPv4 or IPv6 address");
    return false;
  }
  if (input_.size() < kPerftestKeySize) return false;
  const auto key = parse_perftest_key(front(kPerftestKeySize));
  if (!key) {
    give_up("not a perftest key message: \"" + printable(input_, kPerftestKeySize) + "\"");
    return false;
  }
  drop(kPerftestKeySize);
  take_key(*key);
  return !finished_;
}

void PerftestPeer::take_key(const PerftestKey& key) {
  ++key_messages_;
  if (const auto known = answers_.find(key.qpn); known != answers_.end()) {
    // The first barrier after all queue pairs have been repeated, or the last repetition: either
    // way the client's are ready to receive.
    const bool connected = key_messages_ == 2 * answers_.size() + 1;
    if (service_.kind == ServiceKind::kWriteLat && connected) starts_.push_back(known->second.qpn);
    return send(format_perftest_key(known->second));
  }
  if (answers_.size() >= kMostQueuePairs) return give_up("more than 16384 queue pairs");
  const auto gid = matching_gid(service_, key.gid);
  const auto behaviour = choose_behaviour(key);
  if (!gid || !behaviour) {
    failure_ = !gid ? gid.error().text : behaviour.error().text;
    finished_ = true;
    return;
  }
  gid_ = *gid;
  pending_ = key;
  EndpointRequest request;
  request.behaviour = *behaviour;
  request.local = gid_;
  request.remote = key.gid;
  request.remote_qpn = key.qpn;
  request.remote_psn = key.psn;
  request.local_psn = choose_psn(service_, key.gid, key.qpn);
  request.mtu = mtu_;
  request.region_bytes = kRegionBytes;
  request.remote_address = key.address;
  request.remote_rkey = key.rkey;
  if (*behaviour == Behaviour::kWriteEcho) {
    request.opening_bytes = std::clamp(cycle_buffer_, 1u, kMostOpeningBytes);
  }
  requests_.push_back(request);
  state_ = State::kEndpoint;
}

Result<Behaviour> PerftestPeer::choose_behaviour(const PerftestKey& key) const {
  const ServiceKind kind = service_.kind;
  const bool no_remote_access = key.rkey == 0;
  if (kind != ServiceKind::kAuto && !is_send(kind) && no_remote_access) {
    return fail(service_label(service_) +
                ": the client's memory key is 0, so it runs a SEND test; set kind = \"send_bw\" "
                "or \"send_lat\" for node " +
                service_.node);
  }
  if (key.out_reads > 1 && kind != ServiceKind::kAuto && !is_read(kind)) {
    return fail(service_label(service_) +
                ": the client asks for several READs at a time, so it runs a READ test; set kind "
                "= \"read_bw\" or \"read_lat\" for node " +
                service_.node);
  }
  switch (kind) {
    case ServiceKind::kSendBw:
      return Behaviour::kReceiveSink;
    case ServiceKind::kSendLat:
      return Behaviour::kSendEcho;
    case ServiceKind::kWriteLat:
      return Behaviour::kWriteEcho;
    case ServiceKind::kAuto:
      return no_remote_access ? Behaviour::kReceiveSink : Behaviour::kMemoryTarget;
    case ServiceKind::kWriteBw:
    case ServiceKind::kReadBw:
    case ServiceKind::kReadLat:
      return Behaviour::kMemoryTarget;
    case ServiceKind::kPingpong:  // ServicePeer has seen to it
      break;
  }
  return Behaviour::kMemoryTarget;
}

void PerftestPeer::on_endpoint(Time, const EndpointReady& ready) {
  if (finished_ || state_ != State::kEndpoint) return;
  PerftestKey answer;
  // The client may keep as many READs under way as we say, so it gets what it offered.
  answer.out_reads = pending_.out_reads;
  answer.qpn = ready.qpn;
  answer.psn = ready.psn;
  answer.rkey = ready.rkey;
  answer.address = ready.address;
  answer.gid = gid_;
  answers_.emplace(pending_.qpn, answer);
  send(format_perftest_key(answer));
  state_ = State::kKeys;
  while (!finished_ && step()) {
  }
}

bool PerftestPeer::read_report() {
  if (input_.size() < kPerftestReportField) return false;
  drop(kPerftestReportField);
  // In a test of one direction the client ignores the server's figures.
  send(std::array<uint8_t, kPerftestReportField>{});
  if (++report_fields_ == kPerftestReportFields) state_ = State::kKeys;
  return true;
}

void PerftestPeer::on_closed(Time) {
  if (finished_) return;
  // ib_write_lat is the one program that closes without a word.
  const bool test_ran = key_messages_ >= 2 * answers_.size() + 1 && !answers_.empty();
  if (service_.kind == ServiceKind::kWriteLat && test_ran) {
    finished_ = true;
    return;
  }
  if (!test_ran) return give_up("the client closed during the handshake");
  give_up("the client closed before the end of its test; its handshake (" +
          std::to_string(key_messages_) + " messages, " + std::to_string(answers_.size()) +
          " queue pairs) is that of " + fitting_clients() +
          "; if that is not what the service is set to, set its kind for node " + service_.node);
}

std::string PerftestPeer::fitting_clients() const {
  if (key_messages_ == 2 * answers_.size() + 1) return "ib_write_bw, ib_read_bw";
  return "ib_send_bw, ib_send_lat, ib_write_lat, ib_read_lat";
}

void PerftestPeer::send(std::span<const uint8_t> bytes) {
  output_.insert(output_.end(), bytes.begin(), bytes.end());
}

void PerftestPeer::give_up(const std::string& reason) {
  failure_ = service_label(service_) + ": " + reason;
  finished_ = true;
}

}  // namespace understudy
