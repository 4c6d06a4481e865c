// Plays the real rank's side of a recording against NcclCommunicator and NetIbPeer, in the
// recording's order, and holds every reply of ours against the recorded one: length, framing, and
// the meaning of each field but addresses and random values.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ctrl/peers/nccl/communicator.h"
#include "ctrl/peers/nccl/transport/net_ib_peer.h"
#include "tools/nccl_decode/exchange.h"

namespace understudy::nccl_rank {

class Replay final : public NcclHost, public NetIbObserver {
 public:
  /// Rank 0 of the recording is real, and the root is its.
  explicit Replay(nccl_decode::Exchange exchange);
  ~Replay() override { communicator_.reset(); }  // before what it speaks to
  void run();

  /// What was not as recorded.
  const std::vector<std::string>& differences() const { return differences_; }
  /// Replies that came later than recorded: after the real rank had said something else.
  int late() const { return late_; }
  int replies() const { return replies_; }
  NcclCommunicator& communicator() { return *communicator_; }

  Result<SocketAddress> listen(uint32_t rank, ListenerId listener) override;
  ListenerId new_listener() override { return ++last_id_; }
  void stop_listening(ListenerId) override {}
  void dial(uint32_t rank, const SocketAddress& to, StreamId stream) override;
  StreamId new_stream() override { return ++last_id_; }
  void send(StreamId stream, std::span<const uint8_t> bytes) override;
  void close(StreamId stream) override;
  Result<SocketAddress> expect(const NcclConnector& connector) override;
  void connect(const NcclConnector& connector, const SocketAddress& listener,
               uint64_t magic) override;
  void disconnect(const NcclConnector&) override {}
  void say(const std::string& line) override { said_.push_back(line); }

  void on_connector_ready(Time, const NcclConnector& connector) override {
    ready_.push_back(connector);
  }
  void on_connector_failed(Time, const NcclConnector&, const std::string& why) override {
    differ("a connection is not made: " + why);
  }
  void on_connector_closed(Time, const NcclConnector&) override { ++connections_; }
  /// net_ib's connections that were ready and came to their end.
  int connections() const { return connections_; }

 private:
  /// A connection of ours with the real rank.
  struct Ours {
    StreamId id = 0;
    uint32_t rank = 0;
    std::optional<SocketAddress> dialled;  ///< by us
    std::vector<uint8_t> sent;
    bool told_connected = false, closed = false;
    std::optional<size_t> stream;  ///< the recorded one
    std::unique_ptr<NetIbPeer> ib;
  };
  struct Event {
    uint64_t packet = 0;
    size_t stream = 0;
    enum class Kind : uint8_t { kOpen, kBytes, kMessage, kClose } kind = Kind::kOpen;
    bool real = false;
    uint64_t begin = 0, end = 0;  ///< kBytes, of the real rank's
    size_t message = 0;           ///< kMessage, of ours
  };
  void play(const Event& event);
  bool check(const Event& event);
  Ours* ours_of(size_t stream);
  Ours* match(size_t stream);
  void connect_dialled();
  std::unique_ptr<NetIbPeer> make_peer(const NcclConnector& connector);
  void serve(Ours& ours);
  std::vector<uint8_t> translated(const nccl_decode::Stream& stream, const Event& event) const;
  std::string map_address(const std::string& recorded) const;
  void differ(const std::string& what) { differences_.push_back(what); }

  nccl_decode::Exchange exchange_;
  std::unique_ptr<NcclCommunicator> communicator_;
  std::map<SocketAddress, ListenerId> listeners_;
  std::map<std::string, std::string> addresses_;  ///< recorded ones of emulated ranks: ours
  std::map<SocketAddress, NcclConnector> expected_;
  std::vector<NcclConnector> ready_;
  NetIbSeen seen_;
  IpAddress real_gid_;
  std::vector<std::unique_ptr<Ours>> ours_;
  /// What we said in all-gathers, by their number and the rank.
  std::map<std::pair<int, int>, std::vector<uint8_t>> slices_;
  std::vector<Event> pending_;  ///< replies that have not come
  std::vector<std::string> differences_, said_;
  uint64_t last_id_ = 0;
  uint16_t last_port_ = 1000;
  uint32_t last_qpn_ = 0x300;
  int late_ = 0, replies_ = 0, connections_ = 0;
  Time now_;
};

}  // namespace understudy::nccl_rank
