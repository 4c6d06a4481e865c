// The self-test at the start of a job of NCCL's: does the real node answer what comes from each
// emulated node's address? A TCP connection to a port where nobody should listen tells: the refusal
// has passed the port both ways, and the real node's kernel had to resolve the address.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ctrl/peers/peer_network.h"

namespace understudy {

class ReachTest {
 public:
  /// An address of an emulated node, with its name.
  struct Source {
    std::string name;
    IpAddress address;
    std::optional<IpAddress> target = {};  ///< instead of the test's: of another NIC there
    bool carries = true;  ///< connections of the job's emulated ranks go to that NIC
  };
  /// `target`: of the real node `name`. Of many sources, kMost are tried.
  ReachTest(std::string name, IpAddress target, const std::vector<Source>& sources,
            PeerNetwork& network);

  /// A line when there is news: the first failure, and at last the success. Tries again until then.
  std::optional<std::string> poll(Time now);
  /// A connection of the network has ended; false if it is none of ours.
  bool on_ended(const EndedConnection& ended);
  bool passed() const { return passed_; }

  static constexpr size_t kMost = 256;
  /// At most `most` (two or more) of them, evenly chosen.
  static std::vector<Source> some(std::vector<Source> all, size_t most);

 private:
  struct Probe {
    ConnectionId connection = 0;  ///< 0: no longer under way
    bool answered = false;
    std::string error;
  };
  void begin(Time now);
  void end();
  std::optional<std::string> complain();

  const std::string name_;
  const IpAddress target_;
  std::vector<Source> sources_;
  const size_t all_;
  PeerNetwork& network_;
  std::vector<Probe> probes_;  ///< of sources_, of this attempt
  Time until_;                 ///< of this attempt
  bool passed_ = false, complained_ = false;
};

}  // namespace understudy
