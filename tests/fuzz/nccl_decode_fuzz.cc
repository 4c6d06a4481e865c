// libFuzzer target: any bytes are packets, and what NCCL's connections carry.
#include "tests/fuzz/nccl_decode_drive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  understudy::nccl_decode::drive_nccl_decode({data, size});
  return 0;
}
