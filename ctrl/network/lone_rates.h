// Flows on a network of their own as max-min fair rates. Queues, priorities, losses on links and
// congestion control play no part; outages and changes of links do.
#pragma once

#include <string>
#include <vector>

#include "ctrl/network/lone_flows.h"
#include "dataplane/flows/flow_model.h"

namespace understudy {

class LoneRates final : public LoneFlows {
 public:
  /// `model`, which has not been started, and `jobs`, whose messages are among its flows, outlive
  /// this.
  explicit LoneRates(FlowModel& model, std::vector<FlowJob*> jobs = {});

  void advance_to(Time t) override;

  void change(const RateChange& change) override { model_.plan(change); }
  void change(const GroupChange& change) override { model_.plan(change); }
  size_t finished() const override { return model_.finished(); }
  size_t stopped() const override { return model_.stopped(); }
  Time end() const override;
  const Network* network() const override { return nullptr; }
  bool has_moved() override { return true; }  // nothing ever waits for itself
  std::string progress(double seconds) const override;
  double share_done() const override;
  NamedCounts work() const override;
  std::string why_at_rest(const Graph& graph) const override;

 protected:
  /// What changes is among what happens next.
  bool is_awaited() const override { return true; }
  Time next() const override { return model_.next(); }

 private:
  FlowModel& model_;
};

}  // namespace understudy
