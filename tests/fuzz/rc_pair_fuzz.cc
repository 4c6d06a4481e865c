// libFuzzer target: any bytes are the work of two queue pairs and all that happens to their
// packets.
#include "tests/fuzz/rc_pair_drive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  understudy::drive_rc_pair({data, size});
  return 0;
}
