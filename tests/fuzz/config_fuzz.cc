// libFuzzer target: any text goes through the configuration's reader. Build with clang and
// -fsanitize=fuzzer,address,undefined; a good start is a folder with the files of configs/.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "ctrl/config/read/load.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const understudy::ConfigResult result = understudy::load_config_text(text, "fuzz");
  // An answer is a configuration with nodes or at least one error.
  if (result ? result->nodes.empty() : result.error().empty()) std::abort();
  return 0;
}
