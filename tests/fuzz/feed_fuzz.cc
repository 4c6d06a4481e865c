// libFuzzer target: any bytes are the feed of a profiler plugin.
#include "tests/fuzz/feed_drive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  understudy::drive_feed({data, size});
  return 0;
}
