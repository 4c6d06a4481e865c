// A reference rank beside many emulated ones in virtual time: bootstrap, net_ib's exchange and
// every packet.
#include "tests/ctrl/nccl_virtual/rig.h"

namespace understudy::nccl_rank {
namespace {

TEST(NcclVirtual, SixtyFour) {
  for (const uint32_t minor : {18U, 23U, 28U, 30U}) {
    Case c;
    c.ranks = 64;
    c.payload = "exact";
    c.sizes = "\"1MiB\"";
    play(c, minor);
    c.payload = "synthetic";
    c.algorithm = "tree";
    play(c, minor);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(NcclVirtual, Thousand) {
  VirtualJob::Options options;
  options.whole = true;
  Case c;
  c.ranks = 1024;
  c.channels = 1;
  c.payload = "exact";
  c.sizes = "\"1MiB\"";
  play(c, 28, options);
  c.payload = "synthetic";
  c.algorithm = "tree";
  c.channels = 2;
  play(c, 30, options);
}

}  // namespace
}  // namespace understudy::nccl_rank
