// The client side of perftest (ib_write_bw, ib_send_bw, ib_read_bw) over its TCP side channel, as
// version 4.5's: an emulated node tests against an unmodified server. The messages are those of
// perftest_wire.h; the server's -n, -s and -q have to be ours.
#pragma once

#include <span>
#include <vector>

#include "ctrl/peers/peer.h"
#include "ctrl/peers/perftest_wire.h"
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
  /// `self`: the emulated node; its port and kind are the server's. `server` has a family that
  /// `self` has an address of.
  PerftestClient(Service self, const IpAddress& server, const PerftestClientTest& test);
  void on_connected(Time now) override;
  void on_bytes(Time now, std::span<const uint8_t> bytes) override;
  void on_endpoint(Time now, const EndpointReady& ready) override;
  void on_traffic(Time now, const TrafficResult& result) override;
  void on_closed(Time now) override;

 private:
  /// One exchange or deed; the handshake is a list of them.
  struct Step {
    enum class Kind { kVersion, kNumber, kMtu, kKey, kConnect, kTest, kReport, kDone };
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
  static size_t answer_size(const Step& step);
  /// False if the answer ended the connection.
  bool hear(const Step& step, std::span<const uint8_t> answer);
  void connect();
  void start();
  uint64_t report_field(uint32_t field) const;
  void give_up(const std::string& reason);

  Service self_;
  IpAddress server_;
  IpAddress local_;
  PerftestClientTest test_;
  std::vector<Step> steps_;
  size_t step_ = 0;
  bool said_ = false;  ///< the current step's message is out
  std::vector<uint8_t> input_;
  std::vector<QueuePair> queue_pairs_;
  size_t ready_ = 0;  ///< queue pairs reserved, then connected
  size_t ended_ = 0;  ///< whose traffic is over
  Time first_, last_;
  uint32_t mtu_ = 0;
};

}  // namespace understudy
