#include "ctrl/report/json/training_json.h"

#include "ctrl/report/workload/training_report.h"

namespace understudy {

using namespace report_parts;

namespace {

Json parts_json(const IterationParts& parts) {
  return {{"compute_ps", parts.compute.ps()},    {"tensor_ps", parts.tensor.ps()},
          {"pipeline_ps", parts.pipeline.ps()},  {"data_ps", parts.data.ps()},
          {"experts_ps", parts.experts.ps()},    {"context_ps", parts.context.ps()},
          {"bubble_ps", parts.bubble.ps()},      {"slowest_ps", parts.slowest.ps()},
          {"optimizer_ps", parts.optimizer.ps()}};
}

Json stage_json(const StageResult& stage) {
  return {{"mean", parts_json(stage.mean)},
          {"longest_ps", stage.longest.ps()},
          {"slowest_replica", stage.slowest}};
}

}  // namespace

Json training_report_json(const TrainingReport& training) {
  Json out;
  out["source"] = training.source;
  out["gpus"] = training.gpus;
  out["nodes"] = training.nodes;
  out["tp"] = training.tp;
  out["pp"] = training.pp;
  out["dp"] = training.dp;
  out["ep"] = training.ep;
  out["cp"] = training.cp;
  out["micro_batches"] = training.micro_batches;
  out["flops"] = training.flops;
  out["peak_flops"] = training.peak_flops;
  out["tokens"] = training.tokens;
  out["connections"] = training.connections;
  out["iterations"] = list(training.iterations, [](const IterationResult& iteration) {
    return Json{{"begin_ps", iteration.begin.ps()},
                {"end_ps", iteration.end.ps()},
                {"mean", parts_json(iteration.mean)},
                {"stages", list(iteration.stages, stage_json)}};
  });
  out["critical_path"] = Json::array();
  for (size_t i = 0; i < training.critical.size(); ++i) {
    const CriticalStretch& stretch = training.critical[i];
    constexpr const char* kWords[] = {"compute", "tensor",    "pipeline", "data",
                                      "norm",    "optimizer", "experts",  "context"};
    const char* what = kWords[static_cast<size_t>(stretch.what)];
    Json one = {{"what", what}, {"stage", stretch.stage}, {"length_ps", stretch.length.ps()}};
    if (stretch.what <= CriticalStretch::What::kTensor) {
      one["replica"] = stretch.replica;
      if (!training.critical_nodes[i].empty()) one["node"] = training.critical_nodes[i];
    } else if (stretch.to != stretch.stage) {
      one["to"] = stretch.to;
    }
    out["critical_path"].push_back(std::move(one));
  }
  return out;
}

}  // namespace understudy
