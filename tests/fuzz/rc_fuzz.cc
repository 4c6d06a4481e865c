// libFuzzer target: any bytes are packets, work and time for one queue pair.
#include "tests/fuzz/rc_drive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  understudy::RcDrive().run({data, size});
  return 0;
}
