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

namespace {

std::string name(const IpAddress& local, const char* kind, uint64_t number) {
  return local.text() + "/" + kind + "/" + std::to_string(number);
}

/// The same name on all addresses, or nothing where one of them is taken.
std::vector<Claim> take_all(const std::vector<IpAddress>& addresses, const char* kind,
                            uint64_t number) {
  std::vector<Claim> out;
  for (const IpAddress& own : addresses) {
    auto claim = Claim::take(name(own, kind, number));
    if (!claim) return {};
    out.push_back(std::move(*claim));
  }
  return out;
}

}  // namespace

CmIdRange Connections::claim_ids() {
  CmIdRange ids{0, kIdsMask};
  std::vector<IpAddress> all;
  for (const IpPrefix& own : nic_.interface().addresses) all.push_back(own.address);
  for (int i = 0; i < kDraws && ids_claims_.empty(); ++i) {
    ids.first = draw_psn().value() << 16;
    ids_claims_ = take_all(all, "ids", ids.first);
  }
  return ids;
}

bool Connections::is_taken(uint64_t service) const {
  return std::ranges::any_of(nic_.interface().addresses, [&](const IpPrefix& own) {
    return Claim::is_taken(name(own.address, "service", service));
  });
}

/// On all of its addresses, or none.
bool Connections::claim_service(const Id& id) {
  auto claims = take_all(id.bound, "service", id.service);
  for (size_t i = 0; i < claims.size(); ++i) {
    service_claims_.emplace(Service{id.bound[i], id.service}, std::move(claims[i]));
  }
  return !claims.empty();
}

void Connections::give_service_back(const Id& id) {
  for (const IpAddress& local : id.bound) service_claims_.erase({local, id.service});
}

void Connections::disown() {
  ids_claims_.clear();
  nobodies_.clear();
  service_claims_.clear();
}

bool Connections::answers_for_nobody(Time now, const IpAddress& local) {
  Nobody& nobody = nobodies_[local];
  if (!nobody.claim && now >= nobody.asks_again) {
    nobody.claim = Claim::take(name(local, "nobody", 0));
    nobody.asks_again = now + kAskAgain;
  }
  return nobody.claim.has_value();
}

/// Whether this process has to answer though nobody has claimed it. Where a port gives nothing
/// back, others hear nothing of what comes from our own address.
bool Connections::is_nobodys(Time now, const CmEnds& ends, const std::string& claimed) {
  if (nic_.is_within(ends.remote, kGsiQpn)) return true;
  return answers_for_nobody(now, ends.local) && !Claim::is_taken(claimed);
}

void Connections::deliver(Time now, const CmEnds& ends, std::span<const uint8_t> mad) {
  const CmAttribute attribute = attribute_of(mad);
  if (attribute == CmAttribute::kSidrReq || attribute == CmAttribute::kSidrRep) {
    lookups_.on_mad(now, ends, mad);
  } else {
    agent_.on_mad(now, ends, mad);
  }
}

void Connections::take_request(Time now, const CmEnds& ends, std::span<const uint8_t> mad) {
  const uint64_t service = number_at(mad, kServiceAt, 8);
  if (listener(ends.local, service) != nullptr) return deliver(now, ends, mad);
  if (early_.size() == kMostEarly) return;
  if (Claim::is_taken(name(ends.local, "service", service))) return;
  Early& early = early_.emplace_back(Early{now + kGrace, ends, service, {}});
  std::copy(mad.begin(), mad.end(), early.mad.begin());
}

void Connections::deliver_early(Time now, const Id& id) {
  for (size_t i = 0; i < early_.size();) {
    const bool at_it = std::ranges::find(id.bound, early_[i].ends.local) != id.bound.end();
    if (early_[i].service != id.service || !at_it) {
      ++i;
      continue;
    }
    deliver(now, early_[i].ends, early_[i].mad);
    early_.erase(early_.begin() + static_cast<ptrdiff_t>(i));
  }
}

void Connections::on_datagram(Time now, const CmEnds& ends, std::span<const uint8_t> bytes) {
  if (bytes.size() != kMadBytes) return;
  const CmAttribute attribute = attribute_of(bytes);
  if (attribute == CmAttribute::kReq || attribute == CmAttribute::kSidrReq) {
    take_request(now, ends, bytes);
  } else {
    const size_t at = attribute == CmAttribute::kSidrRep ? kRequestIdAt : kRemoteIdAt;
    const auto id = static_cast<CmId>(number_at(bytes, at, 4));
    // A peer that never heard an id of ours names none.
    if (id == 0 || ids_.contains(id) ||
        is_nobodys(now, ends, name(ends.local, "ids", id & ~kIdsMask))) {
      deliver(now, ends, bytes);
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
    if (is_nobodys(now, early.ends, name(early.ends.local, "service", early.service))) {
      deliver(now, early.ends, early.mad);  // refuses it
    }
  }
  drain();
}

}  // namespace understudy::soft_nic
