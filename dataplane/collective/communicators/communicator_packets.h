// Operations of many communicators, packet by packet: every member fills, receives and uses messages as
// NCCL's kernel and proxy do (rank_program.h), and each message and each credit crosses the network
// (inner_messages.h). Nothing is listed in advance: an operation exists from its first member's entry to
// its last acknowledgement, so that what this needs does not grow with the number of operations.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "collective_model/schedule/schedule.h"
#include "collective_model/workload/communicators.h"
#include "dataplane/collective/flow_job.h"
#include "dataplane/collective/inner_messages.h"
#include "dataplane/collective/rank_program.h"

namespace understudy {

/// Operations of equal shape have the same parts. Those that are not known in advance are appended.
struct PacketCommunicator {
  std::vector<std::vector<std::shared_ptr<const RankSchedule>>> shapes;  ///< by member
  std::vector<uint32_t> operations;                                      ///< the shape of each
  uint32_t members() const { return static_cast<uint32_t>(shapes.front().size()); }
};

class CommunicatorPackets final : public FlowJob,
                                  public OperationCarrier,
                                  private InnerListener,
                                  private RankProgramOwner {
 public:
  using WaysOf = std::function<MessageWays(uint32_t communicator, const Connection& connection)>;

  /// Communicators are numbered from `first` on. Each has a shape; step costs are zero.
  CommunicatorPackets(std::vector<PacketCommunicator> communicators, uint32_t first,
                      const PacketLevelRanksSettings& settings, const WaysOf& ways_of);
  ~CommunicatorPackets() override;

  void listen(CommunicatorListener& listener) { listener_ = &listener; }
  /// What begins whatever waits for nothing, when the network has started; and the share of the work that
  /// is done: 1, exactly, is all of it.
  void begin_with(std::function<void()> begin, std::function<double()> done) {
    begin_ = std::move(begin);
    done_ = std::move(done);
  }
  /// As InnerMessages::add_flows().
  uint32_t add_flows(std::vector<FlowSpec>& flows, uint32_t first_connection) {
    return inner_->add_flows(flows, first_connection);
  }
  /// Before the traffic starts, and before attach().
  void attach_messages(FlowTraffic& traffic) { inner_->attach(traffic, false); }
  size_t connections() const { return connections_.size(); }

  // OperationCarrier
  void enter(uint32_t communicator, uint32_t operation, uint32_t member, Time at) override;
  uint32_t append(uint32_t communicator, uint32_t shape) override;

  // FlowJob
  uint32_t attach(FlowCarrier& traffic, uint32_t first_wake) override;
  void start() override { begin_(); }
  bool finished() const override { return done_() >= 1; }
  double share_done() const override { return done_(); }

  // FlowListener
  void on_received(uint32_t, Time) override {}
  void on_acknowledged(uint32_t, Time) override {}
  void on_wake(uint32_t index, Time now) override;

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  /// Operations of a communicator that members may be in at a time.
  static constexpr uint32_t kInFlight = 4;
  /// Wake-ups that may be numbered.
  static constexpr uint32_t kMostWakes = 1u << 28;

  /// What becomes of a connection in a shape: the position at either end, if there are messages.
  struct Use {
    uint32_t from = kNone, to = kNone;
    uint64_t messages = 0;
  };
  struct Place {
    uint32_t operation = 0;
    uint64_t message = 0;
  };
  struct Link {
    uint32_t communicator = 0;
    uint32_t from = 0, to = 0;  ///< members
    std::vector<Use> uses;      ///< by shape
    Place received, acknowledged;
  };
  struct Entry {
    uint32_t operation = 0, member = 0;
  };
  struct State {
    PacketCommunicator what;
    uint32_t first_rank = 0;  ///< of the program's
    /// By shape and member.
    std::vector<std::vector<RankPart>> parts;
    /// By shape, member and connection: the link, or kNone inside a node.
    std::vector<std::vector<std::vector<uint32_t>>> links;
    std::vector<uint64_t> messages;             ///< by shape, over the network
    uint32_t retired = 0;                       ///< operations of which nothing is left
    std::array<uint64_t, kInFlight> left = {};  ///< by slot: members not done, acknowledgements ...
    std::array<bool, kInFlight> over = {};      ///< ... none is left, but of one before it
    std::vector<Entry> waiting;                 ///< for an operation to retire
  };
  struct Wake {
    enum class Kind : uint8_t { kFree, kEntry, kPassing };
    Kind kind = Kind::kFree;
    uint32_t communicator = 0;
    RankEnd end;  ///< kEntry: its operation and member
  };

  void make_links(uint32_t communicator, const WaysOf& ways_of,
                  std::vector<InnerConnection>& connections);
  uint32_t shape_of(const State& state, uint32_t operation) const {
    return state.what.operations[operation];
  }
  State& state_of(uint32_t rank) { return states_[communicator_of_[rank]]; }
  uint32_t link_at(const RankEnd& end) {
    const State& state = state_of(end.rank);
    return state.links[shape_of(state, end.operation)][end.rank - state.first_rank][end.connection];
  }
  Place next(const Link& link, Place& place) const;
  void wake_at(Time at, const Wake& wake);
  void enter_now(uint32_t communicator, const Entry& entry, Time now);
  void count_down(State& state, uint32_t operation, Time now);

  // InnerListener
  void inner_received(uint32_t connection, Time now) override;
  void inner_acknowledged(uint32_t connection, Time now) override;
  void inner_reaches(uint32_t flow, Time at) override;

  // RankProgramOwner
  void on_filled(const RankEnd& sender, uint64_t k, Time now) override;
  void on_grantable(const RankEnd& receiver, uint64_t k, Time now) override;
  void on_passing(const RankEnd& end, Time at) override;
  void on_done(uint32_t operation, uint32_t rank, Time now) override;

  const uint32_t first_;
  std::vector<State> states_;
  std::vector<uint32_t> communicator_of_;  ///< by the program's rank
  std::vector<Link> connections_;
  std::unique_ptr<InnerMessages> inner_;
  std::unique_ptr<RankProgram> program_;
  CommunicatorListener* listener_ = nullptr;
  std::function<void()> begin_;
  std::function<double()> done_;  ///< share of the work
  FlowCarrier* traffic_ = nullptr;
  uint32_t first_wake_ = 0;
  std::vector<Wake> wakes_;
  std::vector<uint32_t> free_;  ///< of these
};

}  // namespace understudy
