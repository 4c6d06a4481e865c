// Reads the table of compute times that AICB's AIOB measures on a GPU, and gives them to the layers of a
// list as AICB does. Facts: aliyun/aicb 23eec3c, utils/utils.py (extract_averages) and
// SimAI_training_workload_generator.py.
#pragma once

#include "collective_model/simai/workload.h"
#include "ctrl/simai/text_lines.h"

namespace understudy {

/// Of one layer and pass; the same forward and back. ns.
struct AiobTimes {
  uint64_t attention = 0;   ///< kernels whose name has "atten", and layernorm
  uint64_t network = 0;     ///< whose name has "mlp", and layernorm2
  uint64_t embedding = 0;   ///< Emb
  uint64_t parameters = 0;  ///< param_time, on average
  uint64_t parameters_least = 0;
};

/// Sections "name:", each with lines "time_gpu_max: US", _min and _avg. Errors name the line.
tl::expected<AiobTimes, ConfigError> parse_aiob(std::string_view text, const std::string& path);
tl::expected<AiobTimes, ConfigError> read_aiob(const std::string& path);

/// Layers named as AICB names those of GPT, Llama and Mixtral get these times; rows of communication alone
/// keep theirs. A column and a row of a matrix have half each. Error: a layer of attention or of a
/// network by another name (DeepSeek's have kernels of their own), or none at all.
Result<void> give_times(const AiobTimes& times, SimaiWorkload& workload);

}  // namespace understudy
