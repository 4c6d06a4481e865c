// The peer of a [[service]]: ibv_rc_pingpong and perftest use the same TCP port, so the first bytes
// decide which machine answers. pingpong starts with an address line ("0000:"), perftest with its
// protocol version ("6.06"). A service set to the other program ends with a text that says so.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ctrl/peers/peer.h"
#include "ctrl/peers/service.h"

namespace understudy {

class ServicePeer : public Peer {
 public:
  explicit ServicePeer(Service service) : service_(std::move(service)) {}
  void on_bytes(Time now, std::span<const uint8_t> bytes) override;
  void on_endpoint(Time now, const EndpointReady& ready) override;
  void on_closed(Time now) override;
  void on_refused(Time now, const std::string& reason) override;

 private:
  void choose();
  void give_up(const std::string& reason);
  /// Takes over what the chosen machine has produced.
  void collect();

  Service service_;
  std::vector<uint8_t> first_;  ///< what came before a machine was chosen
  std::unique_ptr<Peer> machine_;
};

}  // namespace understudy
