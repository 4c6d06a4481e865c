#include "ctrl/peers/perftest/perftest.h"

#include <algorithm>
#include <string>

#include "ctrl/peers/perftest/perftest_kind.h"

namespace understudy {
namespace {

constexpr size_t kMostQueuePairs = 16384;  ///< perftest's own limit for -q
/// More than a client can have under way without an answer; it is at most one message.
constexpr size_t kMostInput = 4096;
constexpr uint32_t kMostOpeningBytes = 1 << 30;

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
    case State::kTest:
      return read_test();
    case State::kTestExtra:
      return skip_test_extra();
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
  layout_ = perftest_layout(*version);
  if (layout_ == nullptr) {
    give_up("the client's perftest protocol \"" + printable(input_, 5) +
            "\" is older than 5.70; use perftest 4.5 or newer");
    return false;
  }
  // The client goes by our version where it is the older one; of a protocol newer than all that
  // are known we speak the newest.
  std::array<uint8_t, kPerftestVersionSize> ours{};
  if (*version <= perftest_newest()) {
    std::copy_n(input_.begin(), ours.size(), ours.begin());
  } else {
    std::copy(layout_->version.begin(), layout_->version.end(), ours.begin());
  }
  drop(kPerftestVersionSize);
  send(ours);
  state_ = State::kCycleBuffer;
  return true;
}

bool PerftestPeer::read_cycle_buffer() {
  if (input_.size() < kPerftestIntSize) return false;
  for (const uint8_t byte : front(kPerftestIntSize)) opening_bytes_ = opening_bytes_ << 8 | byte;
  if (service_.message_bytes != 0) opening_bytes_ = service_.message_bytes;
  opening_bytes_ = std::clamp(opening_bytes_, 1u, kMostOpeningBytes);
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
  state_ = layout_->states_test ? State::kTest : State::kKeys;
  return true;
}

bool PerftestPeer::read_test() {
  if (input_.size() < kPerftestTestSize) return false;
  const auto test = parse_perftest_test(front(kPerftestTestSize));
  if (!test) {
    give_up("not a statement of what the client is going to do");
    return false;
  }
  const auto kind = perftest_kind(service_, *test);
  if (!kind) {
    failure_ = kind.error().text;
    finished_ = true;
    return false;
  }
  kind_ = *kind;
  unreliable_ = test->connection_type == PerftestTest::kUnreliable;
  opening_bytes_ = static_cast<uint32_t>(std::clamp<uint64_t>(test->size, 1, kMostOpeningBytes));
  if (in_band_) return echo(input_.size(), State::kKeys);
  return echo(kPerftestTestSize, State::kTestExtra);
}

bool PerftestPeer::skip_test_extra() {
  if (input_.empty()) return false;
  if (input_[0] == 0) return echo(kPerftestTestExtra, State::kKeys);
  state_ = State::kKeys;  // a key message starts with a digit
  return true;
}

bool PerftestPeer::read_key_or_end() {
  if (input_.empty()) return false;
  // A report starts with the message size, whose top byte is 0; a key of TCP starts with a digit.
  if (in_band_ ? input_.size() == kPerftestReportField : input_[0] == 0) {
    if (answers_.empty()) {
      give_up("a report before any queue pair");
      return false;
    }
    report_fields_ = 0;
    state_ = State::kReport;
    return true;
  }
  return in_band_ ? read_binary_key() : read_text_key();
}

bool PerftestPeer::read_binary_key() {
  const auto key =
      input_.size() == layout_->in_band_key ? parse_perftest_binary_key(input_) : std::nullopt;
  if (!key) {
    give_up("a message of " + std::to_string(input_.size()) + " bytes where a key message of " +
            std::to_string(layout_->in_band_key) + " is due");
    return false;
  }
  drop(input_.size());
  take_key(*key);
  return !finished_;
}

bool PerftestPeer::read_text_key() {
  if (layout_->says_done && input_.size() >= kPerftestDone.size() &&
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
  // With -R the client waits for us before it connects its queue pairs, and then once more.
  if (in_band_ && key.qpn == 0) return send(std::vector<uint8_t>(layout_->in_band_key));
  ++key_messages_;
  const auto known = answers_.find(key.qpn);
  if (known == answers_.end()) {
    if (!in_band_) return ask_for_endpoint(key);
    return give_up("its queue pair " + std::to_string(key.qpn) +
                   " has not been connected by RDMA-CM");
  }
  PerftestKey& answer = known->second;
  // The client may keep as many READs under way as we say, so it gets what it offered.
  if (in_band_) answer.out_reads = key.out_reads;
  // The first barrier after all queue pairs have been repeated, or the last repetition: either
  // way the client's are ready to receive.
  const bool connected = key_messages_ == 2 * answers_.size() + 1;
  if (kind_ == ServiceKind::kWriteLat && connected) {
    starts_.push_back({answer.qpn, key.address, key.rkey, opening_bytes_});
  }
  answer_key(answer);
  // The last one; who hears "done" waits for that, who is connected by RDMA-CM hangs up.
  if (in_band_ && key_messages_ == 2 * answers_.size() + 3) finished_ = true;
}

void PerftestPeer::ask_for_endpoint(const PerftestKey& key) {
  if (answers_.size() >= kMostQueuePairs) return give_up("more than 16384 queue pairs");
  const auto gid = matching_gid(service_, key.gid);
  const auto behaviour = perftest_behaviour(service_, kind_, key);
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
  request.region_bytes = kPerftestRegionBytes;
  request.memory = service_.memory;
  request.unreliable = unreliable_;
  requests_.push_back(request);
  state_ = State::kEndpoint;
}

void PerftestPeer::answer_key(const PerftestKey& answer) {
  if (in_band_) return send(format_perftest_binary_key(answer, layout_->in_band_key));
  send(format_perftest_key(answer));
}

void PerftestPeer::adopt(Qpn client_qpn, const EndpointReady& ready) {
  PerftestKey answer;
  answer.qpn = ready.qpn;
  answer.psn = ready.psn;
  answer.rkey = ready.rkey;
  answer.address = ready.address;
  answers_.insert_or_assign(client_qpn, answer);
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
  answer_key(answer);
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
  const size_t q = answers_.size();
  const bool test_ran = q > 0 && key_messages_ >= 2 * q + 1;
  if (!test_ran) return give_up("the client closed during the handshake");
  // ib_write_lat closes without a word, newer versions of all do after their last key message.
  const bool at_end = kind_ == ServiceKind::kWriteLat ||
                      ((in_band_ || !layout_->says_done) && key_messages_ >= 2 * q + 3);
  if (at_end) {
    finished_ = true;
    return;
  }
  give_up("the client closed before the end of its test; its handshake (" +
          std::to_string(key_messages_) + " messages, " + std::to_string(q) +
          " queue pairs) is that of " + std::string(perftest_programs(key_messages_, q)) +
          "; if that is not what the service is set to, set its kind for node " + service_.node);
}

void PerftestPeer::send(std::span<const uint8_t> bytes) {
  output_.insert(output_.end(), bytes.begin(), bytes.end());
}

void PerftestPeer::give_up(const std::string& reason) {
  failure_ = service_label(service_) + ": " + reason;
  finished_ = true;
}

}  // namespace understudy
