#include "collective_model/schedule/simple_all_reduce.h"

namespace understudy {

RingMessage RingSchedule::sent(uint32_t rank, uint32_t m) const {
  RingMessage message;
  message.loop = m / per_loop_;
  const uint32_t in_loop = m - message.loop * per_loop_;
  message.step = in_loop / kSlices;
  message.slice = in_loop % kSlices;
  message.chunk = all_reduce_chunk(ranks_, rank, message.step);
  message.action = message.step == 0       ? RingAction::kOwn
                   : message.step < ranks_ ? RingAction::kReduce
                                           : RingAction::kCopy;
  const Chunk chunk = chunks_.chunk(message.loop, message.chunk);
  const uint32_t first = first_slice(chunk.bytes);
  message.size = message.slice == 0 ? first : chunk.bytes - first;
  message.offset = chunk.offset + (message.slice == 0 ? 0 : first);
  return message;
}

}  // namespace understudy
