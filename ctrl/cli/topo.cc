#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "ctrl/cli/commands.h"
#include "ctrl/topology/topology.h"
#include "ctrl/topology/topology_dot.h"
#include "ctrl/topology/topology_summary.h"

namespace understudy {
namespace {

struct TopoArguments {
  std::string config, drawing;
  bool json = false, all = false;
};

int topo(const TopoArguments& arguments) {
  if (!arguments.drawing.empty() && !can_draw(arguments.drawing)) {
    std::fprintf(stderr, "--draw %s: a drawing's name ends in .svg, .png or .dot\n",
                 arguments.drawing.c_str());
    return kExitBadInput;
  }
  const auto config = load_with_model(arguments.config);
  if (!config) return kExitBadInput;
  if (config->nodes.empty()) {
    std::fprintf(stderr, "%s: there is no [[node]], and so no network\n", config->path.c_str());
    return kExitBadInput;
  }
  const auto topology = build_topology(*config);
  if (!topology) {
    std::fputs(describe(topology.error()).c_str(), stderr);
    return kExitBadInput;
  }
  const TopologySummary summary = summarize(*config, *topology);
  const std::string text =
      arguments.json ? summary_json(*config, summary) : summary_text(*config, summary);
  std::fputs(text.c_str(), stdout);
  if (arguments.drawing.empty()) return kExitOk;
  const auto drawn = draw_topology(topology->graph, config->path, arguments.drawing, arguments.all,
                                   blocks_of(*config));
  if (!drawn) {
    std::fprintf(stderr, "%s\n", drawn.error().text.c_str());
    return kExitFailed;
  }
  if (!arguments.json) std::printf("drawing: %s\n", arguments.drawing.c_str());
  return kExitOk;
}

}  // namespace

void add_topo(CLI::App& app, int& status) {
  CLI::App* command =
      app.add_subcommand("topo", "Says what a configuration's network amounts to, and draws it");
  auto arguments = std::make_shared<TopoArguments>();
  command->add_option("config", arguments->config, "Configuration (TOML)")->required();
  CLI::Option* draw = command->add_option(
      "--draw", arguments->drawing, "Draw it: *.svg or *.png by Graphviz, or its program, *.dot");
  command
      ->add_flag("--all", arguments->all,
                 "Draw each host and switch: of more than 64 hosts, racks or pods are boxes else")
      ->needs(draw);
  command->add_flag("--json", arguments->json, "Print the summary as JSON");
  command->footer("Example: understudy topo configs/topology/fat_tree_1024.toml --draw out.svg");
  command->callback([arguments, &status] { status = topo(*arguments); });
}

}  // namespace understudy
