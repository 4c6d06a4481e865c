#include "ctrl/peers/cm_caller.h"

namespace understudy {
namespace {

std::string_view reason_of(const TrafficResult& result) {
  if (result.wrong) return "what the server sent is not what was due";
  switch (result.status) {
    case WorkStatus::kSuccess:
      return "success";
    case WorkStatus::kRetryExceeded:
      return "the server does not answer (retries exceeded)";
    case WorkStatus::kRnrRetryExceeded:
      return "the server has no receive buffers (RNR retries exceeded)";
    case WorkStatus::kRemoteInvalidRequest:
      return "the server says: invalid request";
    case WorkStatus::kRemoteAccess:
      return "the server says: remote access error";
    case WorkStatus::kRemoteOperational:
      return "the server says: remote operational error";
    case WorkStatus::kFlushed:
      return "flushed";
  }
  return "?";
}

}  // namespace

std::string client_label(const Service& self, const IpAddress& server) {
  return "client of " + server.text() + ":" + std::to_string(self.port) + " (" +
         std::string(service_kind_name(self.kind)) + ") on node " + self.node;
}

std::string traffic_failure(const TrafficResult& result, uint64_t messages) {
  return "queue pair " + std::to_string(result.qpn) + " failed after " +
         std::to_string(result.completed) + " of " + std::to_string(messages) +
         " messages: " + std::string(reason_of(result));
}

}  // namespace understudy
