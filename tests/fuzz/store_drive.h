// Turns any bytes into clients of PyTorch's store, into a server for our client of it, into unique ids
// and into states of torchrun's rendezvous. Shared by the fuzzer and a test.
#pragma once

#include "ctrl/peers/nccl/bootstrap/unique_id_file.h"
#include "ctrl/peers/torch_store/client.h"
#include "ctrl/peers/torch_store/keys.h"
#include "ctrl/peers/torch_store/server.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/rendezvous_drive.h"
#include "tests/rigs/store_rig.h"
#include "tests/rigs/unique_id_hex.h"

namespace understudy {

/// Three clients of a server: commands of a client's number, a count, and that many bytes; a count
/// of 0 closes it and lets another one come.
inline void drive_store_server(FuzzInput& input) {
  struct Watcher : StoreWatcher {
    void on_wanted(Time, const std::string& key) override {
      if (key.size() % 2 == 1) server->set(key, StoreValue(128, 1));
    }
    void on_adding(Time, const std::string& key, int64_t) override {
      if (key.size() % 3 == 1) server->add(key, 3);
    }
    void on_set(Time, const std::string&, const StoreValue&) override {}
    TcpStoreServer* server = nullptr;
  };
  WrittenHost host;
  Watcher watcher;
  TcpStoreServer server(host, watcher);
  watcher.server = &server;
  StreamId next = 4;
  StreamId streams[] = {1, 2, 3};
  for (const StreamId stream : streams) server.on_accepted(stream, {});
  while (!input.done()) {
    StreamId& stream = streams[input.byte() % 3];
    const uint8_t size = input.byte();
    if (size == 0) {
      server.on_closed(stream);
    } else {
      server.on_bytes(Time::zero(), stream, input.take(size));
    }
    if (size == 0 || host.closed.count(stream) != 0) {
      stream = ++next;
      server.on_accepted(stream, {});
    }
    must(server.clients() == 3);
    must(server.bytes() <= kStoreMostBytes);
    must(server.waiting_clients() <= 3);
  }
  for (const StreamId stream : streams) server.on_closed(stream);
  must(server.clients() == 0 && server.waiting_clients() == 0);
}

/// Our client, which asks of everything, and a server that answers with any bytes.
inline void drive_store_client(FuzzInput& input) {
  const uint8_t form = input.byte() % 4;
  TcpStoreClient client(form == 3 ? std::nullopt
                                  : std::optional(static_cast<StoreGeneration>(form)));
  Time now;
  size_t answers = 0;
  const auto ask = [&] {
    StoreRequest request = store_request(static_cast<StoreCommand>(input.byte() % 6), {"/a"},
                                         {"x", "y"}, input.byte());
    client.request(now, std::move(request), [&](Time, const StoreAnswer& answer) {
      must(answer.values.size() <= 1);
      ++answers;
    });
  };
  client.on_connected(now);
  size_t asked = 0;
  while (!input.done()) {
    now += Duration::ms(100);
    const uint8_t size = input.byte();
    if (size < 8) {
      ask();
      ++asked;
    } else if (size == 8) {
      client.on_closed(now);
    } else {
      client.on_bytes(now, input.take(size - 8u));
    }
    client.poll(now);
    client.take_output();
    if (client.dial_again()) client.on_connected(now);
    must(answers <= asked);
  }
}

/// What is read as an id is written as the same id.
inline void drive_unique_id(std::span<const uint8_t> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (const auto id = parse_unique_id_file(text)) {
    must(parse_unique_id_file(unique_id_hex(*id)) == *id);
    must(parse_unique_id(unique_id_bytes(*id)) == *id);
  }
  if (const auto address = parse_socket_address(text)) {
    must(parse_socket_address(address->text()) == *address);
  }
  if (const auto key = parse_unique_id_key(text)) {
    for (const std::string& made : unique_id_keys(*key, 1)) {
      must(parse_unique_id_key(made) == key);
    }
  }
}

inline void drive_store(std::span<const uint8_t> bytes) {
  FuzzInput input(bytes);
  switch (input.byte() % 4) {
    case 0:
      return drive_store_server(input);
    case 1:
      return drive_store_client(input);
    case 3:
      return drive_rendezvous_state(input.take(bytes.size()));
    default:
      return drive_unique_id(input.take(bytes.size()));
  }
}

}  // namespace understudy
