// PyTorch's TCPStore as an emulated rank 0 hosts it: keys, values, and clients that wait for keys.
// What a request means is as in PyTorch's libuv server.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ctrl/peers/torch_store/host.h"
#include "ctrl/peers/torch_store/wire.h"
#include "dataplane/base/result.h"
#include "dataplane/base/socket_address.h"
#include "dataplane/base/units.h"

namespace understudy {

/// Is told what clients do, so that emulated ranks take part. May change the store meanwhile.
class StoreWatcher {
 public:
  virtual ~StoreWatcher() = default;
  /// A client waits for this key, or reads it, and it is not there.
  virtual void on_wanted(Time now, const std::string& key) = 0;
  /// A client is about to add this to it.
  virtual void on_adding(Time now, const std::string& key, int64_t number) = 0;
  /// A client has given it a value.
  virtual void on_set(Time now, const std::string& key, const StoreValue& value) = 0;
};

class TcpStoreServer {
 public:
  /// Both outlive this. Sockets are the host's; `on_accepted` comes first for each.
  TcpStoreServer(StoreHost& host, StoreWatcher& watcher) : host_(host), watcher_(watcher) {}

  void on_accepted(StreamId stream, const SocketAddress& from);
  /// Closes the connection, with a line for the user, if the client breaks the protocol.
  void on_bytes(Time now, StreamId stream, std::span<const uint8_t> bytes);
  void on_closed(StreamId stream);

  // The store itself, for emulated ranks; waiting clients are told.

  /// Error: the store is full.
  Result<void> set(const std::string& key, StoreValue value);
  /// Error: it is full, or there is something else than a number in decimal digits.
  Result<int64_t> add(const std::string& key, int64_t addend);
  const StoreValue* find(const std::string& key) const;
  void erase(const std::string& key);
  /// SET, COMPARE_SET, GET, ADD, CHECK (of one key) or GETNUMKEYS, as of a client, but no watcher is
  /// told. Errors: those of set() and add().
  Result<StoreAnswer> carry_out(StoreRequest&& request);

  size_t clients() const { return clients_.size(); }
  size_t waiting_clients() const;
  size_t bytes() const { return bytes_; }

 private:
  struct Client {
    SocketAddress from;
    StoreRequestParser parser;
    std::vector<std::string> awaited;  ///< keys of its wait that were not there at its start
    size_t missing = 0;                ///< of these
    size_t held = 0;                   ///< bytes of these and of a request that is not whole yet
    std::string error;
  };

  void answer(Time now, StreamId stream, Client& client, StoreRequest&& request);
  void wait(Time now, StreamId stream, Client& client, std::vector<std::string> keys);
  void stop_waiting(StreamId stream, Client& client);
  void count_held(Client& client);
  /// What the key's value is then; nothing if the store is full.
  std::optional<StoreValue> compare_set(StoreRequest&& request);
  std::string full_text() const;
  /// Replaces or makes a value and tells who waits for it. False if the store is full.
  bool put(const std::string& key, StoreValue value);

  StoreHost& host_;
  StoreWatcher& watcher_;
  std::unordered_map<std::string, StoreValue> values_;
  size_t bytes_ = 0;
  size_t held_ = 0;      ///< of all clients
  size_t answered_ = 0;  ///< bytes, to what came at once
  std::map<StreamId, Client> clients_;
  std::unordered_map<std::string, std::vector<StreamId>> waiting_;
};

}  // namespace understudy
