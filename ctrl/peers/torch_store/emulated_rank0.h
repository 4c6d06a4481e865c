// The rendezvous of a job whose rank 0 is emulated: we serve the store.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

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
  void poll(Time now) override;
  void look_for_next() override;
  const std::string& failure() const override { return failure_; }
  bool finished() const override { return met_ && server_.clients() == 0; }
  std::vector<std::string> waiting() const override;

 private:
  void on_wanted(Time now, const std::string& key) override;
  void on_adding(Time now, const std::string& key, int64_t number) override;
  void on_set(Time now, const std::string& key, const StoreValue& value) override;
  void learn(Time now, const std::string& key, const StoreValue& value);
  bool all_came(const std::string& barrier) const;
  void set(const std::string& key, StoreValue value);
  void add(const std::string& key, int64_t number);
  void fail_with(const std::string& why);

  const RendezvousSettings settings_;
  const RendezvousCallbacks callbacks_;
  TcpStoreServer server_;
  uint32_t emulated_ = 0;
  bool met_ = false;           ///< a client has made a request
  std::set<UniqueIdKey> ids_;  ///< given or learned
  // Keys of barriers to which the emulated ranks have added, and of ids but the first communicator's;
  // whether they are the next program's already.
  std::map<std::string, bool> barriers_, published_;
  std::vector<std::string> tell_;  ///< keys of ids to be learned at the next poll()
  std::string failure_;
};

}  // namespace understudy
