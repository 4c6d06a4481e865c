#include "ctrl/config/read/nodes/read_machine.h"

#include "ctrl/config/read/csv_file.h"
#include "ctrl/config/read/nodes/topo_file.h"

namespace understudy {
namespace {

/// Stands, without a line, for one that is wrong: what would follow from a node of one GPU and one NIC
/// is no error of its own.
Machine stand_in(ReadContext& context) {
  context.machines_complete = false;
  return known_machines().front();
}

/// [[node]] machine.
std::optional<Machine> read_type(TableReader& node, ReadContext& context) {
  const auto name = node.text("machine");
  if (!name) return std::nullopt;
  std::vector<std::string_view> names;
  for (const Machine& machine : known_machines()) {
    names.push_back(machine.name);
    if (machine.name != name->value) continue;
    Machine found = machine;
    found.line = name->line;
    return found;
  }
  node.unknown_word(*name, "machine", names);
  return stand_in(context);
}

/// [[node]] topo_file.
std::optional<Machine> read_topo_file(TableReader& node, ReadContext& context) {
  const auto name = node.text("topo_file");
  if (!name) return std::nullopt;
  const auto file = read_csv_file(node, context, *name, "topo_file");
  if (!file) return stand_in(context);
  auto machine = read_topo_text(file->text, file->path);
  if (!machine) {
    context.errors.add(std::move(machine.error()));
    return stand_in(context);
  }
  machine->line = name->line;
  return std::move(*machine);
}

/// What `file` leaves open is as of `type`.
template <typename T>
void fill(ReadContext& context, const Machine& type, Machine& file, std::optional<T> Machine::*fact,
          std::string_view what) {
  if (!(file.*fact)) {
    file.*fact = type.*fact;
  } else if (type.*fact && *(type.*fact) != *(file.*fact)) {
    context.config.machine_notes.push_back(std::string(what) + " is not " + type.name +
                                           "'s, but as in " + file.name);
  }
}

}  // namespace

std::optional<Machine> read_machine(TableReader& node, ReadContext& context) {
  const auto type = read_type(node, context);
  const auto topo = read_topo_file(node, context);
  auto machine = topo;
  if (!topo) {
    machine = type;
  } else if (type) {
    fill(context, *type, *machine, &Machine::gpus, "gpus");
    fill(context, *type, *machine, &Machine::nics, "nics");
    fill(context, *type, *machine, &Machine::nic_rate, "link.rate");
    fill(context, *type, *machine, &Machine::cpu, "[nccl] cpu");
    fill(context, *type, *machine, &Machine::gpu, "[nccl] gpu");
    // Files that tell of GPUs tell of all their NVLinks.
    if (!machine->intra) {
      machine->intra = type->intra;
      machine->nvlink = type->nvlink;
      machine->nvls = type->nvls;
    } else {
      fill(context, *type, *machine, &Machine::intra, "[nccl] intra");
      if (machine->nvlink) fill(context, *type, *machine, &Machine::nvlink, "NVLink's rate");
    }
  }
  const bool wrong = (type && type->line == 0) || (topo && topo->line == 0);
  if (machine && !wrong) context.machines.push_back(*machine);
  return machine;
}

}  // namespace understudy
