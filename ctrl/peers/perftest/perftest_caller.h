// The client of perftest's programs with -R (perftest_client.h): a first connection carries the
// messages of its side channel, and one more is made for each queue pair under test.
#pragma once

#include "ctrl/peers/cm_caller.h"
#include "ctrl/peers/perftest/perftest_client.h"

namespace understudy {

class PerftestCaller : public CmCaller {
 public:
  /// As PerftestClient's.
  PerftestCaller(const Service& self, const IpAddress& server, const PerftestClientTest& test);
  std::vector<uint8_t> on_endpoint(Time now, Id id, const EndpointReady& ready) override;
  void on_established(Time now, Id id) override;
  void on_message(Time now, Id id, std::span<const uint8_t> bytes) override;
  void on_traffic(Time now, const TrafficResult& result) override;
  std::string on_closed(Time now, Id id) override;

 private:
  static constexpr Id kChannel = 0;  ///< those under test follow it

  void collect();

  PerftestClient client_;
  uint8_t reads_;                     ///< most under way, of each queue pair under test
  std::vector<EndpointReady> ready_;  ///< of each of them, once dialled
};

}  // namespace understudy
