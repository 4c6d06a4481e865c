// The rendezvous of a job whose rank 0 is emulated: we serve the store.
#pragma once

#include <set>

#include "ctrl/peers/torch_store/rendezvous.h"
#include "ctrl/peers/torch_store/server.h"

namespace understudy {

class EmulatedRank0 final : public Rendezvous, private StoreWatcher {
 public:
  EmulatedRank0(RendezvousSettings settings, StoreHost& host, RendezvousCallbacks callbacks);

  void start(Time now) override;
  void on_accepted(StreamId stream, const SocketAddress& from) override;
  void on_connected(Time, StreamId) override {}
  void on_bytes(Time now, StreamId stream, std::span<const uint8_t> bytes) override;
  void on_closed(Time now, StreamId stream) override;
  void poll(Time) override {}
  void look_for_next() override;
  const std::string& failure() const override { return failure_; }
  bool finished() const override { return met_ && server_.clients() == 0; }
  std::vector<std::string> waiting() const override;

 private:
  void on_wanted(Time now, const std::string& key) override;
  void on_adding(Time now, const std::string& key) override;
  void on_set(Time now, const std::string& key, const StoreValue& value) override;

  const RendezvousSettings settings_;
  const RendezvousCallbacks callbacks_;
  TcpStoreServer server_;
  uint32_t emulated_ = 0;
  bool met_ = false;                ///< a client has made a request
  std::set<std::string> barriers_;  ///< to which the emulated ranks have added
  std::set<UniqueIdKey> ids_;       ///< given or learned
  std::set<std::string> given_;     ///< keys of those that were given, but the first communicator's
  std::string failure_;
};

}  // namespace understudy
