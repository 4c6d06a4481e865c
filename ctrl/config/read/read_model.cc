// [model], [parallel] and [gpu]: what is trained, how it is divided, and on what. [operations]:
// model/read_model_times.cc.
#include <charconv>
#include <cmath>
#include <numeric>
#include <vector>

#include "ctrl/config/read/sections.h"

namespace understudy {
namespace {

constexpr int64_t kMostWidth = 1 << 22;  ///< of matrices: products of two fit by far
constexpr int64_t kMostTokens = 1 << 24;
constexpr int64_t kMostLayers = 10'000;
constexpr int64_t kMostRanks = 1 << 20;
constexpr int64_t kMostBatch = 1 << 30;
constexpr int64_t kMostIterations = 10'000;

template <typename T>
void read_integer(TableReader& table, std::string_view key, int64_t least, int64_t most, T& out) {
  if (const auto value = table.integer(key, least, most)) out = static_cast<T>(value->value);
}

void read_flag(TableReader& table, std::string_view key, bool& out) {
  if (const auto value = table.boolean(key)) out = value->value;
}

/// True if a preset has set everything.
bool read_preset(TableReader& table, Transformer& model) {
  const auto name = table.text("preset");
  if (!name) return false;
  const auto preset = find_transformer(name->value);
  if (preset) {
    model = *preset;
  } else {
    table.unknown_word(*name, "preset", transformer_presets());
  }
  return true;  // what a wrong one lacks is not reported again
}

void read_experts(TableReader& table, Transformer& model) {
  const bool were = model.experts > 0;
  read_integer(table, "experts", 0, kMostWidth, model.experts);
  if (model.experts == 0) {
    for (const char* key :
         {"top_k", "expert_feed_forward", "shared_experts", "dense_layers", "expert_capacity"}) {
      const TomlNode* value = table.any(key);
      if (value == nullptr) continue;
      table.error(value->line, key, value->describe(), "the model has no experts");
    }
  } else if (!were) {
    table.require("top_k", "an integer: experts of a token");
    model.expert_feed_forward = model.feed_forward;
  }
  read_integer(table, "top_k", 1, kMostWidth, model.top_k);
  read_integer(table, "expert_feed_forward", 1, 4 * kMostWidth, model.expert_feed_forward);
  read_integer(table, "shared_experts", 0, 1024, model.shared_experts);
  read_integer(table, "dense_layers", 0, kMostLayers, model.dense_layers);
  const auto capacity = table.number("expert_capacity");
  if (!capacity) return;
  model.expert_capacity = capacity->value;
  if (capacity->value >= 1 && capacity->value <= 100) return;
  table.error(capacity->line, "expert_capacity", table.any("expert_capacity")->describe(),
              "expected places of an expert in multiples of its mean, from 1 to 100");
}

void read_shape(TableReader& table, Transformer& model) {
  if (!read_preset(table, model)) {
    constexpr const char* kOr = ", or preset = \"llama2-70b\" for all of them";
    for (const char* key : {"layers", "hidden", "heads", "vocabulary", "sequence"}) {
      table.require(key, std::string("an integer") + kOr);
    }
  }
  const bool own_heads = table.any("heads") != nullptr;
  const bool own_hidden = table.any("hidden") != nullptr;
  read_integer(table, "layers", 1, kMostLayers, model.layers);
  read_integer(table, "hidden", 1, kMostWidth, model.hidden);
  read_integer(table, "heads", 1, kMostWidth, model.heads);
  if (own_heads) model.kv_groups = model.heads;
  read_integer(table, "kv_groups", 1, kMostWidth, model.kv_groups);
  if (own_hidden) model.feed_forward = 4 * model.hidden;
  read_integer(table, "feed_forward", 1, 4 * kMostWidth, model.feed_forward);
  read_integer(table, "vocabulary", 0, kMostTokens, model.vocabulary);
  read_integer(table, "sequence", 1, kMostTokens, model.sequence);
  read_flag(table, "gated", model.gated);
  read_flag(table, "tied_embeddings", model.tied_embeddings);
  read_flag(table, "biases", model.biases);
  read_flag(table, "positions", model.positions);
  read_flag(table, "dropout", model.dropout);
  read_flag(table, "fused_attention", model.fused_attention);
  read_experts(table, model);
  table.choice("norm", {{"layer", false}, {"rms", true}}, model.rms_norm);
}

void read_division(TableReader& table, Parallel& parallel) {
  read_integer(table, "tp", 1, kMostRanks, parallel.tp);
  read_integer(table, "pp", 1, kMostRanks, parallel.pp);
  read_integer(table, "dp", 1, kMostRanks, parallel.dp);
  read_integer(table, "ep", 1, kMostRanks, parallel.ep);
  read_integer(table, "cp", 1, kMostRanks, parallel.cp);
  read_integer(table, "chunks", 1, kMostLayers, parallel.chunks);
  read_integer(table, "micro_batch", 1, kMostRanks, parallel.micro_batch);
  parallel.global_batch = uint64_t{parallel.micro_batch} * parallel.dp;
  read_integer(table, "global_batch", 1, kMostBatch, parallel.global_batch);
  table.choice_among("schedule", kPipelineScheduleNames, parallel.schedule);
  read_flag(table, "sequence_parallel", parallel.sequence_parallel);
  table.choice("recompute",
               {{"none", Recompute::kNone},
                {"selective", Recompute::kSelective},
                {"full", Recompute::kFull}},
               parallel.recompute);
  read_integer(table, "zero", 0, 3, parallel.zero);
  table.choice("gradients", {{"fp32", 4U}, {"bf16", 2U}}, parallel.gradient_bytes);
  read_flag(table, "overlap_gradients", parallel.overlap_gradients);
  read_flag(table, "overlap_weights", parallel.overlap_weights);
  read_flag(table, "overlap_pipeline", parallel.overlap_pipeline);
  read_integer(table, "bucket", 1, INT64_C(1) << 40, parallel.bucket);
}

}  // namespace

void read_slow(TableReader& of, std::string_view name, ReadContext& context,
               std::vector<std::pair<NodeId, double>>& slow) {
  const TomlNode* toml = of.table("slow");
  if (toml == nullptr) return;
  TableReader table(*toml, std::string(name) + ".slow", context.errors);
  for (const TomlNode& child : toml->children) {
    const auto factor = table.number(child.key);
    if (!factor) continue;
    if (!(factor->value >= 1e-3 && factor->value <= 1e3)) {
      table.error(factor->line, child.key, child.describe(),
                  "expected how many times as long the node computes, from 0.001 to 1000");
      continue;
    }
    const auto nodes = context.resolve_all(table, child.key, {child.key, factor->line});
    for (const NodeId node : nodes) slow.emplace_back(node, factor->value);
  }
  table.finish();
}

namespace {

struct Unit {
  std::string_view name;
  double factor;
};

/// A number above 0 with one of `units` behind it.
void read_quantity(TableReader& table, std::string_view key, std::initializer_list<Unit> units,
                   std::string_view example, double& out) {
  const auto text = table.text(key);
  if (!text) return;
  const char* end = text->value.data() + text->value.size();
  double value = 0;
  const auto [rest, error] = std::from_chars(text->value.data(), end, value);
  const std::string_view unit(rest, static_cast<size_t>(end - rest));
  for (const Unit& known : units) {
    constexpr double kLeast = 1e6, kMost = 1e21;
    const double all = value * known.factor;
    if (error != std::errc() || unit != known.name || !(all >= kLeast && all <= kMost)) continue;
    out = all;
    return;
  }
  std::string allowed = "expected a number with its unit in quotes, as in \"" +
                        std::string(example) + "\"; units are ";
  for (const Unit& known : units) {
    if (known.name != units.begin()->name) allowed += ", ";
    allowed += known.name;
  }
  table.error(text->line, key, table.any(key)->describe(), allowed);
}

void read_share(TableReader& table, std::string_view key, const std::string& of, double& out) {
  const auto share = table.number(key);
  if (!share) return;
  out = share->value;
  if (share->value >= 1e-3 && share->value <= 1) return;
  table.error(share->line, key, table.any(key)->describe(),
              "expected a share of " + of + ", from 0.001 to 1");
}

void read_gpu(const TomlNode& toml, ReadContext& context, TrainingConfig& training) {
  TableReader table(toml, "gpu", context.errors);
  TrainingGpu gpu;
  if (const auto name = table.text("preset")) {
    if (const auto preset = find_gpu(name->value)) {
      gpu = *preset;
    } else {
      table.unknown_word(*name, "preset", gpu_presets());
    }
  } else {
    constexpr const char* kOr = ", or preset = \"h100\" for all of them";
    table.require("flops", std::string("as \"989TFLOP/s\"") + kOr);
    table.require("memory", std::string("as \"80GiB\"") + kOr);
    table.require("memory_bandwidth", std::string("as \"3350GB/s\"") + kOr);
  }
  read_quantity(table, "flops", {{"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}},
                "989TFLOP/s", gpu.flops);
  if (const auto memory = table.size("memory")) gpu.memory = memory->value;
  read_quantity(table, "memory_bandwidth", {{"GB/s", 1e9}, {"TB/s", 1e12}}, "3350GB/s",
                gpu.memory_bandwidth);
  read_share(table, "efficiency", "flops", gpu.efficiency);
  read_share(table, "memory_efficiency", "memory_bandwidth", gpu.memory_efficiency);
  table.any("table");  // read once the division is known to fit
  read_given_times(table, context, training, gpu);
  read_slow(table, "gpu", context, training.slow);
  table.finish();
  training.gpu = gpu;
}

}  // namespace

void read_model(TableReader& root, ReadContext& context) {
  const size_t errors = context.errors.size();
  const TomlNode* model = root.table("model");
  const TomlNode* parallel = root.table("parallel");
  const TomlNode* gpu = root.table("gpu");
  const TomlNode* operations = root.table("operations");
  if (model == nullptr) {
    for (const auto& [key, toml] : {std::pair{"parallel", parallel}, std::pair{"gpu", gpu},
                                    std::pair{"operations", operations}}) {
      if (toml == nullptr) continue;
      root.error(toml->line, key, "[" + std::string(key) + "] without [model]",
                 "[model] says what is trained");
    }
    return;
  }
  TrainingConfig training;
  training.line = model->line;
  training.parallel_line = parallel != nullptr ? parallel->line : model->line;
  training.gpu_line = gpu != nullptr ? gpu->line : model->line;
  TableReader shape(*model, "model", context.errors);
  read_shape(shape, training.model);
  shape.finish();
  static const TomlNode kEmpty{};
  TableReader division(parallel != nullptr ? *parallel : kEmpty, "parallel", context.errors);
  read_division(division, training.parallel);
  if (training.parallel.zero == 3) {
    for (const char* key : {"bucket", "overlap_gradients", "overlap_weights"}) {
      const TomlNode* value = division.any(key);
      if (value == nullptr) continue;
      division.error(value->line, key, value->describe(),
                     "with zero = 3 weights and gradients go layer by layer, beside the computing");
    }
  }
  read_integer(division, "iterations", 1, kMostIterations, training.iterations);
  read_sender(division, context, training.sender);
  std::vector<NodeId> all(context.config.nodes.size());
  std::iota(all.begin(), all.end(), NodeId{0});
  name_sender(division, context, training.sender, "[model]", all);
  division.finish();
  if (gpu != nullptr) read_gpu(*gpu, context, training);
  if (operations != nullptr) {
    read_operations(*operations, context, training);
    if (!context.config.nodes.empty()) {
      root.error(operations->line, "operations", "[operations] beside [[node]]s",
                 "it is in place of nodes and their network");
    }
  }
  if (context.errors.size() > errors) return;
  for (const Misfit& misfit : misfits(training.model, training.parallel)) {
    TableReader& table = misfit.table == "model" ? shape : division;
    const TomlNode* value = table.any(misfit.key);
    table.error(value != nullptr ? value->line : table.line(), misfit.key,
                std::to_string(misfit.found), misfit.why);
  }
  if (training.gpu && context.errors.size() == errors) {
    TableReader table(*gpu, "gpu", context.errors);
    if (const auto name = table.text("table")) read_operator_table(table, context, *name, training);
  }
  context.config.training = training;
}

}  // namespace understudy
