// [queues] and [flows] as plain values: what switches do with packets, and how flows are cut into
// packets.
#pragma once

#include "dataplane/fabric/flow.h"
#include "dataplane/fabric/queue_settings.h"

namespace understudy {

struct QueuesConfig {
  NetworkSettings network;  ///< its classes hold every priority once
  FlowSettings flows;
};

}  // namespace understudy
