// The client side of perftest (ib_write_bw, ib_send_bw, ib_read_bw), as version 4.5's: an emulated
// node tests against an unmodified server. The messages are those of perftest_wire.h; the server's
// -n, -s and -q have to be ours.
//
// They go over TCP, or with -R as SENDs over a connection made by RDMA-CM: then each message of the
// server is one call of on_bytes and each of ours what take_output gives after it; where the queue
// pairs are due, requests are made without `reserve`, and each is answered by adopt() when its
// connection stands.
#pragma once

#include <span>
#include <vector>

#include "ctrl/peers/peer.h"
#include "ctrl/peers/perftest/perftest_wire.h"
#include "ctrl/peers/service.h"

namespace understudy {

struct PerftestClientTest {
  ServiceKind kind = ServiceKind::kWriteBw;  ///< kWriteBw, kSendBw or kReadBw
  uint32_t bytes = 65536;                    ///< of one message
  uint64_t iterations = 1000;                ///< messages of one queue pair
  uint32_t queue_pairs = 1;
  uint32_t window = 128;  ///< most messages of a queue pair under way
};

class PerftestClient : public Peer {
 public:
  enum class Channel { kTcp, kInBand };

  /// `self`: the emulated node; its port and kind are the server's. `server` has a family that
  /// `self` has an address of.
  PerftestClient(Service self, const IpAddress& server, const PerftestClientTest& test,
                 Channel channel = Channel::kTcp);
  void on_connected(Time now) override;
  void on_bytes(Time now, std::span<const uint8_t> bytes) override;
  void on_endpoint(Time now, const EndpointReady& ready) override;
  void on_traffic(Time now, const TrafficResult& result) override;
  void on_closed(Time now) override;
  /// The queue pair of request `index` is connected to the server.
  void adopt(size_t index, const EndpointReady& ready);

 private:
  /// One exchange or deed; the handshake is a list of them.
  struct Step {
    enum class Kind { kVersion, kNumber, kMtu, kSync, kKey, kConnect, kTest, kReport, kDone };
    Kind kind;
    uint32_t number = 0;  ///< kNumber: what we say; kKey: whose; kReport: which field
  };
  struct QueuePair {
    EndpointReady ours;
    PerftestKey theirs;
  };

  void plan();
  /// Does the steps that are due until one waits for an answer.
  void advance();
  void say(const Step& step);
  size_t answer_size(const Step& step) const;
  /// False if the answer ended the connection.
  bool hear(const Step& step, std::span<const uint8_t> answer);
  void connect();
  void next_step();
  void start();
  uint64_t report_field(uint32_t field) const;
  void give_up(const std::string& reason);

  Service self_;
  IpAddress server_;
  IpAddress local_;
  PerftestClientTest test_;
  bool in_band_;
  std::vector<Step> steps_;
  size_t step_ = 0;
  bool said_ = false;  ///< the current step's message is out
  std::vector<uint8_t> input_;
  std::vector<QueuePair> queue_pairs_;
  size_t ready_ = 0;  ///< queue pairs reserved, then connected; in band: connected
  size_t ended_ = 0;  ///< whose traffic is over
  Time first_, last_;
  uint32_t mtu_ = 0;
};

}  // namespace understudy
