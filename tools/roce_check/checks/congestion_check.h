// Congestion marks and notifications (rules A6.1 to A6.5).
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "ctrl/config/config.h"
#include "tools/roce_check/findings/findings.h"
#include "tools/roce_check/findings/stream_results.h"
#include "tools/roce_check/packets/node_addresses.h"
#include "tools/roce_check/packets/packet_table.h"

namespace understudy {

struct CongestionOptions {
  /// Between CNPs to one queue pair as they leave their sender, as the receivers were configured;
  /// without one the intervals are measured only.
  std::optional<Duration> least_interval = {};
  /// Receivers that are known to send no CNPs, whatever is marked: nobody answers there (A6.2).
  std::vector<IpAddress> silent = {};
  /// If it is not null: CNPs of a node that is emulated have crossed its network, where some wait
  /// behind data: of these no more may have come than leave in the time since the first packet that
  /// they can answer. And a real node of kind "kernel" is silent: Linux' rdma_rxe knows no marks.
  const Config* config = nullptr;
};

/// Follows marks and CNPs through a capture, part by part.
class CongestionCheck {
 public:
  CongestionCheck(const PacketTable& table, const CongestionOptions& options, Findings& findings);
  /// The newest part of the capture is in the table.
  void add();
  /// The capture is over.
  void finish();

 private:
  /// What went from one address to another.
  struct Way {
    uint64_t marked = 0;     ///< packets
    bool read_data = false;  ///< among them READ responses
    Stamp first_marked;
    Time first = Time::never();  ///< packet
    uint64_t notified = 0;       ///< CNPs that came back
    std::vector<Qpn> queue_pairs;
  };
  using Addresses = std::pair<IpAddress, IpAddress>;
  struct OfFlow {
    Way* way = nullptr;
    bool incapable = false;
    Stamp marked;  ///< the first one
  };
  /// Congestion notifications to one queue pair.
  struct Told {
    Time last;
    uint64_t cnps = 0;
    std::vector<Stamp> first;
  };
  using Key = std::tuple<IpAddress, IpAddress, Qpn>;

  void marks(const PacketRecord& p);
  void notification(const CnpRecord& cnp);
  void interval(const CnpRecord& cnp, const Told& told, Duration interval);
  void receivers();
  void answers(const Addresses& addresses, const Way& way);
  void note_intervals();
  bool crossed_network(const IpAddress& sender) const;
  bool silent(const IpAddress& receiver) const;

  const PacketTable& table_;
  const CongestionOptions options_;
  const std::optional<Duration> least_;
  Findings& findings_;
  std::optional<NodeAddresses> addresses_;
  std::map<Addresses, Way> ways_;
  std::vector<OfFlow> flows_;
  std::map<Key, Told> told_;
  DurationSamples intervals_;
};

/// All of a capture that is in the table as a whole.
void check_congestion(const PacketTable& table, const CongestionOptions& options,
                      Findings& findings);

}  // namespace understudy
