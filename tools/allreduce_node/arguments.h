// allreduce_node's command line.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "tools/allreduce_node/options.h"

namespace understudy {

/// As typed, until complete() has made `node` of it.
struct Arguments {
  NodeOptions node;
  std::string from = "1MiB", to = "64MiB";
  uint64_t factor = 2;
  std::string collective = "all_reduce", type = "float", reduction = "sum";
  std::string place = "out";
  std::string real;
  std::string json;
};

void describe(CLI::App& app, Arguments& arguments);

/// Fills in `node`. Returns what is wrong with the command line, or nothing.
std::string complete(Arguments& arguments);

}  // namespace understudy
