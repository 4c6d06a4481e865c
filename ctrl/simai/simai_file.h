// Reads the text that AICB writes and SimAI runs: a line of sizes, the number of layers, and a line for
// each layer.
//
//   HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: TP ep: EP pp: PP vpp: V ga: GA
//     all_gpus: N checkpoints: 0 checkpoint_initiates: 0 pp_comm: BYTES        (one line)
//   LAYERS
//   name dependency  time collective bytes (forward)  the same (input gradient)  the same (weight
//     gradient)  update_time                                                   (one line each)
//
// Blanks and tabs divide words; times are ns. Facts: aliyun/SimAI f5efb5a, Workload.cc; files of
// aliyun/aicb 23eec3c, workload/simAI.
#pragma once

#include "collective_model/simai/workload.h"
#include "ctrl/simai/text_lines.h"

namespace understudy {

struct SimaiFile {
  SimaiWorkload workload;
  /// What deserves a word: sizes that the header lacks, as those of AICB before 2025 do, and what SimAI
  /// leaves out. Sentences without a full stop.
  std::vector<std::string> notes;
};

/// `gpus` takes the place of the header's all_gpus. Errors name line and field. Sizes that a header lacks
/// are 1; without all_gpus, `gpus` has to be there.
tl::expected<SimaiFile, ConfigError> read_simai(const std::string& path,
                                                std::optional<uint32_t> gpus = {});
/// The same for a text; `path` is what errors call it.
tl::expected<SimaiFile, ConfigError> parse_simai(std::string_view text, const std::string& path,
                                                 std::optional<uint32_t> gpus = {});

}  // namespace understudy
