// Services of datagrams: who wants to send to one asks for its queue pair and Q_Key by a SIDR_REQ
// and gets a SIDR_REP (rule A9.13); there is no connection. Both sides of it, as the agent is one:
// MADs, times and a consumer's wishes go in; MADs and events come out.
//
// Passive: kAsked -> answer(). Active: ask() -> kAnswered or kFailed.
#pragma once

#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dataplane/cm/agent.h"

namespace understudy {

struct CmLookupsConfig {
  uint64_t seed = 1;            ///< of request and transaction ids
  CmIdRange ids;                ///< of request ids
  uint32_t max_lookups = 4096;  ///< at a time, of both sides; more are refused
  /// Until a SIDR_REQ goes again. No field tells the peer of it: Linux waits as long.
  Duration wait = cm_time(20);
  uint8_t retries = 15;
  /// Most that a consumer may take to answer; also Linux's 16 questions.
  Duration longest_wait = Duration::s(120);
};

enum class CmLookupEventKind : uint8_t {
  kAsked,     ///< `request` is the SIDR_REQ: answer() it
  kAnswered,  ///< `reply` is the SIDR_REP, good or bad; the id is gone
  kFailed,    ///< no answer came, or the consumer gave none in time; the id is gone
};

struct CmLookupEvent {
  CmLookupEventKind kind = CmLookupEventKind::kFailed;
  CmId id = 0;
  CmEnds ends;
  CmSidrReq request;
  CmSidrRep reply;
};

struct CmLookup {
  CmEnds ends;
  uint64_t service_id = 0;
  std::vector<uint8_t> private_data;  ///< at most 216 bytes, RDMA-CM's header included
};

struct CmLookupAnswer {
  SidrStatus status = SidrStatus::kSuccess;
  Qpn qpn = 0;                        ///< with success only, as is
  uint32_t qkey = 0;                  ///< this
  std::vector<uint8_t> private_data;  ///< at most 136 bytes
};

class CmLookups {
 public:
  explicit CmLookups(const CmLookupsConfig& config) : config_(config) {}

  /// SIDR_REQs for this service id on this address become events; others are refused.
  void listen(const IpAddress& local, uint64_t service_id) {
    listeners_.insert({local, service_id});
  }
  void ignore(const IpAddress& local, uint64_t service_id) {
    listeners_.erase({local, service_id});
  }

  /// SIDR_REQs and SIDR_REPs; whatever else comes is no business of this.
  void on_mad(Time now, const CmEnds& ends, std::span<const uint8_t> bytes);
  void on_time(Time now);
  Time deadline() const { return timers_.empty() ? Time::never() : timers_.begin()->first; }

  /// 0 when there are too many.
  CmId ask(Time now, const CmLookup& lookup);
  /// False where nobody waits for it (any more).
  bool answer(Time now, CmId id, const CmLookupAnswer& answer);
  /// The consumer wants nothing more of it; a peer that asks is refused.
  void forget(Time now, CmId id);

  std::vector<CmSend> take_sends() { return std::exchange(sends_, {}); }
  std::vector<CmLookupEvent> take_events() { return std::exchange(events_, {}); }
  size_t size() const { return lookups_.size(); }

 private:
  enum class State : uint8_t {
    kAsking,
    kAsked,
    kTold,  ///< answered; kept for a peer that did not get the answer and asks again
  };
  struct Lookup {
    State state = State::kAsking;
    CmEnds ends;
    uint64_t tid = 0;
    uint32_t request_id = 0;  ///< the peer's, where it asked
    uint64_t service_id = 0;
    uint8_t retries_left = 0;
    Time deadline = Time::never();
    std::array<uint8_t, kMadBytes> last{};  ///< what goes again
  };
  using PeerKey = std::pair<CmEnds, uint32_t>;

  void on_request(Time now, const CmEnds& ends, uint64_t tid, const CmSidrReq& request);
  void on_reply(const CmEnds& ends, const CmSidrRep& reply);
  void refuse(const CmEnds& ends, uint64_t tid, const CmSidrReq& request, SidrStatus status);
  Lookup& add(CmId id, const CmEnds& ends, uint64_t tid, uint64_t service_id);
  void erase(CmId id);
  void set_timer(CmId id, Lookup& lookup, Time at);
  CmId fresh_id();
  /// A peer that repeats its question does so by then.
  Duration repeats_by() const { return config_.wait * 2; }

  CmLookupsConfig config_;
  std::set<std::pair<IpAddress, uint64_t>> listeners_;
  std::unordered_map<CmId, Lookup> lookups_;
  std::map<PeerKey, CmId> asked_;
  std::set<std::pair<Time, CmId>> timers_;
  uint32_t last_id_ = 0;
  std::vector<CmSend> sends_;
  std::vector<CmLookupEvent> events_;
};

}  // namespace understudy
