// The summary of a training job as text and as JSON.
#include <nlohmann/json.hpp>

#include "ctrl/report/text.h"
#include "ctrl/training/training_summary.h"
#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

using Json = nlohmann::ordered_json;
using Kind = MessagePhase::Kind;

constexpr double kGiB = 1024.0 * 1024 * 1024;

const char* name(TrainingGroup group) {
  switch (group) {
    case TrainingGroup::kTensor:
      return "TP";
    case TrainingGroup::kPipeline:
      return "PP";
    case TrainingGroup::kData:
      return "DP";
    case TrainingGroup::kExpertData:
      return "DP/EP";
    case TrainingGroup::kExperts:
      return "EP";
    case TrainingGroup::kContext:
      break;
  }
  return "CP";
}

const char* name(TrainingTransfer transfer) {
  switch (transfer) {
    case TrainingTransfer::kAllReduce:
      return "all-reduce";
    case TrainingTransfer::kAllGather:
      return "all-gather";
    case TrainingTransfer::kReduceScatter:
      return "reduce-scatter";
    case TrainingTransfer::kAllToAll:
      return "all-to-all";
    case TrainingTransfer::kSend:
      return "send";
    case TrainingTransfer::kReceive:
      break;
  }
  return "receive";
}

const char* name(Kind kind) {
  switch (kind) {
    case Kind::kBefore:
      return "before";
    case Kind::kForward:
      return "forward";
    case Kind::kBackward:
      return "backward";
    case Kind::kAfter:
      break;
  }
  return "after";
}

/// "1.234 GB", decimal units.
std::string bytes_text(double bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB", "ZB"};
  size_t unit = 0;
  while (bytes >= 1000 && unit + 1 < std::size(kUnits)) {
    bytes /= 1000;
    ++unit;
  }
  return format_text("%.4g %s", bytes, kUnits[unit]);
}

std::string shape_text(const Transformer& model) {
  std::string text =
      format_text("%u layers, hidden %u, %u heads", model.layers, model.hidden, model.heads);
  if (model.kv_groups != model.heads) text += format_text(" with %u of keys", model.kv_groups);
  text += format_text(", feed-forward %u%s, vocabulary %u, sequence %u", model.feed_forward,
                      model.gated ? " gated" : "", model.vocabulary, model.sequence);
  if (model.experts == 0) return text;
  text += format_text("; %u experts of width %u, %u of a token", model.experts,
                      model.expert_feed_forward, model.top_k);
  if (model.shared_experts > 0) text += format_text(", %u shared", model.shared_experts);
  if (model.dense_layers > 0) text += format_text(", %u dense layers", model.dense_layers);
  if (model.expert_capacity > 1) text += format_text(", capacity %.3g", model.expert_capacity);
  return text + ", all with as many tokens";
}

std::string division_text(const Parallel& parallel) {
  std::string text = count_text(parallel.gpus(), "GPU") +
                     format_text(": TP %u%s, PP %u", parallel.tp,
                                 parallel.sequence_parallel ? " with sequences" : "", parallel.pp);
  if (parallel.pp > 1) {
    text += " (" + std::string(name_of(kPipelineScheduleNames, parallel.schedule));
    if (parallel.chunks > 1) text += ", " + count_text(parallel.chunks, "chunk");
    text += ")";
  }
  text += format_text(", DP %u", parallel.dp);
  if (parallel.cp > 1) text += format_text(", CP %u", parallel.cp);
  if (parallel.ep > 1) text += format_text(", EP %u", parallel.ep);
  if (parallel.zero > 0) text += format_text(" with ZeRO %u", parallel.zero);
  return text + "; " + count_text(parallel.global_batch, "sequence") + " an iteration: " +
         format_text("%llu x %u on each of them\n",
                     static_cast<unsigned long long>(parallel.micro_batches()),
                     parallel.micro_batch);
}

