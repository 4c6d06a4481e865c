// Releases of NCCL by their names in a configuration.
#pragma once

#include <iterator>
#include <span>

#include "ctrl/config/config.h"

namespace understudy {

inline constexpr Named<NcclVersion> kVersionNames[] = {
    {"2.8", {8}},   {"2.9", {9}},   {"2.10", {10}}, {"2.11", {11}}, {"2.12", {12}}, {"2.13", {13}},
    {"2.14", {14}}, {"2.15", {15}}, {"2.16", {16}}, {"2.17", {17}}, {"2.18", {18}}, {"2.19", {19}},
    {"2.20", {20}}, {"2.21", {21}}, {"2.22", {22}}, {"2.23", {23}}, {"2.24", {24}}, {"2.25", {25}},
    {"2.26", {26}}, {"2.27", {27}}, {"2.28", {28}}, {"2.29", {29}}, {"2.30", {30}}, {"2.31", {31}},
};

/// Those whose costs and choices are known.
inline constexpr auto kCostVersionNames =
    std::span(kVersionNames)
        .first<std::size(kVersionNames) - (NcclVersion::kNewest - NcclVersion::kNewestWithCosts)>();

}  // namespace understudy
