#include "collective_model/training/iteration_graph.h"

#include <algorithm>
#include <cmath>
#include <functional>
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
    const uint32_t replicas = parallel_.replicas();
    for (uint32_t stage = 0; stage < parallel_.pp; ++stage) {
      add_family({Family::kData, stage, stage, replicas});
    }
    if (has_ends()) ends_ = add_family({Family::kEnds, 0, parallel_.pp - 1, 2});
    norm_ = add_family({Family::kNorm, 0, 0, replicas * parallel_.pp});
    for (uint32_t stage = 0; stage < parallel_.pp; ++stage) out_.workload.add_group(replicas);
  }
  uint32_t add_family(const TrainingFamily& family) {
    out_.families.push_back(family);
    roles_.emplace_back(family.kind == Family::kNorm ? parallel_.pp : family.pairs() ? 2 : 1);
    return static_cast<uint32_t>(out_.families.size()) - 1;
  }
  /// Of the stage at hand.
  uint32_t replicas_family(Family kind) {
    if (kind == Family::kData) return stage_;
    const auto [it, fresh] = of_stage_.try_emplace({kind, stage_}, 0);
    if (!fresh) return it->second;
    TrainingFamily family{kind, stage_, stage_, parallel_.cp};
    if (kind == Family::kExperts) family.members = parallel_.ep;
    if (kind == Family::kExpertData) {
      family.members = parallel_.replicas() / parallel_.ep;
      family.stride = parallel_.ep;
    }
    return it->second = add_family(family);
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

  bool last_chunk(uint32_t stage, uint32_t chunk) const {
    return stage + 1 == parallel_.pp && chunk + 1 == parallel_.chunks;
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
      const double output = last_chunk(stage, chunk) ? times_.stages[stage].output_share : 0;
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
    if (parallel_.zero == 0 || parallel_.zero == 3 || parallel_.replicas() == 1) return;
    for (uint32_t chunk = 0; chunk < parallel_.chunks; ++chunk) {
      const std::vector<GradientBucket>& buckets = chunks_[chunk];
      for (size_t i = buckets.size(); i-- > 0;) {
        weights_[chunk].push_back(gather(buckets[i], begin_));
      }
    }
    if (!parallel_.overlap_weights) {
      computing_waits_.push_back(data_);
      weights_.assign(parallel_.chunks, {});
    }
  }

  /// kNoNode where nobody else has it.
  uint32_t gather(const GradientBucket& bucket, uint32_t former) {
    return data_operation(bucket, TrainingTransfer::kAllGather, kTrainedValueBytes, former);
  }
  void reduce(const GradientBucket& bucket) {
    data_operation(
        bucket,
        parallel_.zero == 0 ? TrainingTransfer::kAllReduce : TrainingTransfer::kReduceScatter,
        parallel_.gradient_bytes, computed_);
  }

  /// Replicas carry these out one after another, in parts of equal size of whole values.
  uint32_t data_operation(const GradientBucket& bucket, TrainingTransfer transfer, double each,
                          uint32_t former) {
    const uint64_t ranks = parallel_.replicas() / (bucket.experts ? parallel_.ep : 1);
    if (ranks == 1) return kNoNode;
    const uint64_t values = (bucket.parameters + ranks - 1) / ranks * ranks;
    const uint32_t family = replicas_family(bucket.experts ? Family::kExpertData : Family::kData);
    const uint32_t node = operation(family, 0, {transfer, static_cast<uint64_t>(each) * values});
    after(node, data_);
    after(node, former);
    return data_ = node;
  }

  uint32_t ways(const Way& way) {
    const auto [it, fresh] = ways_.try_emplace(way, 0);
    if (fresh) it->second = add_family({Family::kMessages, std::get<0>(way), std::get<1>(way), 2});
    return it->second;
  }
  FamilyOperation message() const {
    const double values = kTrainedValueBytes * parallel_.micro_batch * model_.sequence *
                          model_.hidden / parallel_.cp /
                          (parallel_.sequence_parallel ? parallel_.tp : 1);
    return {TrainingTransfer::kSend, static_cast<uint64_t>(values)};
  }

  /// Something that happens within a pass, behind a share of its computing.
  struct Cut {
    double share = 0;
    std::function<void()> action;
  };

  void add_step(const PipelineStep& step, bool ready) {
    const bool forward = step.kind == PipelineStep::Kind::kForward;
    const std::vector<uint32_t>& weights = weights_[step.chunk];
    const std::vector<GradientBucket>& buckets = chunks_[step.chunk];
    std::vector<Cut> cuts;
    if (forward && step.micro_batch == 0) {
      // From the last bucket on; the first one is needed at once.
      for (size_t i = 0; i < weights.size(); ++i) {
        const double from = i == 0 ? 0 : 1 - buckets[buckets.size() - 1 - i].ready;
        cuts.push_back({from, [&, i] { computing_waits_.push_back(weights[i]); }});
      }
    }
    if (ready && (parallel_.overlap_gradients || parallel_.zero == 2)) {
      for (const GradientBucket& bucket : buckets) {
        cuts.push_back({bucket.ready, [&] { reduce(bucket); }});
      }
    }
    add_pass(step, std::move(cuts));
  }

  /// What the stage computes of the step, with what comes between.
  void add_pass(const PipelineStep& step, std::vector<Cut> cuts) {
    receive(step);
    add_stops(step, cuts);
    std::ranges::stable_sort(cuts, {}, &Cut::share);
    pass_ = {mark_of(step.kind), iteration_, step.micro_batch, step.chunk};
    const std::pair<Duration, Duration> all = times_of(step);
    Duration done, tensor_done;
    bool computes = false;
    const auto until = [&](double part) {
      const Duration now = share(all.first, part), tensor_now = share(all.second, part);
      const bool must = part >= 1 && (!computes || !computing_waits_.empty());
      if (!must && now == done && tensor_now == tensor_done) return;
      compute(now - done, tensor_now - tensor_done, pass_);
      computes = true;
      done = now;
      tensor_done = tensor_now;
    };
    for (const Cut& cut : cuts) {
      until(cut.share);
      cut.action();
    }
    until(1);
    send(step);
  }

  void add_stops(const PipelineStep& step, std::vector<Cut>& cuts) {
    const double output = last_chunk(stage_, step.chunk) ? times_.stages[stage_].output_share : 0;
    for (const PassStop& stop : pass_stops(model_, parallel_, stage_, step, output)) {
      cuts.push_back({stop.share, [this, stop] {
                        switch (stop.what) {
                          case PassStop::What::kRoute:
                            computing_waits_.push_back(
                                between(Family::kExperts, TrainingTransfer::kAllToAll, 1));
                            return;
                          case PassStop::What::kKeys:
                            keys_ =
                                between(Family::kContext, TrainingTransfer::kAllGather, stop.times);
                            return;
                          case PassStop::What::kKeysThere:
                            computing_waits_.push_back(keys_);
                        }
                      }});
    }
  }
  /// An operation behind all that has been computed of the pass, and what that waits for.
  uint32_t between(Family kind, TrainingTransfer transfer, uint32_t times) {
    if (!computing_waits_.empty()) compute(Duration(), Duration(), pass_);
    const double parts = kind == Family::kExperts ? parallel_.ep : parallel_.cp;
    const double all = kind == Family::kExperts
                           ? routed_bytes(model_, parallel_)
                           : times * parallel_.cp * key_bytes(model_, parallel_);
    // In parts of equal size of whole values.
    const double part = std::ceil(all / parts / kTrainedValueBytes) * kTrainedValueBytes;
    const uint32_t node =
        operation(replicas_family(kind), 0, {transfer, static_cast<uint64_t>(part * parts)});
    after(node, computed_);
    return node;
  }

  /// ZeRO's stage 3. Weights that are not wanted again are dropped: all passes gather. What becomes ready at
  /// one moment, experts and the rest of their layer, goes together.
  void add_unit_steps(const PipelineStep& step, bool ready) {
    const bool gathers = step.kind != PipelineStep::Kind::kWeightGradient;
    const bool forward = step.kind == PipelineStep::Kind::kForward;
    std::vector<std::vector<GradientBucket>> units;
    for (const GradientBucket& bucket : chunks_[step.chunk]) {
      if (units.empty() || !units.back().back().experts) units.emplace_back();
      units.back().push_back(bucket);
    }
    std::vector<double> ends;  // a unit begins where the one before it ends
    for (const auto& unit : units) ends.push_back(unit.back().ready);
    if (forward) {
      std::ranges::reverse(units);
      std::ranges::reverse(ends);
      for (size_t i = 0; i < ends.size(); ++i) ends[i] = i + 1 < ends.size() ? 1 - ends[i + 1] : 1;
    }
    std::vector<std::vector<uint32_t>> weights;
    const auto gather_next = [&](uint32_t former) {
      if (!gathers || weights.size() == units.size()) return;
      weights.emplace_back();
      for (const GradientBucket& bucket : units[weights.size() - 1]) {
        weights.back().push_back(gather(bucket, former));
      }
    };
    gather_next(begin_);
    gather_next(begin_);
    std::vector<Cut> cuts;
    for (size_t i = 0; i < units.size(); ++i) {
      cuts.push_back({i == 0 ? 0 : ends[i - 1], [&, i] {
                        if (!gathers) return;
                        for (const uint32_t node : weights[i]) computing_waits_.push_back(node);
                      }});
      cuts.push_back({ends[i], [&, i] {
                        for (const GradientBucket& bucket : units[i]) {
                          if (ready) reduce(bucket);
                        }
                        gather_next(computed_);
                      }});
    }
    add_pass(step, std::move(cuts));
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
      made.layout = family.pairs()         ? CommunicatorFamily::Layout::kPairs
                    : family.of_replicas() ? CommunicatorFamily::Layout::kParts
                                           : CommunicatorFamily::Layout::kAcross;
      made.width = family.kind == Family::kNorm ? 1 : parallel_.tp;
      made.members = family.members;
      made.stride = family.stride;
      if (family.kind == Family::kNorm) {
        for (uint32_t stage = 0; stage < parallel_.pp; ++stage) made.groups.push_back(stage);
      } else {
        made.groups.push_back(family.stage);
        if (family.pairs()) made.groups.push_back(family.to);
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
  std::vector<std::vector<std::vector<uint32_t>>> roles_;     ///< by family, role and number
  std::map<Way, uint32_t> ways_;                              ///< families of messages
  std::map<std::pair<Family, uint32_t>, uint32_t> of_stage_;  ///< families of replicas, by stage
  uint32_t ends_ = kNoNode, norm_ = kNoNode;                  ///< families
  // Of the stage and iteration at hand:
  uint32_t stage_ = 0, iteration_ = 0;
  uint32_t begin_ = kNoNode;                         ///< the node behind which the iteration is
  uint32_t computed_ = kNoNode;                      ///< the last node that computes
  uint32_t data_ = kNoNode;                          ///< the last operation of replicas
  uint32_t keys_ = kNoNode;                          ///< keys and values on their way
  NodeMark pass_;                                    ///< what is computed
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
