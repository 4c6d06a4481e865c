// One run of a whole real node: all of its ranks, links and operations, beside emulated nodes or
// other programs' nodes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/base/result.h"
#include "tools/rigs/ring_node/base/neighbour.h"
#include "tools/rigs/ring_node/base/options.h"
#include "tools/rigs/ring_node/base/outcome.h"
#include "tools/rigs/ring_node/base/profiler.h"
#include "tools/rigs/ring_node/verbs/verbs_device.h"
#include "tools/rigs/ring_node/verbs/verbs_link.h"
#include "tools/rigs/ring_node/whole_node/node_client.h"
#include "tools/rigs/ring_node/whole_node/node_ranks.h"
#include "tools/rigs/ring_node/whole_node/node_values.h"

namespace understudy {

class NodeSession {
 public:
  /// Dials the emulated node, learns the job, connects all queue pairs.
  static Result<std::unique_ptr<NodeSession>> start(const RingNodeOptions& options);

  const NodeJobMessage& job() const { return *client().job(); }
  /// Null if contents of messages are free.
  const NodeValues* values() const { return values_.get(); }
  uint64_t input_seed() const { return input_seed_; }
  /// Its RDMA devices, one text each.
  std::vector<std::string> devices() const;

  /// Carries out all operations, tells `told` what each kind came to, and the emulated node.
  Result<void> run(const std::function<void(const SizeOutcome&)>& told);
  /// Tells the emulated node why it ends early.
  void give_up(const std::string& why);

 private:
  explicit NodeSession(const RingNodeOptions& options) : options_(options) {}
  NodeClient& client() const { return peer_->machine(); }
  template <typename Condition>
  Result<void> wait_for(const char* what, Condition arrived) {
    return peer_->wait_for(what, options_.connect_limit, arrived);
  }
  Result<void> prepare();
  Result<void> open_devices();
  Result<void> make_links();
  Result<void> connect_links();
  Result<void> load_profilers();
  Result<void> get_ready();
  /// Until this operation is to be entered.
  Result<void> wait(size_t operation);
  /// The time of one operation in ns.
  Result<uint64_t> run_operation(uint32_t kind);
  void verify(SizeOutcome& outcome);
  Result<void> tell(uint32_t kind, const SizeOutcome& outcome);
  Result<void> finish();
  template <typename Over>
  Result<void> work_while_not(Over over);
  Result<bool> work();
  Result<bool> poll_completions(const VerbsDevice& device);
  /// Called when nothing has happened for a while: looks for bad news.
  Result<void> look_for_trouble(uint64_t idle_ns);

  RingNodeOptions options_;
  uint64_t input_seed_ = 0;
  std::unique_ptr<Neighbour<NodeClient>> peer_;
  std::map<IpAddress, std::unique_ptr<VerbsDevice>> devices_;  ///< by the address of the NIC
  std::vector<NodeKind> kinds_;
  std::vector<std::unique_ptr<VerbsLink>> links_;  ///< as the job's
  std::unique_ptr<NodeValues> values_;             ///< null if contents are free
  std::unique_ptr<NodeRanks> ranks_;
  EntryClock clock_;                                  ///< of what the job says that is computed
  std::vector<std::unique_ptr<Profiler>> profilers_;  ///< of each rank; none if none is asked for
};

}  // namespace understudy
