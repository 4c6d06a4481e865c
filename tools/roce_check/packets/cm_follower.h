// Follows connection management on QP1 (rules A9): each exchange from its REQ to its DREP, and what
// it says about the connection that it makes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "dataplane/cm/mad.h"
#include "dataplane/wire/parse.h"
#include "tools/roce_check/findings/findings.h"
#include "tools/roce_check/findings/stream_results.h"

namespace understudy {

/// One side of a connection, as the exchange set it up.
struct CmSide {
  IpAddress address;
  Qpn qpn = 0;
  Psn first_psn;
  QpLimits limits;
};

/// A connection that a REQ and a REP have made.
struct CmPair {
  CmSide active, passive;
  uint32_t path_mtu = 0;      ///< bytes; 0 if the REQ's code is none
  uint8_t traffic_class = 0;  ///< of the REQ's path
  uint64_t frame = 0;         ///< of the REP
  uint32_t interface = 0;
};

/// Of one interface: what two real nodes say to each other is seen once on each of theirs.
class CmFollower {
 public:
  /// `impaired`: the network makes copies of messages and changes their order.
  CmFollower(Findings& findings, uint32_t interface, bool impaired)
      : findings_(findings), interface_(interface), impaired_(impaired) {}

  /// A UD packet to QP1.
  void packet(Stamp stamp, const FrameView& view, std::span<const uint8_t> mad);
  /// All packets have been seen, the last one at `end`; unfinished exchanges are a fault unless
  /// `open_end`. A REQ may be answered until its sender's time for that is over.
  void finish(bool open_end, Time end);

  const std::vector<CmPair>& pairs() const { return pairs_; }

 private:
  /// A datagram, and who sent it to whom.
  struct Datagram {
    Stamp stamp;
    IpAddress src, dst;
    uint64_t transaction = 0;
    std::string name() const { return src.text() + " -> " + dst.text(); }
  };
  /// One attempt to connect, and the connection if it succeeded.
  struct Exchange {
    Datagram req_at;  ///< the newest one of each kind
    CmReq req;
    unsigned reqs = 0;
    Datagram rep_at;
    std::optional<CmRep> rep;
    bool answered = false;  ///< by REP, REJ or MRA
    bool rtu = false, rejected = false;
    Datagram dreq_at;
    bool dreq = false, drep = false;
    bool lap = false, apr = false;
    Stamp lap_at;
  };
  using Key = std::tuple<IpAddress, IpAddress, uint32_t>;  ///< sender of the REQ, receiver, its id

  void message(const Datagram& d, const CmReq& m);
  void message(const Datagram& d, const CmMra& m);
  void message(const Datagram& d, const CmRej& m);
  void message(const Datagram& d, const CmRep& m);
  void message(const Datagram& d, const CmRtu& m);
  void message(const Datagram& d, const CmDreq& m);
  void message(const Datagram& d, const CmDrep& m);
  void message(const Datagram& d, const CmLap& m);
  void message(const Datagram& d, const CmApr& m);
  void message(const Datagram& d, const CmSidrReq& m);
  void message(const Datagram& d, const CmSidrRep& m);

  void check_request(const Datagram& d, const CmReq& m);
  void check_rdma_header(const Datagram& d, const char* what, uint64_t service_id,
                         std::span<const uint8_t> private_data);
  void repeated_request(const Datagram& d, const CmReq& m, Exchange& e);
  void check_stale(const Datagram& d, const Exchange& e);
  void connect(const Datagram& d, const Exchange& e);
  void close(Exchange& e, bool open_end, Time end);
  /// The exchange of a message that carries both ids; whoever of the two sends it.
  Exchange* find(const Datagram& d, uint32_t local, uint32_t remote);
  void same_transaction(const Datagram& d, const Datagram& before, const char* what);
  void fault(Rule rule, const Datagram& d, const std::string& what) {
    findings_.add(rule, d.stamp, d.name() + " CM: " + what);
  }
  void suspect(Rule rule, const Datagram& d, const std::string& what) {
    findings_.add_if_gapless(rule, d.stamp, d.name() + " CM: " + what);
  }

  Findings& findings_;
  const uint32_t interface_;
  const bool impaired_;
  std::map<Key, Exchange> exchanges_;
  std::map<std::tuple<IpAddress, IpAddress, Qpn>, uint32_t> standing_;  ///< active queue pair to id
  std::map<Key, std::pair<Datagram, CmSidrReq>> sidr_;  ///< requests without an answer
  std::vector<CmPair> pairs_;
};

}  // namespace understudy
