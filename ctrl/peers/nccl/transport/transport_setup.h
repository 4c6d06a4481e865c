// NCCL's set-up of transports between a real and an emulated rank (docs/nccl 2.1, appendix F): the
// real rank tells what it will send from and where it receives; the answer tells the same of ours.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ctrl/peers/nccl/bootstrap/bootstrap_layout.h"
#include "ctrl/peers/nccl/bootstrap/host.h"
#include "ctrl/peers/nccl/bootstrap/ring_shape.h"
#include "ctrl/peers/nccl/transport/graph_edges.h"

namespace understudy {

/// A message from a real rank to an emulated one; ranks of their communicator.
struct NcclMessage {
  uint32_t from = 0, to = 0;
  uint32_t tag = 0;
  std::span<const uint8_t> payload;
};

class TransportSetupUser {
 public:
  virtual ~TransportSetupUser() = default;
  virtual void answer(const NcclMessage& message) = 0;  ///< from an emulated rank to a real one
  virtual void setup_failed(const std::string& why) = 0;
};

class TransportSetup {
 public:
  TransportSetup(uint32_t communicator, const std::vector<NcclMember>& members, GraphEdges& edges,
                 NcclHost& host, TransportSetupUser& user)
      : communicator_(communicator), members_(members), edges_(edges), host_(host), user_(user) {}
  ~TransportSetup() { disconnect(); }
  TransportSetup(const TransportSetup&) = delete;
  TransportSetup& operator=(const TransportSetup&) = delete;

  /// Answers a set-up or, once its connectors are ready, its sync. False: it is another message.
  bool take(const BootstrapLayout& layout, const NcclMessage& message);
  void ready(const BootstrapLayout& layout, const NcclConnector& connector);
  bool connecting(const NcclConnector& connector) const { return connecting_.contains(connector); }
  /// Gives all connectors back.
  void disconnect();

  /// Exchanges of which connectors are not ready yet, or for whose end the real rank is waited.
  struct Open {
    uint32_t real = 0, emulated = 0;
    uint32_t connectors = 0;  ///< not ready
  };
  std::vector<Open> open() const;
  bool open_with(uint32_t real) const;

 private:
  struct Exchange {
    uint32_t real = 0, emulated = 0, tag = 0;
    auto operator<=>(const Exchange&) const = default;
  };
  struct State {
    uint32_t connecting = 0;
    bool sync_came = false;
  };
  struct Direction {
    uint32_t real = 0, emulated = 0;
    bool real_sends = false;
    uint8_t index = 0;
    auto operator<=>(const Direction&) const = default;
  };

  void set_up(const BootstrapLayout& layout, const NcclMessage& message, bool to_next,
              bool to_previous);
  /// Channels that are not connected yet: for send and receive the lowest.
  bool take_channels(const BootstrapLayout& layout, const Direction& direction, uint32_t part,
                     size_t count, std::vector<uint32_t>& channels);
  void sync_if_done(const BootstrapLayout& layout, const Exchange& exchange);
  std::string ranks_text(const NcclMessage& message) const;

  uint32_t communicator_;
  const std::vector<NcclMember>& members_;
  GraphEdges& edges_;
  NcclHost& host_;
  TransportSetupUser& user_;
  std::map<Exchange, State> exchanges_;
  std::map<NcclConnector, Exchange> connecting_;
  std::map<Direction, uint64_t> connected_;  ///< channels, as bits
  std::set<NcclConnector> connectors_;
};

}  // namespace understudy
