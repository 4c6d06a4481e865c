// libFuzzer target: any text goes through the reader of NCCL's topology files.
#include <cstddef>
#include <cstdint>
#include <string>

#include "ctrl/config/read/nodes/topo_file.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto machine = understudy::read_topo_text(text, "fuzz");
  understudy::must(machine ? machine->gpus.value_or(0) <= 64 : !machine.error().allowed.empty());
  return 0;
}