std::string memory_text(const TrainingConfig& training, const TrainingSummary& summary) {
  std::string text =
      "memory per GPU (GiB)  weights  gradients  optimizer  activations    ends  working     sum\n";
  for (const StageSummary& stage : summary.stages) {
    const StageMemory& m = stage.memory;
    text += format_text("  stage %-12u %9.3f  %9.3f  %9.3f  %11.3f %7.3f  %7.3f %7.3f\n",
                        stage.stage, m.weights / kGiB, m.gradients / kGiB, m.optimizer / kGiB,
                        m.activations / kGiB, m.ends / kGiB, m.working / kGiB, m.all() / kGiB);
  }
  if (!training.gpu) return text + "  of which there is: not said, without [gpu]\n";
  const StageSummary& fullest = summary.stages[summary.fullest];
  const double left = static_cast<double>(training.gpu->memory) - fullest.memory.all();
  const double all = static_cast<double>(training.gpu->memory) / kGiB;
  if (left >= 0) {
    return text + format_text("  fits: stage %u leaves %.3f of %.3f GiB\n", fullest.stage,
                              left / kGiB, all);
  }
  return text +
         format_text("  does not fit: stage %u needs %.3f GiB more than the %.3f there are\n",
                     fullest.stage, -left / kGiB, all);
}

/// Of groups: "DP/EP" is one of them.
int name_width(const Parallel& parallel) { return parallel.ep > 1 ? 5 : 2; }

std::string phase_text(const MessagePhase& phase, const Parallel& parallel) {
  const int width = name_width(parallel);
  std::string text = std::string("    ") + name(phase.kind);
  if (phase.kind == Kind::kForward || phase.kind == Kind::kBackward) {
    if (parallel.chunks > 1) text += format_text(", chunk %u", phase.chunk);
    text += format_text(", %llu times", static_cast<unsigned long long>(phase.times));
  }
  text += "\n";
  for (const TrainingMessage& message : phase.messages) {
    text += format_text("      %-*s  %-14s  %5llu x %-10s", width, name(message.group),
                        name(message.transfer), static_cast<unsigned long long>(message.count),
                        bytes_text(message.bytes).c_str());
    text += "  " + std::string(message.what) + "\n";
  }
  return text;
}

std::string messages_text(const Parallel& parallel, const TrainingSummary& summary) {
  std::string text = "messages of a GPU in an iteration, in order; sizes are of whole operations\n";
  for (const StageSummary& stage : summary.stages) {
    text += format_text("  stage %u\n", stage.stage);
    for (const MessagePhase& phase : stage.messages) text += phase_text(phase, parallel);
    text += "    sum, sent by the GPU in rings\n";
    for (const TrainingGroup group : kTrainingGroups) {
      const TrainingTraffic& sum = stage.traffic[static_cast<size_t>(group)];
      if (group > TrainingGroup::kData && sum.operations == 0) continue;
      text += format_text("      %-*s  %7llu operations  %s\n", name_width(parallel), name(group),
                          static_cast<unsigned long long>(sum.operations),
                          bytes_text(sum.bytes).c_str());
    }
  }
  return text;
}

std::string time_text(const TrainingConfig& training, const TrainingSummary& summary) {
  if (!summary.time) return "compute time: not known, without [gpu]\n";
  const ComputeTime& time = *summary.time;
  const double gpus = static_cast<double>(training.parallel.gpus());
  const TrainingGpu& gpu = *training.gpu;
  std::string how = gpu.layer ? ", with the layers' times of [gpu]" : "";
  if (!gpu.layer || (!gpu.output && training.model.vocabulary > 0)) {
    how += format_text(
        ", %sif matrices reach %.3g of the GPU's FLOP/s and values %.3g of its "
        "memory's rate",
        gpu.layer ? "and of the output layer " : "", gpu.efficiency, gpu.memory_efficiency);
  }
  return "compute time  " + duration_text(time.all()) + how + ": pipeline " +
         duration_text(time.pipeline) +
         format_text(", in which stages wait %.2f %%", 100 * time.bubble) + ", optimizer " +
         duration_text(time.optimizer) +
         format_text("; %.4g TFLOP/s per GPU\n",
                     summary.flops / gpus / time.all().seconds() / 1e12);
}

