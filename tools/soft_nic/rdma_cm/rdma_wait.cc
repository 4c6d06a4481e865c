#include "tools/soft_nic/rdma_cm/rdma_wait.h"

#include <cerrno>

namespace understudy::soft_nic {

namespace {

/// What the event says went wrong; 0: nothing.
int error_of(const rdma_cm_event& event) {
  if (event.status == 0) return 0;
  // Reasons and states of the other side, no errnos.
  const bool refused = event.event == RDMA_CM_EVENT_REJECTED || event.status > 0;
  return refused ? ECONNREFUSED : -event.status;
}

}  // namespace

void give_back_event(Id& id) {
  if (id.ibv.event == nullptr) return;
  rdma_ack_cm_event(id.ibv.event);
  id.ibv.event = nullptr;
}

int wait_for_event(Id& id) {
  if (!id.waits()) return 0;
  give_back_event(id);
  if (rdma_get_cm_event(id.ibv.channel, &id.ibv.event) != 0) return -1;
  errno = error_of(*id.ibv.event);
  return errno == 0 ? 0 : -1;
}

}  // namespace understudy::soft_nic
