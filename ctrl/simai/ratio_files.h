// Reads SimAI's tables of ratios: nic_ratio.csv, nvlink_ratio.csv and ata_ratio.csv of a folder
// (aliyun/SimAI f5efb5a, inputs/ratio).
#pragma once

#include "collective_model/simai/ratios.h"
#include "ctrl/simai/text_lines.h"

namespace understudy {

/// A head line, then lines of bytes and a share for each number of nodes: 1, 2, 4 .. 128, and many
/// groups. More columns are left out; an empty cell is 1, as SimAI takes it. Errors name the line.
tl::expected<RatioTable, ConfigError> parse_ratios(std::string_view text, const std::string& path);

tl::expected<RatioTables, ConfigError> read_ratios(const std::string& folder);

}  // namespace understudy
