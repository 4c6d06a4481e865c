// What comes to QP1, and whether it is for this process.
#include "tools/soft_nic/connections.h"

namespace understudy::soft_nic {

namespace {

/// Where MADs say what they are (rule A9.1).
constexpr size_t kAttributeAt = 16;

CmAttribute attribute_of(std::span<const uint8_t> mad) {
  if (mad.size() < kAttributeAt + 2) return {};
  return static_cast<CmAttribute>(mad[kAttributeAt] << 8 | mad[kAttributeAt + 1]);
}

}  // namespace

void Connections::on_datagram(Time now, const IpAddress& from, std::span<const uint8_t> bytes) {
  const CmAttribute attribute = attribute_of(bytes);
  const bool lookup = attribute == CmAttribute::kSidrReq || attribute == CmAttribute::kSidrRep;
  // Requests are heard by every process on this address; who listens for none leaves them to
  // others.
  if (listeners_.empty() && (attribute == CmAttribute::kReq || attribute == CmAttribute::kSidrReq))
    return;
  const CmEnds ends{nic_.interface().address, from};
  if (lookup) {
    lookups_.on_mad(now, ends, bytes);
  } else {
    agent_.on_mad(now, ends, bytes);
  }
  drain();
}

void Connections::on_time(Time now) {
  agent_.on_time(now);
  lookups_.on_time(now);
  drain();
}

}  // namespace understudy::soft_nic
