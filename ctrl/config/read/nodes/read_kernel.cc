// [[node]] real = { kind = "kernel", ... }.
#include "ctrl/config/read/csv_file.h"
#include "ctrl/config/read/sections.h"

namespace understudy {
namespace {

constexpr uint64_t kLeastMemory = 64 << 20, kMostMemory = uint64_t{64} << 30;

enum class RealKind : uint8_t { kKernel };

}  // namespace

KernelConfig read_kernel(const TomlNode& toml, ReadContext& context) {
  TableReader table(toml, "node.real", context.errors);
  table.require("kind", "\"kernel\"; a node on the wire has real = true");
  RealKind kind = RealKind::kKernel;
  table.choice("kind", {{"kernel", RealKind::kKernel}}, kind);
  KernelConfig kernel;
  table.require("program", "what the node runs, as a shell takes it");
  if (const auto program = table.text("program")) {
    kernel.program = program->value;
    kernel.program_line = program->line;
    if (trimmed(kernel.program).empty()) {
      table.error(program->line, "program", quoted(program->value), "expected a command");
    }
  }
  if (const auto share = table.text("share")) {
    kernel.share = beside(context.errors.file(), share->value);
    kernel.share_said = share->value;
    kernel.share_line = share->line;
  }
  if (const auto memory = table.size("memory")) {
    kernel.memory = memory->value;
    if (kernel.memory < kLeastMemory || kernel.memory > kMostMemory) {
      table.error(memory->line, "memory", table.any("memory")->describe(),
                  "expected 64MiB to 64GiB");
    }
  }
  if (const auto cost = table.duration("packet_cost")) kernel.packet_cost = cost->value;
  if (const auto cost = table.duration("message_cost")) kernel.message_cost = cost->value;
  table.finish();
  return kernel;
}

}  // namespace understudy
