// The operations of a job of which nothing is known but the communicator, inferred from the credits
// and messages of its real ranks. What they are taken for is a guess until nothing else explains
// what came, or the next one begins; where it turns out wrong, the plan of something else takes
// over.
//
// Where nothing explains what comes any more, or real ranks wait for long for what nothing
// explains, every credit is answered at once.
#pragma once

#include <vector>

#include "collective_model/inference/inference.h"
#include "ctrl/jobs/operations/operation_source.h"

namespace understudy {

class InferredOperations final : public OperationSource {
 public:
  InferredOperations(const Config& config, const JobConfig& job, const Topology* topology,
                     const CollectiveJob& told);

  void end() override;

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};

  void handle(Time now, const OnlineNotice& notice) override;
  bool wants(OnlineNotice::Kind kind) const override {
    return kind != OnlineNotice::Kind::kAcknowledged;
  }
  void reconsider(Time now);
  bool decided(const Inference::Taken& taken) const;
  bool guess(Time now, const Operation& operation);
  void conclude_as(Time now, const InferredOperation& said);
  void remind(Time now);
  void look(Time now);
  Operation best_of(const InferredOperation& said) const;

  Inference inference_;
  Beliefs beliefs_;
  std::vector<uint32_t> connections_;  ///< by link, as the inference counts them, or kNone
  std::vector<uint64_t> received_;     ///< by link: messages of all operations
  std::vector<uint64_t> base_;         ///< by link: of those that are concluded
  std::optional<Operation> guess_;     ///< what the next one is taken for
  bool waited_ = false;                ///< long enough for its first messages
  std::vector<Operation> before_;
  Time last_;  ///< when something came or was sent
  std::vector<uint64_t> granted_,
      sent_;                      ///< by link: credits of the real ranks, and messages to them
  const Duration give_up_after_;  ///< of their waiting while nothing happens
  bool reminded_ = false;         ///< a reminder is on its way
};

}  // namespace understudy
