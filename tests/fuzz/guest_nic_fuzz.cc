// libFuzzer target: messages and shared memory of a guest, for its network device.
#include "tests/fuzz/guest_nic_drive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  understudy::GuestNicDrive().run({data, size});
  return 0;
}
