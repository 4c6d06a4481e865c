#include "tools/rigs/ring_node/base/message_link.h"

#include <cstring>

namespace understudy {
namespace {

template <typename T>
void put(std::byte* out, T value) {
  std::memcpy(out, &value, sizeof value);
}
template <typename T>
void get(const std::byte* in, T& value) {
  std::memcpy(&value, in, sizeof value);
}

}  // namespace

void CreditForm::write(const CreditEntry& credit, std::byte* out) const {
  std::memset(out, 0, kBytes);
  put(out, credit.address);
  put(out + 8, credit.size);
  std::memcpy(out + kRkeysAt, credit.rkeys, devices_ * sizeof *credit.rkeys);
  put(out + nreqs_at(), credit.nreqs);
  put(out + nreqs_at() + 4, credit.tag);
  put(out + idx_at(), credit.idx);
}

CreditEntry CreditForm::read(const std::byte* in) const {
  CreditEntry credit{};
  get(in, credit.address);
  get(in + 8, credit.size);
  std::memcpy(credit.rkeys, in + kRkeysAt, devices_ * sizeof *credit.rkeys);
  get(in + nreqs_at(), credit.nreqs);
  get(in + nreqs_at() + 4, credit.tag);
  get(in + idx_at(), credit.idx);
  return credit;
}

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
