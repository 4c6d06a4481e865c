#include "tools/rigs/ring_node/verbs_links.h"

#include <atomic>
#include <utility>

#include "dataplane/base/try.h"

namespace understudy {

Result<std::unique_ptr<VerbsLinks>> VerbsLinks::make(const VerbsDevice& device,
                                                     const RingJobMessage& job, uint32_t channel) {
  std::unique_ptr<VerbsLinks> links(new VerbsLinks(device, job, channel));
  TRY(links->allocate());
  return links;
}

Result<void> VerbsLinks::allocate() {
  const size_t buffer = size_t{kRingSteps} * job_.cutting.step_bytes;
  const std::pair<RegisteredMemory*, size_t> wanted[] = {{&receive_buffer_, buffer},
                                                         {&send_buffer_, buffer},
                                                         {&credits_in_, kRingFifoBytes},
                                                         {&credits_out_, kRingFifoBytes}};
  for (auto [memory, bytes] : wanted) {
    *memory = TRY(RegisteredMemory::make(device_.domain(), bytes,
                                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
  }
  for (VerbsQueuePair* qp : {&to_next_, &from_previous_}) {
    *qp = TRY(make_queue_pair(device_));
  }
  return {};
}

RingLinkEnd VerbsLinks::end(RingDirection direction) const {
  const bool sends = direction == RingDirection::kClientSends;
  RingLinkEnd end;
  end.channel = channel_;
  end.direction = direction;
  end.qpn = (sends ? to_next_ : from_previous_)->qp_num;
  end.psn = Psn(0);
  end.mtu = device_.mtu();
  end.gid = device_.gid();
  end.fifo_address = sends ? credits_in_.address() : 0;
  end.fifo_rkey = sends ? credits_in_.rkey() : 0;
  return end;
}

Result<void> VerbsLinks::connect(const RingLinkEnd& theirs) {
  const bool sends = theirs.direction == RingDirection::kClientSends;
  const uint8_t traffic_class = sends ? job_.data_traffic_class : job_.control_traffic_class;
  TRY(connect_queue_pair((sends ? to_next_ : from_previous_).get(), device_,
                         {.gid = theirs.gid,
                          .qpn = theirs.qpn,
                          .psn = theirs.psn.value(),
                          .mtu = theirs.mtu,
                          .traffic_class = traffic_class}));
  if (!sends) {
    fifo_address_ = theirs.fifo_address;
    fifo_rkey_ = theirs.fifo_rkey;
  }
  return {};
}

Result<void> VerbsLinks::grant(uint64_t k) {
  TRY(post_receive(from_previous_.get(), work_id(channel_, kReceive)));

  const uint64_t offset = k % kFifoSlots * kFifoStride;
  auto* entry = reinterpret_cast<CreditEntry*>(credits_out_.data() + offset);
  *entry = {.address = receive_buffer_.address() + slot_offset(k),
            .size = uint64_t{job_.cutting.step_bytes} * job_.cutting.slice_steps,
            .rkeys = {receive_buffer_.rkey()},
            .nreqs = 1,
            .tag = (job_.client_rank + job_.ranks - 1) % job_.ranks,
            .idx = k + 1,
            .padding = {}};
  return post_write(from_previous_.get(),
                    // One completion per round of the FIFO lets the driver reclaim the send queue
                    // (docs/nccl 3.1).
                    {.id = work_id(channel_, kCredit),
                     .local = credits_out_.address() + offset,
                     .bytes = sizeof(CreditEntry),
                     .lkey = credits_out_.lkey(),
                     .remote = fifo_address_ + offset,
                     .rkey = fifo_rkey_,
                     .signalled = k % kFifoSlots == 0,
                     .immediate = {}},
                    "a credit");
}

const CreditEntry* VerbsLinks::credit(uint64_t k) {
  auto* entry = reinterpret_cast<CreditEntry*>(credits_in_.data() + k % kFifoSlots * kFifoStride);
  // The device writes behind the compiler's back; idx is the last word of a credit to arrive.
  const uint64_t idx = std::atomic_ref(entry->idx).load(std::memory_order_acquire);
  return idx == k + 1 ? entry : nullptr;
}

Result<void> VerbsLinks::send(uint64_t k, const CreditEntry& credit, uint32_t bytes) {
  return post_write(to_next_.get(),
                    {.id = work_id(channel_, kData),
                     .local = send_buffer_.address() + slot_offset(k),
                     .bytes = bytes,
                     .lkey = send_buffer_.lkey(),
                     .remote = credit.address,
                     .rkey = credit.rkeys[0],
                     .signalled = true,
                     .immediate = bytes},  // host byte order up to NCCL 2.28 (docs/nccl 3.2)
                    "data");
}

size_t VerbsLinks::slot_offset(uint64_t k) const {
  return k * job_.cutting.slice_steps % kRingSteps * job_.cutting.step_bytes;
}

const float* VerbsLinks::receive_slot(uint64_t k) {
  return reinterpret_cast<const float*>(receive_buffer_.data() + slot_offset(k));
}

float* VerbsLinks::send_slot(uint64_t k) {
  return reinterpret_cast<float*>(send_buffer_.data() + slot_offset(k));
}

}  // namespace understudy
