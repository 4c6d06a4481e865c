// RDMA-CM: event channels, and making and ending connections.
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>

#include "tools/soft_nic/device/exported.h"
#include "tools/soft_nic/rdma_cm/connections.h"
#include "tools/soft_nic/rdma_cm/rdma_result.h"
#include "tools/soft_nic/rdma_cm/rdma_wait.h"

using namespace understudy;
using namespace understudy::soft_nic;

namespace {

/// The peer accepted: the queue pair, where the id has it, and the peer are told.
void finish(ConnectionEvent& event) {
  Id& id = *event.id;
  if (!event.replied || id.ibv.qp == nullptr) return;
  Connections& all = id.home;
  int failed = all.make_ready(id);
  if (failed == 0) failed = all.confirm(id);
  event.ibv.event = failed == 0 ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_ERROR;
  event.ibv.status = -failed;
  if (failed != 0) all.reject(id, {});
}

}  // namespace

SOFT_NIC_EXPORT rdma_event_channel* rdma_create_event_channel() {
  if (the_connections() == nullptr) return nullptr;
  auto* channel = new (std::nothrow) EventChannel;
  if (channel == nullptr || !channel->is_open()) {
    delete channel;
    errno = EMFILE;
    return nullptr;
  }
  return &channel->ibv;
}

/// A program's thread may come back to wait here while another ends the channel, as rping's does.
/// With the kernel's device it waits for ever; so it does as long as the channel is among the last.
SOFT_NIC_EXPORT void rdma_destroy_event_channel(rdma_event_channel* channel) {
  constexpr size_t kKept = 8;
  static std::mutex mutex;
  static auto& ended = *new std::deque<std::unique_ptr<EventChannel>>;  // until after all threads
  const std::lock_guard guard(mutex);
  ended.emplace_back(&EventChannel::of(channel));
  if (ended.size() > kKept) ended.pop_front();
}

SOFT_NIC_EXPORT int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** out) {
  ConnectionEvent* event = nullptr;
  if (!EventChannel::of(channel).events.pop(event)) return -1;
  finish(*event);
  *out = &event->ibv;
  return 0;
}

SOFT_NIC_EXPORT int rdma_ack_cm_event(rdma_cm_event* event) {
  if (event == nullptr) return told(EINVAL);
  auto& mine = *reinterpret_cast<ConnectionEvent*>(event);
  mine.waiter->home.acknowledge(mine);
  return 0;
}

SOFT_NIC_EXPORT int rdma_listen(rdma_cm_id* id, int) {
  if (id->verbs == nullptr && rdma_bind_addr(id, nullptr) != 0) return -1;
  return told(Id::of(id).home.listen(Id::of(id)));
}

// An id with a channel may be destroyed by the thread that takes its next event: what the call has
// still to know of it is asked for before.

SOFT_NIC_EXPORT int rdma_connect(rdma_cm_id* id, rdma_conn_param* wanted) {
  if (id->route.num_paths == 0) return told(EINVAL);
  const rdma_conn_param none{};
  Id& mine = Id::of(id);
  const bool waits = mine.waits();
  if (told(mine.home.connect(mine, wanted != nullptr ? *wanted : none)) != 0) return -1;
  return waits ? wait_for_event(mine) : 0;
}

SOFT_NIC_EXPORT int rdma_accept(rdma_cm_id* id, rdma_conn_param* wanted) {
  Id& mine = Id::of(id);
  rdma_conn_param asked{};  // by the peer
  asked.responder_resources = mine.responder_resources;
  asked.initiator_depth = mine.initiator_depth;
  asked.rnr_retry_count = mine.rnr_retry;
  const bool waits = mine.waits(), datagrams = mine.has_datagrams();
  if (told(mine.home.accept(mine, wanted != nullptr ? *wanted : asked)) != 0) return -1;
  if (!waits) return 0;
  if (!datagrams) return wait_for_event(mine);
  give_back_event(mine);  // nothing comes
  return 0;
}

SOFT_NIC_EXPORT int rdma_establish(rdma_cm_id* id) {
  if (id->qp != nullptr) return told(EINVAL);  // then it has been done
  return told(Id::of(id).home.confirm(Id::of(id)));
}

SOFT_NIC_EXPORT int rdma_reject(rdma_cm_id* id, const void* private_data, uint8_t size) {
  return told(Id::of(id).home.reject(Id::of(id), {static_cast<const uint8_t*>(private_data),
                                                  private_data != nullptr ? size : size_t{0}}));
}

SOFT_NIC_EXPORT int rdma_disconnect(rdma_cm_id* id) {
  Id& mine = Id::of(id);
  const bool waits = mine.waits();
  if (told(mine.home.disconnect(mine)) != 0) return -1;
  return waits ? wait_for_event(mine) : 0;
}

SOFT_NIC_EXPORT const char* rdma_event_str(rdma_cm_event_type event) {
  static constexpr const char* kTexts[] = {
      "RDMA_CM_EVENT_ADDR_RESOLVED",   "RDMA_CM_EVENT_ADDR_ERROR",
      "RDMA_CM_EVENT_ROUTE_RESOLVED",  "RDMA_CM_EVENT_ROUTE_ERROR",
      "RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_RESPONSE",
      "RDMA_CM_EVENT_CONNECT_ERROR",   "RDMA_CM_EVENT_UNREACHABLE",
      "RDMA_CM_EVENT_REJECTED",        "RDMA_CM_EVENT_ESTABLISHED",
      "RDMA_CM_EVENT_DISCONNECTED",    "RDMA_CM_EVENT_DEVICE_REMOVAL",
      "RDMA_CM_EVENT_MULTICAST_JOIN",  "RDMA_CM_EVENT_MULTICAST_ERROR",
      "RDMA_CM_EVENT_ADDR_CHANGE",     "RDMA_CM_EVENT_TIMEWAIT_EXIT"};
  return static_cast<size_t>(event) < std::size(kTexts) ? kTexts[event] : "UNKNOWN EVENT";
}
