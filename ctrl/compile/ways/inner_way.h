// How messages between a job's emulated ranks get their times: of its plan, or packet by packet.
#pragma once

#include "ctrl/config/config.h"

namespace understudy {

/// What speaks for the one or the other.
struct InnerNeed {
  /// The plan's times are those of packets: in each of its operations each NIC sends by one
  /// connection at most, and receives by one, where emulated ranks speak with each other, and
  /// behind NICs are neither links between switches nor [[traffic]], and no NIC has acknowledgements
  /// behind data; or packets take no time on links. Of an operation with a root its first ranks are
  /// done before the others have begun, and what the next one sends meets it on NICs: no plan knows
  /// that.
  bool plan_holds = true;
  uint64_t connections = 0;  ///< between emulated ranks; of pairs of ranks an estimate
};

/// Of a job with schedules; without, whoever builds it says why.
InnerNeed inner_need(const Config& config, const JobConfig& job);

/// A feed tells the first ranks of a chain of an operation when they should have been in it for long:
/// its messages take the plan's times unless the job asks for packets.
bool is_fed_chain(const JobConfig& job);

/// Messages of the job may go packet by packet: its operations are known when they begin, and there
/// is a network of packets, or can be.
bool may_go_by_packets(const Config& config, const JobConfig& job);

/// They do where the configuration leaves it open and nothing else asks for a network.
bool goes_by_packets(const Config& config, const JobConfig& job);

}  // namespace understudy
