// The ring jobs of a run in real time: offers them to the clients that dial the emulated
// neighbours, connects, starts them, and keeps what the clients report.
#pragma once

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "ctrl/build/collective.h"
#include "ctrl/config/config.h"
#include "ctrl/peers/ring_peer.h"
#include "ctrl/report/run_report.h"
#include "ctrl/session/environment_host.h"
#include "ctrl/session/shard_control.h"
#include "ctrl/session/switched_run.h"

namespace understudy {

class JobRunner final : public RingObserver {
 public:
  /// The jobs' plans. In real time, and for NCCL's jobs, a real node enters when it likes, only its
  /// first credit tells; in virtual time emulated ranks may enter by themselves, as the job says.
  /// `switched`: null without switches; the jobs' messages go into it, in virtual time by default
  /// those among emulated ranks, too.
  static Result<std::vector<std::unique_ptr<CollectiveSetup>>> plan(const Config& config,
                                                                    SwitchedRun* switched,
                                                                    bool virtual_time);
  /// `controls[i]` belongs to port i of the configuration, `setups[j]` to job j.
  static Result<std::unique_ptr<JobRunner>> create(
      const Config& config, const std::vector<ShardControl*>& controls,
      std::vector<std::unique_ptr<CollectiveSetup>> setups);

  /// What the emulated node offers; empty when it is no real rank's neighbour.
  std::vector<RingOffer> offers(NodeId node) const;
  /// A ring endpoint as a peer wants it.
  Result<EndpointReady> connect(const EndpointRequest& request);

  /// Where a job's feed is listened to.
  struct FeedPort {
    uint32_t job = 0;
    NodeId node = kNoNode;
    unsigned nic = 0;
    uint16_t port = 0;
  };
  std::vector<FeedPort> feeds() const;
  /// What takes a connection of a profiler plugin there.
  std::unique_ptr<FeedPeer> feed_peer(uint32_t job);

  /// Control's turn: looks for operations that became known. Returns lines on jobs that have lost
  /// track of theirs.
  std::vector<std::string> poll(Time now);
  /// There is a job whose operations are not told, and which is not over.
  bool find_out() const;
  /// Every job is over: all operations done and the client has said so, or it has failed.
  bool finished() const;
  /// One line on how far the jobs are.
  std::string status() const;
  JobReport report(size_t job) const;
  /// Before the run: keeps when messages of all jobs did what, for timeline().
  void record();
  /// Once nothing runs any more.
  void add_timeline(std::vector<TimelineTrack>& tracks) const;
  size_t jobs() const { return jobs_.size(); }

  // Of a job whose real ranks are NCCL's: it has no clients here; whoever joins its communicator
  // says how it goes.
  EnvironmentHost& environment(size_t job) { return *jobs_[job].environment; }
  const CollectiveSetup& setup(size_t job) const { return *jobs_[job].setup; }
  ShardControl& control(size_t job) { return *jobs_[job].control; }
  /// Before any of its connections is asked for: the job's plan is made anew for so many channels
  /// of NCCL's search. References to its setup and environment end. Not in a network of switches.
  Result<void> plan_again(size_t job, uint32_t search_channels);
  void begun(size_t job) { jobs_[job].ready = jobs_[job].neighbours; }
  /// All real ranks stand ready.
  bool has_begun(size_t job) const { return jobs_[job].ready == jobs_[job].neighbours; }
  void ended(size_t job) { jobs_[job].done = jobs_[job].neighbours; }

  void on_ring_ready(uint32_t job, uint32_t real_rank, uint32_t emulated_rank) override;
  void on_ring_result(uint32_t job, uint32_t real_rank, const RingResultMessage& result) override;
  void on_ring_done(uint32_t job, uint32_t real_rank, uint32_t emulated_rank) override;

 private:
  struct Job {
    std::unique_ptr<JobConfig> own;  ///< of a plan that was made again
    std::unique_ptr<CollectiveSetup> setup;
    std::unique_ptr<EnvironmentHost> environment;
    ShardControl* control = nullptr;  ///< of its shard
    uint32_t neighbours = 0;          ///< connections that the clients make
    uint32_t ready = 0, done = 0;
    std::set<uint32_t> ready_ranks;  ///< real ones, with any connection
    bool lost = false;               ///< track of its operations, which was said
    std::vector<std::pair<uint32_t, RingResultMessage>> results;  ///< and of which rank
  };

  explicit JobRunner(const Config& config) : config_(config) {}
  Result<void> host(Job& job, const JobConfig& config);
  void add_offers(uint32_t job, uint32_t real, NodeId node, std::vector<RingOffer>& offers) const;
  void add_results(JobReport& report, size_t job) const;

  const Config& config_;
  std::vector<Job> jobs_;
  bool recorded_ = false;
};

}  // namespace understudy
