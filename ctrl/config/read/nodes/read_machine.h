// The machine type and the topology file of a node, and what all nodes' machines agree on, for sections that describe all
// nodes together.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ctrl/config/presets/machine.h"
#include "ctrl/config/read/sections.h"

namespace understudy {

/// [[node]] machine and topo_file, of which the file holds where both say something. Nothing if they
/// are absent. It is among context.machines from here on, unless it stands for one that is wrong.
std::optional<Machine> read_machine(TableReader& node, ReadContext& context);

/// Whether machines that say `fact` say different things of it; then the second one is reported, and
/// `instead` names the key that decides.
template <typename T>
std::optional<T> agreed(ReadContext& context, std::optional<T> Machine::*fact,
                        std::string_view instead) {
  const Machine* first = nullptr;
  for (const Machine& machine : context.machines) {
    if (!(machine.*fact)) continue;
    if (first == nullptr) first = &machine;
    if (*(first->*fact) == *(machine.*fact)) continue;
    context.errors.add(machine.line, "node.machine", "\"" + machine.name + "\"",
                       "differs from \"" + first->name + "\" in line " +
                           std::to_string(first->line) + ", and " + std::string(instead) +
                           " holds of all nodes: give it");
    context.machines_complete = false;
    return std::nullopt;
  }
  return first == nullptr ? std::nullopt : first->*fact;
}

/// Where a machine says `known` but the file `stated`, which holds: a note for the reports.
template <typename T>
void note_stated(ReadContext& context, const Machine& machine, const std::optional<T>& known,
                 const T& stated, std::string_view key) {
  if (!known || *known == stated) return;
  context.config.machine_notes.push_back(std::string(key) + " is not " + machine.name +
                                         "'s, but as given in the configuration");
}

/// The same against all machines.
template <typename T>
void note_stated(ReadContext& context, std::optional<T> Machine::*fact, const T& stated,
                 std::string_view key) {
  for (const Machine& machine : context.machines) {
    note_stated(context, machine, machine.*fact, stated, key);
  }
}

}  // namespace understudy
