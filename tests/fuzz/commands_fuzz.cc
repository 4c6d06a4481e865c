// libFuzzer target: any text is a live command.
#include "tests/fuzz/commands_drive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  understudy::drive_commands({data, size});
  return 0;
}
