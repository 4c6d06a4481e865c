#include "collective_model/training/iteration_graph.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "collective_model/training/memory.h"
#include "dataplane/base/assert.h"

namespace understudy {
namespace {

constexpr uint32_t kNoNode = ~uint32_t{0};

class GraphBuilder {
 public:
  GraphBuilder(const Transformer& model, const Parallel& parallel, const IterationTimes& times)
      : model_(model), parallel_(parallel), times_(times), pipeline_(pipeline_of(parallel)) {
    ASSERT_INVARIANT(times.stages.size() == parallel.pp);
  }

  IterationGraph run(uint32_t iterations) {
    make_families();
    for (uint32_t stage = 0; stage < parallel_.pp; ++stage) {
      begin_stage(stage);
      for (uint32_t i = 0; i < iterations; ++i) add_iteration(i);
    }
    finish(iterations);
    return std::move(out_);
  }

 private:
  using Kind = NodeMark::Kind;
  using Family = TrainingFamily::Kind;
  /// From a stage to another one, forward or backward.
  using Way = std::tuple<uint32_t, uint32_t, bool>;

  void make_families() {
    for (uint32_t stage = 0; stage < parallel_.pp; ++stage) add_family(Family::kData, stage, stage);
    if (has_ends()) ends_ = add_family(Family::kEnds, 0, parallel_.pp - 1);
    norm_ = add_family(Family::kNorm, 0, 0);
    for (uint32_t stage = 0; stage < parallel_.pp; ++stage) out_.workload.add_group(parallel_.dp);
  }
  uint32_t add_family(Family kind, uint32_t from, uint32_t to) {
    out_.families.push_back({kind, from, to, {}});
    roles_.emplace_back(kind == Family::kNorm ? parallel_.pp : kind == Family::kData ? 1 : 2);
    return static_cast<uint32_t>(out_.families.size()) - 1;
  }
  bool has_ends() const { return has_tied_ends(model_, parallel_); }

  uint32_t add_node(WorkloadNode node, NodeMark mark) {
    node.group = stage_;
    mark.iteration = iteration_;
    out_.marks.push_back(mark);
    out_.waits.emplace_back();
    return out_.workload.add(std::move(node));
  }
  void after(uint32_t node, uint32_t former) {
    if (former == kNoNode) return;
    std::vector<uint32_t>& waits = out_.waits[node];
    if (std::ranges::find(waits, former) != waits.end()) return;
    waits.push_back(former);
    out_.workload.order(former, node);
  }

  /// What the stage's replicas compute, and what tensor parallelism takes of it besides.
  uint32_t compute(Duration time, Duration tensor, NodeMark mark) {
    WorkloadNode node{.kind = WorkloadNode::Kind::kCompute};
    if (times_.slower.empty()) {
      node.times = {time + tensor};
    } else {
      for (const double slower : times_.slower[stage_]) {
        node.times.push_back(Duration::ps(std::llround(static_cast<double>(time.ps()) * slower)) +
                             tensor);
      }
    }
    mark.tensor = tensor;
    const uint32_t number = add_node(std::move(node), mark);
    after(number, computed_);
    for (const uint32_t former : computing_waits_) after(number, former);
    computing_waits_.clear();
    return computed_ = number;
  }

  /// The stage's part in an operation of the family, as `role`; one that others have is the same.
  uint32_t operation(uint32_t family, uint32_t role, const FamilyOperation& what) {
    const uint32_t number = add_node({.kind = WorkloadNode::Kind::kOperation}, {Kind::kOperation});
    std::vector<uint32_t>& own = roles_[family][role];
    std::vector<FamilyOperation>& all = out_.families[family].operations;
    if (own.size() == all.size()) all.push_back(what);
    own.push_back(out_.workload.nodes()[number].operation);
    return number;
  }

  void begin_stage(uint32_t stage) {
    stage_ = stage;
    iteration_ = 0;
    computing_waits_.clear();
    data_ = kNoNode;
    computed_ = add_node({.kind = WorkloadNode::Kind::kStart}, {});
    begin_ = computed_;
    chunks_.clear();
    for (uint32_t chunk = 0; chunk < parallel_.chunks; ++chunk) {
      const bool last = stage + 1 == parallel_.pp && chunk + 1 == parallel_.chunks;
      const double output = last ? times_.stages[stage].output_share : 0;
      chunks_.push_back(parallel_.zero == 3
                            ? chunk_units(model_, parallel_, stage, chunk, output)
                            : chunk_buckets(model_, parallel_, stage, chunk, output));
    }
  }