Json memory_json(const StageMemory& memory) {
  return {{"weights", memory.weights},
          {"gradients", memory.gradients},
          {"optimizer", memory.optimizer},
          {"activations", memory.activations},
          {"ends", memory.ends},
          {"working", memory.working},
          {"all", memory.all()}};
}

Json stage_json(const StageSummary& stage, const Parallel& parallel) {
  Json json = {{"stage", stage.stage},
               {"parameters", stage.parameters},
               {"memory_bytes", memory_json(stage.memory)}};
  Json& phases = json["phases"] = Json::array();
  for (const MessagePhase& phase : stage.messages) {
    Json one = {{"phase", name(phase.kind)}, {"chunk", phase.chunk}, {"times", phase.times}};
    Json& messages = one["messages"] = Json::array();
    for (const TrainingMessage& message : phase.messages) {
      messages.push_back({{"group", name(message.group)},
                          {"ranks", ranks_of(message, parallel)},
                          {"operation", name(message.transfer)},
                          {"what", message.what},
                          {"bytes", message.bytes},
                          {"count", message.count}});
    }
    phases.push_back(std::move(one));
  }
  for (const TrainingGroup group : kTrainingGroups) {
    const TrainingTraffic& sum = stage.traffic[static_cast<size_t>(group)];
    json["traffic"][name(group)] = {{"operations", sum.operations}, {"sent_bytes", sum.bytes}};
  }
  return json;
}

}  // namespace

std::string training_text(const Config& config, const TrainingSummary& summary) {
  const TrainingConfig& training = *config.training;
  std::string text = config.path + ": " + shape_text(training.model) + "\n";
  text += division_text(training.parallel);
  text += format_text("parameters    %llu", static_cast<unsigned long long>(summary.parameters));
  if (summary.active < summary.parameters) {
    text += format_text(", %llu of a token", static_cast<unsigned long long>(summary.active));
  }
  text += "; per GPU";
  for (const StageSummary& stage : summary.stages) {
    text += format_text("%s %llu (stage %u)", &stage == &summary.stages.front() ? "" : ",",
                        static_cast<unsigned long long>(stage.parameters), stage.stage);
  }
  text += format_text("\nFLOPs         %.5g an iteration, %.5g per GPU\n", summary.flops,
                      summary.flops / static_cast<double>(training.parallel.gpus()));
  text += memory_text(training, summary) + messages_text(training.parallel, summary) +
          time_text(training, summary);
  return text +
         "not here: how long messages take, and what they hide behind computing; memory of CUDA, "
         "NCCL "
         "and the framework\n";
}

std::string training_json(const Config& config, const TrainingSummary& summary) {
  const TrainingConfig& training = *config.training;
  Json json = {{"schema", "understudy-workload/1"},
               {"config", {{"path", config.path}, {"hash", config.hash}}},
               {"gpus", training.parallel.gpus()},
               {"micro_batches", training.parallel.micro_batches()},
               {"parameters", summary.parameters},
               {"active_parameters", summary.active},
               {"flops", summary.flops}};
  if (training.gpu) {
    const StageSummary& fullest = summary.stages[summary.fullest];
    const double left = static_cast<double>(training.gpu->memory) - fullest.memory.all();
    json["memory"] = {{"there_is_bytes", training.gpu->memory},
                      {"fullest_stage", fullest.stage},
                      {"fits", left >= 0},
                      {"left_bytes", left}};
  }
  json["stages"] = Json::array();
  for (const StageSummary& stage : summary.stages) {
    json["stages"].push_back(stage_json(stage, training.parallel));
  }
  if (summary.time) {
    json["compute"] = {{"efficiency", training.gpu->efficiency},
                       {"pipeline_s", summary.time->pipeline.seconds()},
                       {"busiest_stage_s", summary.time->busiest.seconds()},
                       {"bubble", summary.time->bubble},
                       {"optimizer_s", summary.time->optimizer.seconds()},
                       {"all_s", summary.time->all().seconds()}};
  }
  return json.dump(2) + "\n";
}

}  // namespace understudy
