// What the emulated ranks of NCCL communicators want of the world. Behind it are sockets of the
// emulated nodes' addresses and the dataplane in `run`, scripts in tests.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ctrl/peers/connector.h"
#include "ctrl/peers/stream_id.h"
#include "dataplane/base/ids.h"
#include "dataplane/base/result.h"
#include "dataplane/base/socket_address.h"

namespace understudy {

/// Of one listening socket; never used twice.
using ListenerId = uint64_t;

class NcclHost {
 public:
  virtual ~NcclHost() = default;

  // Sockets of an emulated rank (its number in the first communicator). Nothing calls back from
  // within these.

  /// A listening socket on the rank's address; its connections come by on_accepted(). Who asks
  /// chooses the number, from new_listener().
  virtual Result<SocketAddress> listen(uint32_t rank, ListenerId listener) = 0;
  virtual ListenerId new_listener() = 0;
  virtual void stop_listening(ListenerId listener) = 0;
  /// Ends in on_connected() or on_closed(). Who asks chooses the number, from new_stream(). A
  /// refusal is no end yet: the other side's listener may come later, so it is tried again for as
  /// long as NCCL does (about a minute).
  virtual void dial(uint32_t rank, const SocketAddress& to, StreamId stream) = 0;
  virtual StreamId new_stream() = 0;
  virtual void send(StreamId stream, std::span<const uint8_t> bytes) = 0;
  /// Once what was sent has gone (as ever a close after a send). No call about this stream comes
  /// any more; nothing needs to be closed after on_closed().
  virtual void close(StreamId stream) = 0;

  // net_ib's connections (docs/nccl 2.2, 2.3), which the host makes; on_connector_ready() or
  // on_connector_failed() tells how it ended.

  /// Where the emulated rank takes this connection: listened to for it alone. `real_sends` is true.
  virtual Result<SocketAddress> expect(const NcclConnector& connector) = 0;
  /// The same rank takes this one where it takes `before`, once that stands or has been given up:
  /// NCCL takes several connections of one-sided operations at one listener. To be said while
  /// `before` is expected.
  virtual Result<void> expect_behind(const NcclConnector& /*connector*/,
                                     const NcclConnector& /*before*/) {
    return fail("nothing plays one-sided operations here");
  }
  /// The emulated rank connects to the real rank's listener. `real_sends` is false.
  virtual void connect(const NcclConnector& connector, const SocketAddress& listener,
                       uint64_t magic) = 0;
  /// Its queue pairs may go.
  virtual void disconnect(const NcclConnector& connector) = 0;

  // One-sided operations (docs/nccl 3.16): messages on connections of kOneSidedRing, and memory.

  /// Sends a message on a connection of which `real_sends` is false; those that come on the other
  /// kind come by NcclCommunicator::on_relayed().
  virtual void relay(const NcclConnector& /*connector*/, std::span<const uint8_t> /*bytes*/) {}
  /// What memory is for.
  enum class OneSidedUse : uint8_t {
    kSignals,  ///< of the RMA proxy, 8 bytes a rank; or a buffer of its own
    kGinSignals,
    kLocal,   ///< only its owner uses it
    kWindow,  ///< a user's, or NCCL's own for kernels
  };
  /// Memory that all ranks of a communicator register together.
  struct OneSidedMemory {
    uint32_t communicator = 0, registration = 0;
    uint32_t emulated = 0;        ///< whose it is, by its number in the first communicator
    uint32_t rank = 0, real = 0;  ///< the same, and the real rank's, in the communicator
    uint64_t bytes = 0;           ///< 0: of a window, not told
    OneSidedUse use = OneSidedUse::kSignals;
    uint32_t ring = 0;  ///< over which it was told: channel of connections that reach it, last byte
    uint32_t window = 0;  ///< its number; the same one may be registered for several rings
  };
  struct MemoryKey {
    uint64_t address = 0;
    Rkey rkey = 0;
  };
  /// Lets the real rank reach it.
  virtual Result<MemoryKey> expose(const OneSidedMemory& /*memory*/) {
    return fail("nothing plays one-sided operations here");
  }
  /// The same memory of the real rank.
  virtual void exposed(const OneSidedMemory& /*memory*/, const MemoryKey& /*real*/) {}

  /// A line for the user.
  virtual void say(const std::string& line) = 0;
};

}  // namespace understudy
