#include "tools/rigs/ring_node/verbs/verbs_link.h"

#include <algorithm>
#include <atomic>

#include "dataplane/base/try.h"

namespace understudy {

Result<std::unique_ptr<VerbsLink>> VerbsLink::make(const VerbsDevice& device,
                                                   const Settings& settings) {
  std::unique_ptr<VerbsLink> link(new VerbsLink(device, settings));
  const auto memory = [&](size_t bytes) {
    return RegisteredMemory::make(device.domain(), bytes,
                                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  };
  link->buffer_ = TRY(memory(std::max<size_t>(size_t{settings.slots} * settings.slot_bytes, 1)));
  link->credits_ = TRY(memory(kRingFifoBytes));
  link->qp_ = TRY(make_queue_pair(device));
  return link;
}

void VerbsLink::describe(RingLinkEnd& end) const {
  end.qpn = qp_->qp_num;
  end.psn = Psn(0);
  end.mtu = device_.mtu();
  end.gid = device_.gid();
  end.fifo_address = settings_.sends ? credits_.address() : 0;
  end.fifo_rkey = settings_.sends ? credits_.rkey() : 0;
}

Result<void> VerbsLink::connect(const RingLinkEnd& theirs, uint8_t traffic_class) {
  TRY(connect_queue_pair(qp_.get(), device_,
                         {.gid = theirs.gid,
                          .qpn = theirs.qpn,
                          .psn = theirs.psn.value(),
                          .mtu = theirs.mtu,
                          .traffic_class = traffic_class}));
  fifo_address_ = theirs.fifo_address;
  fifo_rkey_ = theirs.fifo_rkey;
  return {};
}

Result<void> VerbsLink::grant(uint64_t k, uint32_t capacity) {
  TRY(post_receive(qp_.get(), work_id(settings_.number, kReceive)));
  const uint64_t offset = k % kFifoSlots * kFifoStride;
  auto* entry = reinterpret_cast<CreditEntry*>(credits_.data() + offset);
  *entry = {.address = buffer_.address() + slot_offset(k),
            .size = capacity,
            .rkeys = {buffer_.rkey()},
            .nreqs = 1,
            .tag = settings_.sender_rank,
            .idx = k + 1,
            .padding = {}};
  return post_write(qp_.get(),
                    // One completion per round of the FIFO lets the driver reclaim the send queue
                    // (docs/nccl 3.1).
                    {.id = work_id(settings_.number, kCredit),
                     .local = credits_.address() + offset,
                     .bytes = sizeof(CreditEntry),
                     .lkey = credits_.lkey(),
                     .remote = fifo_address_ + offset,
                     .rkey = fifo_rkey_,
                     .signalled = k % kFifoSlots == 0,
                     .immediate = {}},
                    "a credit");
}

const CreditEntry* VerbsLink::credit(uint64_t k) {
  auto* entry = reinterpret_cast<CreditEntry*>(credits_.data() + k % kFifoSlots * kFifoStride);
  // The device writes behind the compiler's back; idx is the last word of a credit to arrive.
  const uint64_t idx = std::atomic_ref(entry->idx).load(std::memory_order_acquire);
  return idx == k + 1 ? entry : nullptr;
}

Result<void> VerbsLink::send(uint64_t k, const CreditEntry& credit, uint32_t bytes) {
  return post_write(qp_.get(),
                    {.id = work_id(settings_.number, kData),
                     .local = buffer_.address() + slot_offset(k),
                     .bytes = bytes,
                     .lkey = buffer_.lkey(),
                     .remote = credit.address,
                     .rkey = credit.rkeys[0],
                     .signalled = true,
                     .immediate = bytes},  // host byte order up to NCCL 2.28 (docs/nccl 3.2)
                    "data");
}

std::string completion_fault(const ibv_wc& completion, const std::string& event) {
  static constexpr const char* kKinds[] = {"data write", "receive", "credit write"};
  return std::string(kKinds[completion.wr_id & 3]) + ": " + ibv_wc_status_str(completion.status) +
         " (status " + std::to_string(completion.status) + ", vendor error " +
         std::to_string(completion.vendor_err) + ")" + (event.empty() ? "" : "; " + event);
}

}  // namespace understudy
