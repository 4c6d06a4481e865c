// What a queue pair costs that does nothing: few bytes, of which each is counted.
#include <gtest/gtest.h>

#include "dataplane/base/slab.h"
#include "tests/engine/rig.h"
#include "tests/rigs/live_bytes.h"

namespace understudy {
namespace {

long long bytes_of(uint32_t queue_pairs, uint32_t send_queue, uint8_t reads) {
  ShardConfig config = rig_config(Rate(), Duration());
  config.queue_pairs = queue_pairs;
  const long long before = live_bytes;
  Rig rig(config);
  Slab<Qp> memory;
  std::vector<Slab<Qp>::Pointer> qps;
  qps.reserve(queue_pairs);
  for (uint32_t slot = 0; slot < queue_pairs; ++slot) {
    QpConfig q = rig.qp_config(slot);
    q.send_queue = send_queue;
    q.max_dest_rd_atomic = reads;
    qps.push_back(memory.make(q, rig.shard.regions(), rig.shard.rc_counters(), rig.endpoint));
    Command add;
    add.kind = CommandKind::kAddQp;
    add.qp = qps.back().get();
    add.endpoint = &rig.endpoint;
    EXPECT_EQ(rig.command(add), ReplyStatus::kDone);
  }
  return live_bytes - before;
}

TEST(Memory, OfAnIdleQueuePair) {
#ifdef LIVE_BYTES_ARE_UNKNOWN
  GTEST_SKIP() << "allocations cannot be counted under the thread sanitizer";
#endif
  constexpr uint32_t kMany = 8192;
  const auto each = [](uint32_t send_queue, uint8_t reads) {
    return (bytes_of(kMany, send_queue, reads) - bytes_of(0, send_queue, reads)) / kMany;
  };
  EXPECT_LE(each(0, 1), 512);
  EXPECT_LE(each(0, 128), 512) << "READs that there may be";
  EXPECT_GT(each(16, 1), 512 + 16 * 64) << "work that is posted has its memory";
}

}  // namespace
}  // namespace understudy
