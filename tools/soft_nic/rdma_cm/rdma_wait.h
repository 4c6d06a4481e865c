// Ids without a channel of the program's: their calls wait for their own events, the last of which
// stays with the id.
#pragma once

#include "tools/soft_nic/rdma_cm/connections.h"

namespace understudy::soft_nic {

/// As rdma_*(3) say: 0, or -1 and errno. At once for ids with a channel.
int wait_for_event(Id& id);
void give_back_event(Id& id);

}  // namespace understudy::soft_nic
