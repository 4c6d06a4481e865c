// libFuzzer target: any bytes are a frame.
#include "tests/fuzz/parse_drive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  understudy::drive_parse({data, size});
  return 0;
}
