// Who starts flows as others come in, until its work is done: the ranks of jobs.
#pragma once

#include <cstdint>
#include <string>

#include "dataplane/flows/flow_carrier.h"

namespace understudy {

class FlowJob : public FlowListener {
 public:
  /// Before the carrier starts; its flows are there, with a path each. Wake-ups of the listener are
  /// numbered from `first_wake` on; gives the first free one.
  virtual uint32_t attach(FlowCarrier& carrier, uint32_t first_wake) = 0;
  /// Behind that: what waits for nothing begins.
  virtual void start() = 0;
  virtual bool finished() const = 0;
  /// Of its work, where it can be told; else below 0.
  virtual double share_done() const { return -1; }
  /// Of one that is not finished though nothing happens any more: what it waits for, if it can say.
  virtual std::string why_unfinished() const { return {}; }
};

}  // namespace understudy
