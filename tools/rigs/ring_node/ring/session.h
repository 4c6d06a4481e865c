// One run of the real rank: both neighbours, all channels, one all-reduce after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/result.h"
#include "tools/rigs/ring_node/base/neighbour.h"
#include "tools/rigs/ring_node/base/options.h"
#include "tools/rigs/ring_node/base/outcome.h"
#include "tools/rigs/ring_node/base/profiler.h"
#include "tools/rigs/ring_node/ring/channel.h"
#include "tools/rigs/ring_node/ring/oob.h"
#include "tools/rigs/ring_node/ring/real_peer.h"
#include "tools/rigs/ring_node/ring/verbs_links.h"
#include "tools/rigs/ring_node/verbs/verbs_device.h"

namespace understudy {

class Session {
 public:
  /// Dials the neighbours, learns the job, connects all queue pairs.
  static Result<std::unique_ptr<Session>> start(const RingNodeOptions& options);

  const RingJobMessage& job() const { return job_; }
  const VerbsDevice& device() const { return device_; }
  uint64_t input_seed() const { return input_seed_; }
  bool verifies() const;

  /// Runs one size of the job (an index of job().operations) and reports it to the next rank.
  Result<SizeOutcome> run_size(uint32_t operation);
  /// Tells the neighbours that this was all.
  Result<void> finish();
  /// Tells the neighbours why it ends early.
  void give_up(const std::string& why);

 private:
  Session(const RingNodeOptions& options, VerbsDevice device)
      : options_(options), device_(std::move(device)) {}
  Result<void> meet_in_real_ring(TcpListener& listener);
  Result<void> meet_in_told_ring();
  Result<void> call_previous();
  Result<void> take_call(TcpListener& listener, RingJobMessage told);
  Result<void> learn_job(Neighbour<RingClient>& neighbour);
  /// No rank is emulated: nobody else tells of the job, and nobody waits for all to be ready.
  bool all_real() const { return options_.ring.has_value(); }
  Result<void> check_options();
  Result<void> make_links();
  Result<void> connect_links();
  Result<void> answer_links();
  Result<void> get_ready();
  Result<void> wait_for_caller();
  Result<void> begin_caller();
  Result<void> wait_for_neighbours();
  Result<void> draw_input_seed();
  Result<void> load_profiler();
  /// One all-reduce; its time in ns from the start until its last message was taken in and posted.
  Result<uint64_t> run_operation(std::span<const float> input, std::span<float> output);
  /// Does what there is to do until `over` holds for all channels.
  Result<void> work_while_not(bool (RankChannel::*over)() const);
  Result<bool> work();
  Result<bool> poll_completions();
  /// Called when nothing has happened for a while: looks for bad news.
  Result<void> look_for_trouble(uint64_t idle_ns);
  /// What the previous rank told for us to pass on.
  void pass_results();
  RankChannel& channel(uint32_t number) { return *channels_[number]; }

  RingNodeOptions options_;
  VerbsDevice device_;
  /// Those that we called: next first, and previous if it is emulated and another one.
  std::vector<std::unique_ptr<Neighbour<RingClient>>> neighbours_;
  std::unique_ptr<Neighbour<RealPeer>> caller_;  ///< previous if it is real
  RingJobMessage job_;
  uint64_t input_seed_ = 0;
  std::unique_ptr<Profiler> profiler_;  ///< null: none is asked for
  std::vector<std::unique_ptr<VerbsLinks>> links_;
  std::vector<std::unique_ptr<RankChannel>> channels_;
};

}  // namespace understudy
