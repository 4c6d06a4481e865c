// Questions to a real node's communication manager: a REQ for a service that nobody has. Whatever
// it answers, RoCE passes both ways between the two addresses.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "ctrl/shards/shard_control.h"
#include "dataplane/cm/agent.h"

namespace understudy {

/// Most that an answer is waited for; then the REQ is taken back.
inline constexpr Duration kCmProbePatience = Duration::s(1);
/// Outside the port spaces of the RDMA IP CM service (IB_CMA_SERVICE_ID in Linux's ib_cm.h): there
/// a program may listen that would take us for a client of its. Nor has it the first byte 2, of ids
/// that the kernel draws (IB_CM_ASSIGN_SERVICE_ID), and as an EUI-64 it is a group's: ib_srpt
/// listens at the GUID of its adapter.
inline constexpr uint64_t kNobodysService = 0xff00'0000'0000'0000 | 4791;

class CmProbes {
 public:
  /// Both outlive this.
  CmProbes(CmAgent& agent, ShardControl& control) : agent_(agent), control_(control) {}

  /// Asks `remote` once, from an emulated node's address, as soon as its MAC is known. `answered`
  /// runs if an answer comes in time.
  void ask(const IpAddress& local, const IpAddress& remote, std::function<void()> answered);
  /// Sends what can be sent, and takes back what was not answered.
  void poll(Time now);
  /// Of the agent; false if it is of none of these.
  bool on_event(Time now, const CmEvent& event);
  /// Takes all back, and asks no more.
  void stop(Time now);

 private:
  struct Probe {
    CmEnds ends;
    std::function<void()> answered;
    Qpn qpn = 0;  ///< it names a queue pair that is never made
    Time until;
  };
  void take_back(Time now, CmId id, Probe& probe);

  CmAgent& agent_;
  ShardControl& control_;
  std::vector<Probe> reachable_;  ///< to be sent
  std::map<CmId, Probe> asked_;   ///< until the agent has forgotten them
  bool stopped_ = false;
};

}  // namespace understudy
