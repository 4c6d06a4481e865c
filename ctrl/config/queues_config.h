// [queues] and [flows] as plain values: what switches do with packets, and how flows are cut into
// packets.
#pragma once

#include "dataplane/fabric/flow.h"
#include "dataplane/fabric/queue_settings.h"

namespace understudy {

struct QueuesConfig {
  NetworkSettings network;  ///< its classes hold every priority once
  FlowSettings flows;
  bool given = false;  ///< there is a [queues] table
};

}  // namespace understudy
