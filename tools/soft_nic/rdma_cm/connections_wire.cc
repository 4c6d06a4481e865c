// What comes to QP1, and whether it is for this process: all that use RDMA-CM on this address hear
// all of it. Services and communication ids are of the process that has claimed them; one process
// answers what is nobody's, as a kernel would.

#include <algorithm>

#include "tools/soft_nic/rdma_cm/connections.h"

namespace understudy::soft_nic {

namespace {

constexpr uint32_t kIdsMask = 0xffff;  ///< ids of one process
constexpr int kDraws = 64;
constexpr Duration kAskAgain = Duration::ms(100);
/// A request may come a little before its service: a kernel would refuse it, but its clients are
/// slower (perftest -R takes it that a server listens anew while it makes a queue pair).
constexpr Duration kGrace = Duration::ms(500);
constexpr size_t kMostEarly = 256;

// Where MADs have what (rules A9.1 and A9.2).
constexpr size_t kAttributeAt = 16, kBodyAt = 24;
constexpr size_t kRequestIdAt = kBodyAt, kRemoteIdAt = kBodyAt + 4, kServiceAt = kBodyAt + 8;

uint64_t number_at(std::span<const uint8_t> mad, size_t at, size_t bytes) {
  uint64_t number = 0;
  for (const uint8_t byte : mad.subspan(at, bytes)) number = number << 8 | byte;
  return number;
}

CmAttribute attribute_of(std::span<const uint8_t> mad) {
  return static_cast<CmAttribute>(number_at(mad, kAttributeAt, 2));
}

}  // namespace

std::string Connections::name(const char* kind, uint64_t number) const {
  return nic_.interface().address.text() + "/" + kind + "/" + std::to_string(number);
}

CmIdRange Connections::claim_ids() {
  CmIdRange ids{0, kIdsMask};
  for (int i = 0; i < kDraws && !ids_claim_; ++i) {
    ids.first = draw_psn().value() << 16;
    ids_claim_ = Claim::take(name("ids", ids.first));
  }
  return ids;
}

bool Connections::is_taken(uint64_t service) const {
  return Claim::is_taken(name("service", service));
}

void Connections::disown() {
  ids_claim_.reset();
  nobody_claim_.reset();
  service_claims_.clear();
}

bool Connections::answers_for_nobody(Time now) {
  if (!nobody_claim_ && now >= asks_again_) {
    nobody_claim_ = Claim::take(name("nobody", 0));
    asks_again_ = now + kAskAgain;
  }
  return nobody_claim_.has_value();
}

/// Whether this process has to answer though nobody has claimed it. Where a port gives nothing
/// back, others hear nothing of what comes from our own address.
bool Connections::is_nobodys(Time now, const IpAddress& from, const std::string& claimed) {
  if (nic_.is_within(from, kGsiQpn)) return true;
  return answers_for_nobody(now) && !Claim::is_taken(claimed);
}

void Connections::deliver(Time now, const IpAddress& from, std::span<const uint8_t> mad) {
  const CmAttribute attribute = attribute_of(mad);
  const CmEnds ends{nic_.interface().address, from};
  if (attribute == CmAttribute::kSidrReq || attribute == CmAttribute::kSidrRep) {
    lookups_.on_mad(now, ends, mad);
  } else {
    agent_.on_mad(now, ends, mad);
  }
}

void Connections::take_request(Time now, const IpAddress& from, std::span<const uint8_t> mad) {
  const uint64_t service = number_at(mad, kServiceAt, 8);
  if (listener(service) != nullptr) return deliver(now, from, mad);
  if (early_.size() == kMostEarly || is_taken(service)) return;
  Early& early = early_.emplace_back(Early{now + kGrace, from, service, {}});
  std::copy(mad.begin(), mad.end(), early.mad.begin());
}

void Connections::deliver_early(Time now, uint64_t service) {
  for (size_t i = 0; i < early_.size();) {
    if (early_[i].service != service) {
      ++i;
      continue;
    }
    deliver(now, early_[i].from, early_[i].mad);
    early_.erase(early_.begin() + static_cast<ptrdiff_t>(i));
  }
}

void Connections::on_datagram(Time now, const IpAddress& from, std::span<const uint8_t> bytes) {
  if (bytes.size() != kMadBytes) return;
  const CmAttribute attribute = attribute_of(bytes);
  if (attribute == CmAttribute::kReq || attribute == CmAttribute::kSidrReq) {
    take_request(now, from, bytes);
  } else {
    const size_t at = attribute == CmAttribute::kSidrRep ? kRequestIdAt : kRemoteIdAt;
    const auto id = static_cast<CmId>(number_at(bytes, at, 4));
    // A peer that never heard an id of ours names none.
    if (id == 0 || ids_.contains(id) || is_nobodys(now, from, name("ids", id & ~kIdsMask))) {
      deliver(now, from, bytes);
    }
  }
  drain();
}

Time Connections::deadline() const {
  const Time first = std::min(agent_.deadline(), lookups_.deadline());
  return early_.empty() ? first : std::min(first, early_.front().until);
}

void Connections::on_time(Time now) {
  agent_.on_time(now);
  lookups_.on_time(now);
  for (; !early_.empty() && early_.front().until <= now; early_.pop_front()) {
    const Early& early = early_.front();
    if (is_nobodys(now, early.from, name("service", early.service))) {
      deliver(now, early.from, early.mad);  // refuses it
    }
  }
  drain();
}

}  // namespace understudy::soft_nic
