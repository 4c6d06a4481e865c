// One job of NCCL's own ranks: finds its communicator, and lets the ranks join it that are played
// here, emulated or on reference nodes. Its connections are NcclLinks' business.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ctrl/compile/collective.h"
#include "ctrl/config/config.h"
#include "ctrl/jobs/job_runner.h"
#include "ctrl/jobs/nccl/mistakes.h"
#include "ctrl/jobs/nccl/nccl_children.h"
#include "ctrl/jobs/nccl/nccl_id.h"
#include "ctrl/jobs/nccl/nccl_links.h"
#include "ctrl/jobs/nccl/self_test.h"
#include "ctrl/peers/nccl/communicator.h"
#include "ctrl/peers/nccl/transport/net_ib_peer.h"
#include "ctrl/peers/peer_network.h"
#include "ctrl/peers/sockets/nccl_sockets.h"
#include "ctrl/peers/sockets/torch_groups.h"

namespace understudy {

class NcclJob final : public NetIbObserver {
 public:
  using Say = std::function<void(const std::string&)>;

  /// All arguments outlive this. `number`: of the configuration's jobs.
  /// `place`: of all jobs that join there.
  NcclJob(const Config& config, size_t number, JobRunner& runner, PeerNetwork& network, Say say,
          const RoceProbe& probe, std::shared_ptr<NcclPlace> place);
  ~NcclJob() override;

  /// What has to stand before a real rank comes: root and store, where they are ours.
  Result<void> open();
  /// Control's turn.
  void poll(Time now);
  /// A connection of the network has ended; false if it is none of this job's.
  bool on_ended(const EndedConnection& ended) {
    return sockets_.on_ended(ended) || groups_.on_ended(ended) || identity_.on_ended(ended) ||
           std::ranges::any_of(self_tests_, [&](SelfTest& test) { return test.on_ended(ended); });
  }
  /// What one of this job's connections wants of the data plane.
  Result<EndpointReady> endpoint(const EndpointRequest& request);

  bool owns(ConnectionId connection) const {
    return sockets_.owns(connection) || groups_.owns(connection);
  }
  bool begun() const { return communicator_ != nullptr; }
  /// The real ranks have left, or it has failed.
  bool over() const { return over_; }
  const std::string& failure() const { return failure_; }
  /// The jobs on children of its communicator.
  const NcclChildren& children() const { return children_; }
  /// For `understudy status`.
  std::vector<std::string> status() const;

  void on_connector_ready(Time now, const NcclConnector& connector) override;
  void on_connector_failed(Time now, const NcclConnector& connector,
                           const std::string& why) override;
  void on_connector_closed(Time now, const NcclConnector& connector) override;

