// libFuzzer target: anything passes on an interface that roce-check looks at.
#include "tests/fuzz/live_capture_drive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  understudy::drive_live_capture({data, size});
  return 0;
}
