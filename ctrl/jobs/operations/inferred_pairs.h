// The same as inferred_operations.h of operations between pairs of ranks: those of a job whose
// connections are send/recv's.
#pragma once

#include <optional>
#include <vector>

#include "collective_model/inference/pair_inference.h"
#include "ctrl/jobs/operations/operation_source.h"

namespace understudy {

class InferredPairs final : public OperationSource {
 public:
  InferredPairs(const Config& config, const JobConfig& job, const Topology* topology,
                const CollectiveJob& told);

  void end() override;

 private:
  void handle(Time now, const OnlineNotice& notice) override;
  void reconsider(Time now);
  std::optional<Operation> expected() const;
  void remind(Time now, uint32_t real);
  bool guess(Time now, const Operation& operation);
  void look(Time now, uint32_t real);
  void look_again(Time now);
  Duration quiet() const;
  void conclude_as(Time now, const PairInference::Found& found);

  PairInference inference_;
  const std::vector<uint32_t> connections_;  ///< by link, as the inference counts them
  Duration latency_;                         ///< there and back
  Rate rate_;                                ///< of the real ranks' slowest NIC
  uint64_t round_bytes_ = 0;  ///< of the largest message of each connection on which they send
  std::optional<Operation> guess_;  ///< what the next one is taken for
  bool waited_ = false;             ///< long enough for its first messages
  bool explained_ = false;          ///< that explains all that has come
  Duration pause_;                  ///< before the next guess
  Time next_guess_;
  bool guess_reminded_ = false;   ///< a reminder of that is on its way
  std::vector<Operation> kinds_;  ///< that have been
  std::vector<uint32_t> before_;  ///< operations: their kinds
  /// Of a real rank.
  struct Real {
    Time last;              ///< when something came
    bool reminded = false;  ///< a reminder is on its way
    Duration patience;      ///< when to look again at it, after that
  };
  std::vector<Real> real_;
  Time last_;                     ///< when something came
  const Duration give_up_after_;  ///< of waiting for what does not come
};

}  // namespace understudy