 private:
  // Others, once the plan was made again.
  const CollectiveSetup& setup() const { return runner_.setup(number_); }
  EmulatedRanksBinding& emulated() const { return runner_.emulated(number_); }
  /// As soon as the real ranks have said what their search found, and before their connections
  /// come: the plan has their trees, and may begin.
  void settle();
  /// Looks whose a communicator is that the real ranks have made of ours.
  void find_child(uint32_t communicator);
  /// All that there are.
  std::vector<MadeCommunicator> made() const;
  /// What went over communicators that no job describes, of the former ones too.
  AnsweredReport answered() const;
  void route_feed();
  /// Whose operations a plugin tells under that number of NCCL's.
  FedRoute route_of(uint64_t hash);
  NcclLinks& links_of(const NcclConnector& connector) {
    // Those for one-sided operations are of no operation of a job.
    if (connector.index >= kOneSidedRing) return links_;
    NcclLinks* const child = children_.links(connector.communicator);
    return child == nullptr ? links_ : *child;
  }
  /// More communicators are joined after the present one.
  bool joins_more() const {
    const auto& most = job_.join->communicators;
    return !most || ended_ + 1 < *most;
  }
  NcclSockets::Callbacks callbacks();
  NcclId::Setup identity_setup(std::shared_ptr<NcclPlace> place);
  TorchGroups::Setup groups_setup() const;
  std::vector<RankPartition> partitions() const;
  /// Nothing but the jobs on children says who is in these.
  bool expects_children() const { return job_.groups.empty() && !job_.join->has_store(); }
  std::vector<RendezvousSettings::Rank> ranks() const;
  std::vector<IpAddress> addresses() const;
  /// A rank that is not played here.
  bool is_program(uint32_t rank) const { return runner_.is_program(number_, rank); }
  const NodeConfig& node_of(uint32_t rank) const;
  /// Addresses of the NICs that its NIC is made of.
  std::vector<IpAddress> nics_of(uint32_t rank) const;
  /// Of all NICs of its node.
  std::vector<IpAddress> node_nics(uint32_t rank) const;
  void test(Time now);
  /// A queue pair of its ranks stands.
  bool is_connected(NodeId real) const;
  void take_relayed();
  void complain();
  /// The communicator's unique id has not come.
  void look_for_identity();
  /// Once its unique id is known.
  void begin(Time now);
  void look_at_mtu(uint32_t mtu);
  std::unique_ptr<Peer> net_ib(const NcclConnector& connector, uint64_t magic);
  void disconnect(const NcclConnector& connector);
  void on_connector(const NcclConnector& connector, const std::string& failure);
  /// All of a job's operations are over, or will never be.
  bool is_done(size_t job) const;
  /// Gives back those connections that a real rank has closed, once nothing more can come on them.
  void let_go(bool all);
  /// It cannot go on.
  void end(const std::string& failure);
  /// The present communicator is over, well or not.
  void end_communicator(const std::string& failure);
  void end_meeting(Time now);
  void forget();
  /// Who has left, in the middle of what; empty: nobody, or in good order.
  std::string gone() const;
  std::string who(uint32_t rank) const;
  bool look_for_gone();
  void look_for_further();
  /// A communicator is being made that nobody has joined yet.
  bool further() const { return identity_.has_next() || sockets_.early() > 0; }
  void say(const std::string& line) const;
  enum class Once : uint8_t {
    kFailed,
    kViolations,
    kRegistered,
    kChannels,
    kMtu,
    kFurther,
    kGone,
    kUnplanned,
    kIdentity
  };
  /// What has been said before is not said again, with other figures neither.
  void say_once(Once what, std::string_view line);

  const Config& config_;
  const size_t number_;
  const JobConfig& job_;
  JobRunner& runner_;
  NcclLinks links_;
  const Say say_;
  NcclChildren children_;
  AnsweredReport answered_;               ///< of communicators that are over
  std::map<uint64_t, uint32_t> by_hash_;  ///< numbers of communicators that a feed spoke of
  NcclSockets sockets_;
  TorchGroups groups_;
  NcclId identity_;
  std::deque<SelfTest> self_tests_;  ///< of each real node
  NetIbSeen seen_;
  uint64_t ready_ = 0;            ///< connections that were
  std::set<NcclConnector> open_;  ///< that are
  struct Leaving {
    Time until;
    NcclConnector connector;
  };
  /// Of the job's operations, and closed by their real ranks: a real rank leaves once it has
  /// received all, while its last acknowledgements are on their way.
  std::deque<Leaving> leaving_;
  Time now_;  ///< of control's turn
  bool settled_ = false, over_ = false;
  std::optional<Time> ends_at_;       ///< its communicators are over, at the latest it is by then
  uint32_t ended_ = 0;                ///< communicators that are over
  Time gone_since_ = Time::never();   ///< a real rank, in the middle of an operation
  Time waits_since_ = Time::never();  ///< for its unique id
  std::set<Once> said_;
  NcclMistakes mistakes_;
  std::string failure_;
  /// Before all others it goes, and gives its connections back.
  std::unique_ptr<NcclCommunicator> communicator_;
};

}  // namespace understudy
