// The second half of the self-test: does RoCE pass both ways between the real node and the emulated
// ones? A communication manager's answer tells, asked from some emulated addresses, or, where the
// real node has none, the first acknowledgement that a queue pair of ours gets.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ctrl/jobs/nccl/reach_test.h"

namespace understudy {

/// What to look for when packets of queue pairs are not answered.
inline constexpr char kRoceAdvice[] =
    "TCP between the same addresses works, so look for what treats UDP port 4791 in another way: a "
    "firewall, the NIC's RoCE mode, PFC or VLAN settings";

class RoceTest {
 public:
  /// Of a port's queue pairs, since the start.
  struct Counts {
    uint64_t received = 0;      ///< requests that came and were acknowledged
    uint64_t acknowledged = 0;  ///< packets that acknowledged ours
    uint64_t timeouts = 0;      ///< of ours
  };
  /// Both may answer later, as long as this lives.
  struct Seams {
    /// Asks once, for a second, whether a communication manager answers from `remote` to `local`;
    /// empty: there is none on our side.
    std::function<void(const IpAddress& local, const IpAddress& remote,
                       std::function<void()> answered)>
        probe;
    /// What the port to `remote` has counted.
    std::function<void(const IpAddress& remote, std::function<void(const Counts&)> then)> count;
  };
  /// As ReachTest's. Of many sources, kMost are asked from.
  RoceTest(std::string name, IpAddress target, const std::vector<ReachTest::Source>& sources,
           Seams seams);
  RoceTest(const RoceTest&) = delete;

  /// `reached`: TCP is answered, probes make sense. `connected`: queue pairs of ours stand.
  /// `carried`: an operation of the job is over, for which these were acknowledged.
  /// A line when there is news: each failure once, and at last the success.
  std::optional<std::string> poll(Time now, bool reached, bool connected, bool carried);
  bool passed() const { return passed_; }
  /// A line for `understudy status`.
  std::string status() const;

  static constexpr size_t kMost = 16;
  /// Without any answer, until that is said.
  static constexpr Duration kPatience = Duration::s(3);

 private:
  struct Port {
    IpAddress real;
    Counts counts;
  };
  size_t answered() const;
  std::string real() const { return name_ + " (" + target_.text() + ")"; }
  /// "w1 (10.9.0.3)": the first that has no answer.
  std::string first_silent() const;
  void probe(Time now);
  void count(Time now);
  std::string pass(std::string how);
  std::optional<std::string> complain_of_probes(Time now);
  std::optional<std::string> complain_of_packets(Time now);

  const std::string name_;
  const IpAddress target_;
  const std::vector<ReachTest::Source> sources_;
  const size_t all_;
  const Seams seams_;
  std::vector<bool> answered_;              ///< by source
  std::vector<Port> ports_;                 ///< that sources lead to, with connections
  std::optional<Time> probed_, connected_;  ///< since when
  Time next_probe_, next_count_;
  bool told_of_probes_ = false, told_of_packets_ = false, passed_ = false;
  std::string passed_text_;
};

}  // namespace understudy
