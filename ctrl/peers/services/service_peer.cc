#include "ctrl/peers/services/service_peer.h"

#include <algorithm>

#include "ctrl/peers/perftest/perftest.h"
#include "ctrl/peers/rdma_core/pingpong.h"

namespace understudy {
namespace {

/// Enough to see "0000:" or "6.06".
constexpr size_t kDecisiveBytes = 5;

bool looks_like_pingpong(std::span<const uint8_t> bytes) {
  const std::string_view lid(reinterpret_cast<const char*>(bytes.data()), 4);
  return bytes[4] == ':' && parse_hex(lid).has_value();
}

bool looks_like_perftest(std::span<const uint8_t> bytes) {
  const auto dot = std::find(bytes.begin(), bytes.end(), '.');
  return dot != bytes.begin() && dot != bytes.end() &&
         std::all_of(bytes.begin(), dot, [](uint8_t c) { return c >= '0' && c <= '9'; });
}

}  // namespace

void ServicePeer::on_bytes(Time now, std::span<const uint8_t> bytes) {
  if (finished_) return;
  if (machine_ == nullptr) {
    first_.insert(first_.end(), bytes.begin(), bytes.end());
    if (first_.size() < kDecisiveBytes) return;
    choose();
    if (finished_) return;
    machine_->on_bytes(now, first_);
    first_.clear();
  } else {
    machine_->on_bytes(now, bytes);
  }
  collect();
}

void ServicePeer::choose() {
  const auto start = std::span<const uint8_t>(first_).first(kDecisiveBytes);
  const bool wants_pingpong =
      service_.kind == ServiceKind::kPingpong || service_.kind == ServiceKind::kUdPingpong;
  if (looks_like_pingpong(start)) {
    if (!wants_pingpong && service_.kind != ServiceKind::kAuto) {
      return give_up(
          "the client is a pingpong; set kind = \"pingpong\" or \"auto\" for ibv_rc_pingpong, "
          "\"ud_pingpong\" for ibv_ud_pingpong, for node " +
          service_.node);
    }
    machine_ = std::make_unique<PingpongPeer>(service_);
  } else if (looks_like_perftest(start)) {
    if (wants_pingpong) {
      return give_up(
          "the client is a perftest program; set kind to the name of its test (\"write_bw\", "
          "\"send_lat\", ...) or \"auto\" for node " +
          service_.node);
    }
    machine_ = std::make_unique<PerftestPeer>(service_);
  } else {
    give_up("neither a pingpong nor perftest (without -R): the client started with \"" +
            printable(first_, 16) + "\"");
  }
}

void ServicePeer::on_endpoint(Time now, const EndpointReady& ready) {
  if (finished_ || machine_ == nullptr) return;
  machine_->on_endpoint(now, ready);
  collect();
}

void ServicePeer::on_refused(Time now, const std::string& reason) {
  if (finished_ || machine_ == nullptr) return;
  machine_->on_refused(now, service_label(service_) + ": " + reason);
  collect();
}

void ServicePeer::on_closed(Time now) {
  if (finished_) return;
  if (machine_ == nullptr) {
    return give_up("the client closed after " + std::to_string(first_.size()) + " bytes");
  }
  machine_->on_closed(now);
  collect();
}

void ServicePeer::collect() {
  const auto output = machine_->take_output();
  output_.insert(output_.end(), output.begin(), output.end());
  auto requests = machine_->take_requests();
  for (EndpointRequest& request : requests) {
    request.service_port = service_.port;
    request.service_kind = service_kind_name(service_.kind);
    request.sender = service_.sender;
  }
  requests_.insert(requests_.end(), requests.begin(), requests.end());
  const auto starts = machine_->take_starts();
  starts_.insert(starts_.end(), starts.begin(), starts.end());
  finished_ = machine_->finished();
  failure_ = machine_->failure();
  endpoints_outlive_connection_ = machine_->endpoints_outlive_connection();
}

void ServicePeer::give_up(const std::string& reason) {
  failure_ = service_label(service_) + ": " + reason;
  finished_ = true;
}

}  // namespace understudy
