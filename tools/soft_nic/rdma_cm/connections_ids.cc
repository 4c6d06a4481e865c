// What ids have whatever they connect: channels, events, and an end.
#include <cerrno>
#include <memory>
#include <new>

#include "tools/soft_nic/rdma_cm/connections.h"

namespace understudy::soft_nic {

int Connections::make(rdma_event_channel* channel, rdma_port_space space, Id*& out) {
  if (space != RDMA_PS_TCP && space != RDMA_PS_UDP) return EOPNOTSUPP;
  std::unique_ptr<Id> id(new (std::nothrow) Id(*this));
  if (id == nullptr) return ENOMEM;
  id->ibv.channel = channel;
  id->ibv.ps = space;
  id->ibv.qp_type = space == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
  if (channel == nullptr) {
    if (const int failed = migrate(*id, nullptr)) return failed;
  }
  out = id.release();
  return 0;
}

void Connections::release(Id& id) {
  if (id.lookup != 0) {
    by_lookup_.erase(id.lookup);
    lookups_.forget(nic_.now(), id.lookup);
  }
  if (id.connection == 0) return;
  by_connection_.erase(id.connection);
  if (!agent_.disconnect(nic_.now(), id.connection)) {
    agent_.reject(nic_.now(), id.connection, RejReason::kConsumer);
  }
}

/// A request that no program took, with what happened to it since.
void Connections::drop(Id* untaken) {
  release(*untaken);
  EventChannel::of(untaken->ibv.channel).events.forget([&](ConnectionEvent* event) {
    if (event->waiter != untaken) return false;
    delete event;
    return true;
  });
  delete untaken;
}

void Connections::forget(Id& id) {
  std::unique_lock lock(nic_.mutex());
  if (std::erase(listeners_, &id) != 0) {
    give_service_back(id);
    for (const IpAddress& local : id.bound) {
      agent_.ignore(local, id.service);
      lookups_.ignore(local, id.service);
    }
  }
  release(id);
  std::vector<Id*> untaken;
  EventChannel::of(id.ibv.channel).events.forget([&](ConnectionEvent* event) {
    if (event->waiter != &id) return false;
    --id.unacknowledged;
    if (event->id != &id) untaken.push_back(event->id);
    delete event;
    return true;
  });
  for (Id* child : untaken) drop(child);
  answer(true);
  acknowledged_.wait(lock, [&] { return id.unacknowledged == 0; });
}

int Connections::migrate(Id& id, EventChannel* to) {
  std::unique_ptr<EventChannel> own;
  if (to == nullptr) {
    own = std::make_unique<EventChannel>();
    if (!own->is_open()) return EMFILE;
    to = own.get();
  }
  const std::lock_guard lock(nic_.mutex());
  std::vector<ConnectionEvent*> moved;
  if (id.ibv.channel != nullptr) {
    EventChannel::of(id.ibv.channel).events.forget([&](ConnectionEvent* event) {
      if (event->waiter != &id) return false;
      moved.push_back(event);
      return true;
    });
  }
  id.ibv.channel = &to->ibv;
  for (ConnectionEvent* event : moved) to->events.push(event);
  id.own_channel.swap(own);
  return 0;
}

void Connections::acknowledge(ConnectionEvent& event) {
  {
    const std::lock_guard lock(nic_.mutex());
    --event.waiter->unacknowledged;
    acknowledged_.notify_all();
  }
  delete &event;
}

ConnectionEvent& Connections::make_event(Id& id, rdma_cm_event_type type, int status) {
  auto* event = new ConnectionEvent;
  event->id = event->waiter = &id;
  event->ibv.id = &id.ibv;
  event->ibv.event = type;
  event->ibv.status = status;
  return *event;
}

void Connections::push(ConnectionEvent& event) {
  if (!event.private_data.empty()) {
    // In one place, whichever of the two it is.
    event.ibv.param.conn.private_data = event.private_data.data();
    event.ibv.param.conn.private_data_len = static_cast<uint8_t>(event.private_data.size());
  }
  ++event.waiter->unacknowledged;
  EventChannel::of(event.waiter->ibv.channel).events.push(&event);
}

void Connections::raise(Id& id, rdma_cm_event_type type, int status) {
  const std::lock_guard lock(nic_.mutex());
  push(make_event(id, type, status));
}

}  // namespace understudy::soft_nic