  void add_iteration(uint32_t iteration) {
    iteration_ = iteration;
    gather_weights();
    const std::vector<PipelineStep> steps = pipeline_steps(pipeline_, stage_);
    // From a chunk's last backward on its gradients become ready.
    const PipelineStep::Kind readies = pipeline_.schedule == PipelineSchedule::kZeroBubbleH1
                                           ? PipelineStep::Kind::kWeightGradient
                                           : PipelineStep::Kind::kBackward;
    std::vector<size_t> last(parallel_.chunks);
    for (size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].kind == readies) last[steps[i].chunk] = i;
    }
    for (size_t i = 0; i < steps.size(); ++i) {
      const bool ready =
          steps[i].kind == readies && (parallel_.zero == 2 || last[steps[i].chunk] == i);
      parallel_.zero == 3 ? add_unit_steps(steps[i], steps[i].kind == readies)
                          : add_step(steps[i], ready);
    }
    if (!parallel_.overlap_gradients && parallel_.zero < 2) {
      for (uint32_t chunk = parallel_.chunks; chunk-- > 0;) {
        for (const GradientBucket& bucket : chunks_[chunk]) reduce(bucket);
      }
    }
    end_iteration();
  }

  /// ZeRO's stages 1 and 2: what each rank's optimizer has made, from the iteration before.
  void gather_weights() {
    weights_.assign(parallel_.chunks, {});
    if (parallel_.zero == 0 || parallel_.zero == 3 || parallel_.dp == 1) return;
    for (uint32_t chunk = 0; chunk < parallel_.chunks; ++chunk) {
      const std::vector<GradientBucket>& buckets = chunks_[chunk];
      for (size_t i = buckets.size(); i-- > 0;) {
        const uint32_t node = gather(buckets[i]);
        after(node, begin_);
        weights_[chunk].push_back(node);
      }
    }
    if (!parallel_.overlap_weights) {
      computing_waits_.push_back(data_);
      weights_.assign(parallel_.chunks, {});
    }
  }

  uint32_t gather(const GradientBucket& bucket) {
    return data_operation(
        {TrainingTransfer::kAllGather, rounded(kTrainedValueBytes, bucket.parameters)});
  }

  void reduce(const GradientBucket& bucket) {
    if (parallel_.dp == 1) return;
    const uint32_t node = data_operation(
        {parallel_.zero == 0 ? TrainingTransfer::kAllReduce : TrainingTransfer::kReduceScatter,
         rounded(parallel_.gradient_bytes, bucket.parameters)});
    after(node, computed_);
  }

  /// In parts of equal size of whole values.
  uint64_t rounded(double each, uint64_t parameters) const {
    const uint64_t dp = parallel_.dp;
    return static_cast<uint64_t>(each) * ((parameters + dp - 1) / dp * dp);
  }

  /// Replicas carry these out one after another.
  uint32_t data_operation(const FamilyOperation& what) {
    const uint32_t node = operation(stage_, 0, what);
    after(node, data_);
    return data_ = node;
  }

  uint32_t ways(const Way& way) {
    const auto [it, fresh] = ways_.try_emplace(way, 0);
    if (fresh) it->second = add_family(Family::kMessages, std::get<0>(way), std::get<1>(way));
    return it->second;
  }
  FamilyOperation message() const {
    const double values = kTrainedValueBytes * parallel_.micro_batch * model_.sequence *
                          model_.hidden / (parallel_.sequence_parallel ? parallel_.tp : 1);
    return {TrainingTransfer::kSend, static_cast<uint64_t>(values)};
  }

