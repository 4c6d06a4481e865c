// The rendezvous of a job whose rank 0 is real: one client of its store acts for all emulated
// ranks. It asks again and again which of the keys that it knows are there: a WAIT ends only when
// all of its keys are.
#pragma once

#include <set>

#include "ctrl/peers/torch_store/client.h"
#include "ctrl/peers/torch_store/rendezvous.h"

namespace understudy {

class RealRank0 final : public Rendezvous {
 public:
  RealRank0(RendezvousSettings settings, StoreHost& host, RendezvousCallbacks callbacks);

  void start(Time now) override;
  void on_accepted(StreamId, const SocketAddress&) override {}
  void on_connected(Time now, StreamId stream) override;
  void on_bytes(Time now, StreamId stream, std::span<const uint8_t> bytes) override;
  void on_closed(Time now, StreamId stream) override;
  void poll(Time now) override;
  void look_for_next() override;
  const std::string& failure() const override { return failure_; }
  bool finished() const override { return finished_; }
  std::vector<std::string> waiting() const override;

 private:
  void dial();
  /// What is asked for first.
  void begin();
  void introduce(Time now);
  void publish(Time now, const UniqueIdKey& id);
  void ask_for_all(Time now);
  void if_there(Time now, std::string key, std::function<void(Time)> found);
  void on_barrier(Time now, size_t place, uint32_t number, const std::string& key);
  void on_unique_id(Time now, const UniqueIdKey& id, const std::string& key);
  void carry();

  const RendezvousSettings settings_;
  StoreHost& host_;
  const RendezvousCallbacks callbacks_;
  TcpStoreClient client_;
  StreamId stream_ = 0;
  uint32_t emulated_ = 0;
  bool connected_ = false, introduced_ = false, finished_ = false, publishes_ = false;
  Time ask_at_;
  Duration pause_;
  uint32_t groups_ = 0;           ///< below this number groups are asked for
  std::vector<uint32_t> counts_;  ///< communicators of each that are known
  std::set<UniqueIdKey> awaited_;
  std::set<NcclUniqueId> learned_, former_;   ///< of the present communicators, of earlier ones
  std::vector<std::set<uint32_t>> barriers_;  ///< numbers that may be next, by place of the key
  std::string failure_;
};

}  // namespace understudy
