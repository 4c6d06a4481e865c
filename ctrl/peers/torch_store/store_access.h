// A store for emulated agents, whoever serves it: one that we serve, whose clients are real agents,
// or a real node's, of which we are a client. Both take the same requests.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "ctrl/peers/torch_store/client.h"
#include "ctrl/peers/torch_store/host.h"
#include "ctrl/peers/torch_store/server.h"

namespace understudy {

class StoreAccess final : private StoreWatcher {
 public:
  using Answered = TcpStoreClient::Answered;

  /// `serves`: a listener stands already. `generation`: of a real node's store; nothing: to be
  /// found out. `host` outlives it.
  StoreAccess(bool serves, std::optional<StoreGeneration> generation, StoreHost& host);

  void start(Time now);
  void on_accepted(StreamId stream, const SocketAddress& from) {
    if (server_) server_->on_accepted(stream, from);
  }
  void on_connected(Time now, StreamId stream);
  void on_bytes(Time now, StreamId stream, std::span<const uint8_t> bytes);
  void on_closed(Time now, StreamId stream);
  /// For what goes by time. Also sends what was asked for meanwhile.
  void poll(Time now);

  /// Requests are answered.
  bool ready() const { return server_ || (connected_ && client_->generation()); }
  /// An answer is still to come.
  bool busy() const { return client_ && !client_->idle(); }
  /// The server of a real node has gone, or all clients of ours that have been there.
  bool lost() const { return server_ ? met_ && server_->clients() == 0 : lost_; }

  void ask(Time now, StoreRequest request, Answered answered);
  void set(Time now, std::string key, std::string_view value);
  void add(Time now, std::string key, int64_t number);
  /// Its value, if it has one.
  void get(Time now, const std::string& key, std::function<void(Time, const StoreValue&)> got);

  const std::string& failure() const { return failure_; }

 private:
  void on_wanted(Time, const std::string&) override {}
  void on_adding(Time, const std::string&, int64_t) override {}
  void on_set(Time, const std::string&, const StoreValue&) override {}
  void dial();
  void carry();

  StoreHost& host_;
  const std::optional<StoreGeneration> generation_;
  std::optional<TcpStoreServer> server_;
  std::optional<TcpStoreClient> client_;
  StreamId stream_ = 0;
  bool connected_ = false, lost_ = false, met_ = false;
  std::string failure_;
};

}  // namespace understudy
