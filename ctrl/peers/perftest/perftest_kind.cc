#include "ctrl/peers/perftest/perftest_kind.h"

#include <string>

namespace understudy {
namespace {

bool is_send(ServiceKind kind) {
  return kind == ServiceKind::kSendBw || kind == ServiceKind::kSendLat;
}

bool asks_for_reads(ServiceKind kind) {
  return kind == ServiceKind::kReadBw || kind == ServiceKind::kReadLat ||
         kind == ServiceKind::kAtomicBw || kind == ServiceKind::kAtomicLat;
}

Result<ServiceKind> stated_kind(const PerftestTest& test) {
  switch (test.verb) {
    case PerftestVerb::kSend:
    case PerftestVerb::kSendImm:
      return test.latency ? ServiceKind::kSendLat : ServiceKind::kSendBw;
    case PerftestVerb::kWrite:
      return test.latency ? ServiceKind::kWriteLat : ServiceKind::kWriteBw;
    case PerftestVerb::kWriteImm:
      if (test.latency) return fail("ib_write_lat with immediate data is not served");
      return ServiceKind::kWriteBw;
    case PerftestVerb::kRead:
      return test.latency ? ServiceKind::kReadLat : ServiceKind::kReadBw;
    case PerftestVerb::kAtomic:
      return test.latency ? ServiceKind::kAtomicLat : ServiceKind::kAtomicBw;
  }
  return fail("an unknown test");
}

}  // namespace

Result<ServiceKind> perftest_kind(const Service& service, const PerftestTest& test) {
  const std::string label = service_label(service) + ": ";
  if (test.connection_type > PerftestTest::kUnreliable) {
    return fail(label + "the client's connection is neither RC nor UC (-c)");
  }
  const bool uc = test.connection_type == PerftestTest::kUnreliable;
  if (service.unreliable && !uc) {
    return fail(label + "the client's connection is RC (-c), but connection = \"uc\" for node " +
                service.node);
  }
  if (test.validates) return fail(label + "the client's --data_validation is not served");
  const auto kind = stated_kind(test);
  if (!kind) return fail(label + kind.error().text);
  if (service.kind != ServiceKind::kAuto && service.kind != *kind) {
    const std::string name(service_kind_name(*kind));
    return fail(label + "the client runs ib_" + name + "; set kind = \"" + name +
                "\" or \"auto\" for node " + service.node);
  }
  return *kind;
}

Result<Behaviour> perftest_behaviour(const Service& service, ServiceKind kind,
                                     const PerftestKey& key) {
  const bool no_remote_access = key.rkey == 0;
  if (kind != ServiceKind::kAuto && !is_send(kind) && no_remote_access) {
    return fail(service_label(service) +
                ": the client's memory key is 0, so it runs a SEND test; set kind = \"send_bw\" "
                "or \"send_lat\" for node " +
                service.node);
  }
  if (key.out_reads > 1 && kind != ServiceKind::kAuto && !asks_for_reads(kind)) {
    return fail(service_label(service) +
                ": the client asks for several READs at a time, so it runs a READ or ATOMIC test; "
                "set kind = \"read_bw\", \"read_lat\", \"atomic_bw\" or \"atomic_lat\" for node " +
                service.node);
  }
  switch (kind) {
    case ServiceKind::kSendBw:
      return Behaviour::kReceiveSink;
    case ServiceKind::kSendLat:
      return Behaviour::kSendEcho;
    case ServiceKind::kWriteLat:
      return Behaviour::kWriteEcho;
    case ServiceKind::kAuto:
      return no_remote_access ? Behaviour::kReceiveSink : Behaviour::kMemoryTarget;
    default:
      break;  // clients that reach into the memory; ServicePeer has seen to those of other programs
  }
  return Behaviour::kMemoryTarget;
}

std::string_view perftest_programs(unsigned key_messages, size_t queue_pairs) {
  if (key_messages == 2 * queue_pairs + 1) return "ib_write_bw, ib_read_bw, ib_atomic_bw";
  return "ib_send_bw, ib_send_lat, ib_write_lat, ib_read_lat, ib_atomic_lat";
}

}  // namespace understudy
