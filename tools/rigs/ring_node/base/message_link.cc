#include "tools/rigs/ring_node/base/message_link.h"

namespace understudy {

std::string credit_fault(const CreditEntry& credit, uint32_t sender, uint64_t bytes) {
  if (credit.address == 0 || credit.rkeys[0] == 0) return "no address or rkey";
  if (credit.nreqs != 1) return std::to_string(credit.nreqs) + " requests, not 1";
  if (credit.tag != sender) {
    return "tag " + std::to_string(credit.tag) + " is not our rank " + std::to_string(sender);
  }
  if (credit.size < bytes) {
    return "room for " + std::to_string(credit.size) + " bytes, the message has " +
           std::to_string(bytes);
  }
  return "";
}

}  // namespace understudy
