#include "ctrl/peers/torch_store/store_access.h"

#include <utility>

namespace understudy {

StoreAccess::StoreAccess(bool serves, std::optional<StoreGeneration> generation, StoreHost& host)
    : host_(host), generation_(generation) {
  if (serves) server_.emplace(host, static_cast<StoreWatcher&>(*this));
}

void StoreAccess::start(Time) {
  if (server_) return;
  client_.emplace(generation_);
  dial();
}

void StoreAccess::dial() {
  connected_ = false;
  stream_ = host_.new_stream();
  host_.dial(stream_);
}

void StoreAccess::on_connected(Time now, StreamId stream) {
  if (!client_ || stream != stream_) return;
  connected_ = true;
  client_->on_connected(now);
  carry();
}

void StoreAccess::on_bytes(Time now, StreamId stream, std::span<const uint8_t> bytes) {
  if (server_) {
    met_ = true;
    return server_->on_bytes(now, stream, bytes);
  }
  if (stream != stream_) return;
  client_->on_bytes(now, bytes);
  carry();
}

void StoreAccess::on_closed(Time now, StreamId stream) {
  if (server_) return server_->on_closed(stream);
  if (stream != stream_) return;
  client_->on_closed(now);
  if (client_->dial_again()) {
    dial();
  } else {
    connected_ = false;
    lost_ = true;
  }
}

void StoreAccess::poll(Time now) {
  if (!client_ || lost_) return;
  client_->poll(now);
  if (client_->dial_again()) {
    host_.close(stream_);
    return dial();
  }
  carry();
}

void StoreAccess::carry() {
  const auto output = client_->take_output();
  if (!output.empty()) host_.send(stream_, output);
  if (!failure_.empty() || client_->failure().empty()) return;
  failure_ = client_->failure();
  host_.close(stream_);
}

void StoreAccess::ask(Time now, StoreRequest request, Answered answered) {
  if (server_) {
    // Where it fails all is over: nothing is answered.
    const auto answer = server_->carry_out(std::move(request));
    if (answer) return answered(now, *answer);
    if (failure_.empty()) failure_ = answer.error().text;
    return;
  }
  client_->request(now, std::move(request), std::move(answered));
}

void StoreAccess::set(Time now, std::string key, std::string_view value) {
  ask(now, {StoreCommand::kSet, {std::move(key)}, {store_value(value)}, 0},
      [](Time, const StoreAnswer&) {});
}

void StoreAccess::add(Time now, std::string key, int64_t number) {
  ask(now, {StoreCommand::kAdd, {std::move(key)}, {}, number}, [](Time, const StoreAnswer&) {});
}

void StoreAccess::get(Time now, const std::string& key,
                      std::function<void(Time, const StoreValue&)> got) {
  // A GET of what is not there would end the connection.
  ask(now, {StoreCommand::kCheck, {key}, {}, 0},
      [this, key, got = std::move(got)](Time at, const StoreAnswer& answer) {
        if (answer.number != 0) return;
        ask(at, {StoreCommand::kGet, {key}, {}, 0},
            [got](Time then, const StoreAnswer& value) { got(then, value.values.at(0)); });
      });
}

}  // namespace understudy