  void add_step(const PipelineStep& step, bool ready) {
    const bool forward = step.kind == PipelineStep::Kind::kForward;
    receive(step);
    std::vector<double> cuts;  // shares of the step behind which something begins
    const bool waits = forward && step.micro_batch == 0 && !weights_[step.chunk].empty();
    const std::vector<GradientBucket>& buckets = chunks_[step.chunk];
    if (waits) {
      for (size_t i = buckets.size(); i-- > 1;) cuts.push_back(1 - buckets[i - 1].ready);
    } else if (ready && reduces_behind_steps()) {
      for (const GradientBucket& bucket : buckets) cuts.push_back(bucket.ready);
      cuts.pop_back();
    }
    cuts.push_back(1);
    const auto [time, tensor] = times_of(step);
    Duration done, tensor_done;
    for (size_t i = 0; i < cuts.size(); ++i) {
      if (waits) computing_waits_.push_back(weights_[step.chunk][i]);
      const Duration until = share(time, cuts[i]), tensor_until = share(tensor, cuts[i]);
      compute(until - done, tensor_until - tensor_done,
              {mark_of(step.kind), iteration_, step.micro_batch, step.chunk});
      done = until;
      tensor_done = tensor_until;
      if (ready && reduces_behind_steps()) reduce(buckets[i]);
    }
    send(step);
  }
  bool reduces_behind_steps() const { return parallel_.overlap_gradients || parallel_.zero == 2; }

  /// ZeRO's stage 3. Weights that are not wanted again are dropped: all passes gather.
  void add_unit_steps(const PipelineStep& step, bool ready) {
    const bool gathers = parallel_.dp > 1 && step.kind != PipelineStep::Kind::kWeightGradient;
    receive(step);
    std::vector<GradientBucket> units = chunks_[step.chunk];
    if (step.kind == PipelineStep::Kind::kForward) {
      std::ranges::reverse(units);
      // A unit ends where the one before it, on the way back, begins.
      for (size_t i = 0; i < units.size(); ++i) {
        units[i].ready = i + 1 < units.size() ? 1 - units[i + 1].ready : 1;
      }
    }
    std::vector<uint32_t> weights;
    if (gathers) {
      for (size_t i = 0; i < std::min<size_t>(units.size(), 2); ++i) {
        weights.push_back(gather(units[i]));
        after(weights.back(), begin_);
      }
    }
    const auto [time, tensor] = times_of(step);
    Duration done, tensor_done;
    for (size_t i = 0; i < units.size(); ++i) {
      if (gathers) computing_waits_.push_back(weights[i]);
      const Duration until = share(time, units[i].ready),
                     tensor_until = share(tensor, units[i].ready);
      compute(until - done, tensor_until - tensor_done,
              {mark_of(step.kind), iteration_, step.micro_batch, step.chunk});
      done = until;
      tensor_done = tensor_until;
      if (ready) reduce(units[i]);
      if (gathers && i + 2 < units.size()) {
        weights.push_back(gather(units[i + 2]));
        after(weights.back(), computed_);
      }
    }
    send(step);
  }
  static Duration share(Duration all, double share) {
    return share >= 1 ? all : Duration::ps(std::llround(static_cast<double>(all.ps()) * share));
  }
  static Kind mark_of(PipelineStep::Kind kind) {
    switch (kind) {
      case PipelineStep::Kind::kForward:
        return Kind::kForward;
      case PipelineStep::Kind::kBackward:
        return Kind::kBackward;
      case PipelineStep::Kind::kWeightGradient:
        break;
    }
    return Kind::kWeightGradient;
  }
  std::pair<Duration, Duration> times_of(const PipelineStep& step) const {
    const auto of = [&](const ChunkTimes& t) {
      switch (step.kind) {
        case PipelineStep::Kind::kForward:
          return t.forward;
        case PipelineStep::Kind::kWeightGradient:
          return t.weight_gradient;
        case PipelineStep::Kind::kBackward:
          break;
      }
      const bool whole = pipeline_.schedule != PipelineSchedule::kZeroBubbleH1;
      return whole ? t.backward + t.weight_gradient : t.backward;
    };
    const StageComputing& stage = times_.stages[stage_];
    return {of(stage.chunks[step.chunk]), of(stage.tensor[step.chunk])};
  }

