// TCP for machines that are called and call others: the host's sockets (SocketAdapter), or
// something else that keeps its own time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ctrl/peers/peer.h"
#include "dataplane/base/address.h"
#include "dataplane/base/ids.h"
#include "dataplane/base/result.h"
#include "dataplane/base/socket_address.h"
#include "dataplane/base/units.h"

namespace understudy {

using ConnectionId = uint64_t;  ///< of one connection; never used twice

/// A connection that has ended.
struct EndedConnection {
  NodeId node = kNoNode;
  ConnectionId id = 0;
  uint16_t port = 0;  ///< our TCP port, that the client dialled
  IpAddress client;
  std::string failure;          ///< the machine's text, empty if all went well
  bool keep_endpoints = false;  ///< its queue pairs are to live on
  bool dialled = false;         ///< by us; `port` and `client` are the server's then
  bool connected = true;        ///< false: a dialled server did not take the call
  bool refused = false;         ///< and said so
};

/// A connection that a client has made.
struct AcceptedConnection {
  ConnectionId id = 0;
  IpAddress local, client;
  uint16_t local_port = 0, client_port = 0;
};

class PeerNetwork {
 public:
  /// Null: it is closed at once.
  using Acceptor = std::function<std::unique_ptr<Peer>(const AcceptedConnection&)>;

  virtual ~PeerNetwork() = default;
  virtual Time now() const = 0;
  /// Takes calls to all emulated addresses of the family of `any`, an unspecified address. Port 0:
  /// any that is free. Returns the port.
  virtual Result<uint16_t> listen(const IpAddress& any, uint16_t port, Acceptor acceptor) = 0;
  /// Calls from an emulated node's address. Peer::on_connected() tells that it stands, an
  /// EndedConnection that it has ended or never stood.
  virtual Result<ConnectionId> call(const IpAddress& from, const SocketAddress& to,
                                    std::unique_ptr<Peer> peer) = 0;
  /// Carries on what a connection's machine has produced outside its own calls.
  virtual void flush(ConnectionId id) = 0;
  /// Ends a connection at once; no EndedConnection comes. Not from within calls of a machine.
  virtual void drop(ConnectionId id) = 0;
};

}  // namespace understudy