  /// What the step takes from another stage: awaited from the iteration's begin on, or once the step is
  /// the next one. With chunks a stage would wait for ever for one that waits for it, if it did not take
  /// what comes for later steps.
  void receive(const PipelineStep& step) {
    const auto input = pipeline_input(pipeline_, {stage_, step});
    if (!input || input->stage == stage_) return;
    const bool forward = step.kind == PipelineStep::Kind::kForward;
    const uint32_t node = operation(ways({input->stage, stage_, forward}), 1, message());
    const bool ahead = parallel_.overlap_pipeline || parallel_.chunks > 1;
    after(node, ahead ? begin_ : computed_);
    computing_waits_.push_back(node);
  }
  /// What the step gives to another stage.
  void send(const PipelineStep& step) {
    const auto to = consumer(step);
    if (!to || *to == stage_) return;
    const bool forward = step.kind == PipelineStep::Kind::kForward;
    const uint32_t node = operation(ways({stage_, *to, forward}), 0, message());
    after(node, computed_);
    if (!parallel_.overlap_pipeline) computing_waits_.push_back(node);
  }
  std::optional<uint32_t> consumer(const PipelineStep& step) const {
    const uint32_t last = parallel_.pp - 1;
    switch (step.kind) {
      case PipelineStep::Kind::kForward:
        if (stage_ < last) return stage_ + 1;
        if (step.chunk + 1 < parallel_.chunks) return 0;
        break;
      case PipelineStep::Kind::kBackward:
        if (stage_ > 0) return stage_ - 1;
        if (step.chunk > 0) return last;
        break;
      case PipelineStep::Kind::kWeightGradient:
        break;
    }
    return std::nullopt;
  }

  void end_iteration() {
    uint32_t reduced = data_;
    if (has_ends() && (stage_ == 0 || stage_ + 1 == parallel_.pp)) {
      const uint64_t words = uint64_t{model_.vocabulary} * model_.hidden / parallel_.tp;
      const uint32_t node =
          operation(ends_, stage_ == 0 ? 0 : 1,
                    {TrainingTransfer::kAllReduce, uint64_t{parallel_.gradient_bytes} * words});
      after(node, computed_);
      after(node, reduced);
      reduced = node;
    }
    const uint32_t norm = operation(norm_, stage_, {TrainingTransfer::kAllReduce, 4});
    after(norm, computed_);
    after(norm, reduced);
    computing_waits_.push_back(norm);
    begin_ = compute(times_.stages[stage_].optimizer, Duration(), {Kind::kOptimizer});
    if (out_.ends.size() <= iteration_) out_.ends.emplace_back(parallel_.pp);
    out_.ends[iteration_][stage_] = begin_;
  }

  void finish(uint32_t iterations) {
    ASSERT_INVARIANT(out_.ends.size() == iterations);
    for (size_t f = 0; f < out_.families.size(); ++f) {
      const TrainingFamily& family = out_.families[f];
      CommunicatorFamily made;
      const bool pairs = family.kind == Family::kMessages || family.kind == Family::kEnds;
      made.layout =
          pairs ? CommunicatorFamily::Layout::kPairs : CommunicatorFamily::Layout::kAcross;
      made.width = family.kind == Family::kNorm ? 1 : parallel_.tp;
      if (family.kind == Family::kNorm) {
        for (uint32_t stage = 0; stage < parallel_.pp; ++stage) made.groups.push_back(stage);
      } else {
        made.groups.push_back(family.stage);
        if (pairs) made.groups.push_back(family.to);
      }
      made.operations = std::move(roles_[f]);
      for (const auto& role : made.operations) {
        ASSERT_INVARIANT(role.size() == family.operations.size());
      }
      out_.communicators.push_back(std::move(made));
    }
    ASSERT_INVARIANT(out_.workload.cycle().empty());
  }

  const Transformer& model_;
  const Parallel& parallel_;
  const IterationTimes& times_;
  const Pipeline pipeline_;
  IterationGraph out_;
  std::vector<std::vector<std::vector<uint32_t>>> roles_;  ///< by family, role and number
  std::map<Way, uint32_t> ways_;                           ///< families of messages
  uint32_t ends_ = kNoNode, norm_ = kNoNode;               ///< families
  // Of the stage and iteration at hand:
  uint32_t stage_ = 0, iteration_ = 0;
  uint32_t begin_ = kNoNode;                         ///< the node behind which the iteration is
  uint32_t computed_ = kNoNode;                      ///< the last node that computes
  uint32_t data_ = kNoNode;                          ///< the last operation of replicas
  std::vector<uint32_t> computing_waits_;            ///< what the next one that computes waits for
  std::vector<std::vector<GradientBucket>> chunks_;  ///< buckets
  std::vector<std::vector<uint32_t>> weights_;       ///< by chunk and bucket, in forward order
};

}  // namespace

IterationGraph iteration_graph(const Transformer& model, const Parallel& parallel,
                               const IterationTimes& times, uint32_t iterations) {
  return GraphBuilder(model, parallel, times).run(iterations);
}

}  // namespace understudy
