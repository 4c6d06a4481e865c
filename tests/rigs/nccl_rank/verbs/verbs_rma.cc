#include "tests/rigs/nccl_rank/verbs/verbs_rma.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tests/rigs/nccl_rank/verbs/credits.h"

namespace understudy::nccl_rank {
namespace {

constexpr int kReachable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                           IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr int kOwn = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
constexpr unsigned kEntries = 4096;
constexpr uint32_t kRingTag = 0xa0;  // NCCL_GIN_IB_ALLGATHER_TAG
constexpr size_t kMessageBytes = 256, kMessages = 256;
constexpr uint64_t kResultBytes = 1 << 20;
// What a completion is of.
constexpr uint64_t kSent = uint64_t{1} << 60, kCame = uint64_t{2} << 60,
                   kResult = uint64_t{3} << 60, kNothing = 0, kKind = uint64_t{15} << 60;

template <typename T>
T made(understudy::Result<T> result) {
  if (!result) throw Refused(result.error().text);
  return std::move(*result);
}
void require_well(const understudy::Result<void>& result) {
  if (!result) throw Refused(result.error().text);
}

VerbsDevice device_of(const World& world, int rank) {
  VerbsDevice device = made(VerbsDevice::open("", world.nic(rank).gids.front(), {}));
  require_well(device.make_completion_queue(kEntries));
  return device;
}

}  // namespace

VerbsRma::VerbsRma(const World& world, int rank)
    : world_(world),
      device_(device_of(world, rank)),
      credits_(made(RegisteredMemory::make(device_.domain(), size_t{2} * kMostFifoBytes, kOwn))),
      messages_(
          made(RegisteredMemory::make(device_.domain(), 2 * kMessages * kMessageBytes, kOwn))),
      results_memory_(made(RegisteredMemory::make(device_.domain(), kResultBytes, kOwn))) {}

VerbsRma::End& VerbsRma::ring(bool sends) {
  return *std::ranges::find_if(
      ends_, [&](const End& end) { return end.link.index == kRing && end.link.sends == sends; });
}

VerbsRma::End& VerbsRma::mesh(int peer) {
  return *std::ranges::find_if(ends_, [&](const End& end) {
    return end.link.index == kMesh && end.link.sends && end.link.peer == peer;
  });
}

IbSide VerbsRma::open(const Link& link) {
  End& end = ends_.emplace_back();
  end.link = link;
  end.qp = made(make_queue_pair(device_, link.sends ? IBV_ACCESS_REMOTE_WRITE : kReachable));
  end.own.qpns = {end.qp->qp_num};
  end.own.gids = {device_.gid()};
  end.own.rkeys = {credits_.rkey()};
  end.own.address = credits_.address();
  end.own.mtu = std::countr_zero(device_.mtu()) - 7;
  return end.own;
}

void VerbsRma::connect(const IbSide& own, const IbSide& theirs) {
  End& end = *std::ranges::find_if(ends_, [&](const End& e) { return e.own.qpns == own.qpns; });
  end.theirs = theirs;
  const IbSide& sender = end.link.sends ? own : theirs;
  require_well(connect_queue_pair(end.qp.get(), device_,
                                  {.gid = theirs.gids.front(),
                                   .qpn = theirs.qpns.front(),
                                   .psn = 0,
                                   .mtu = 128U << std::min(own.mtu, theirs.mtu),
                                   .traffic_class = static_cast<uint8_t>(sender.traffic_class)}));
}

RmaMemory VerbsRma::expose(uint64_t bytes) {
  const RegisteredMemory& memory =
      exposed_.emplace_back(made(RegisteredMemory::make(device_.domain(), bytes, kReachable)));
  exposed_bytes_.push_back(bytes);
  return {memory.address(), memory.rkey(), reinterpret_cast<uint8_t*>(memory.data()), bytes};
}

void VerbsRma::ring_receive(size_t bytes) {
  End& end = ring(false);
  const CreditLayout& layout = credit_layout(world_.release);
  const uint64_t k = sizes_.size();
  sizes_.push_back(bytes);
  require_well(post_receive(end.qp.get(), kCame | k));
  const uint64_t slot = k % layout.slots * layout.stride(), at = kMostFifoBytes + slot;
  std::byte* const entry = credits_.data() + at;
  const auto write = [&](size_t offset, auto value) {
    std::memcpy(entry + offset, &value, sizeof value);
  };
  std::memset(entry, 0, layout.bytes);
  write(0, messages_.address() + (kMessages + k % kMessages) * kMessageBytes);
  write(8, static_cast<uint32_t>(bytes));
  write(layout.rkey, messages_.rkey());
  write(layout.receives, uint32_t{1});
  write(layout.tag, kRingTag);
  write(layout.number, k + 1);
  require_well(post_write(end.qp.get(),
                          {.id = kNothing,
                           .local = credits_.address() + at,
                           .bytes = layout.bytes,
                           .lkey = credits_.lkey(),
                           .remote = end.theirs.address + slot,
                           .rkey = end.theirs.rkeys.front(),
                           .signalled = true,
                           .immediate = {}},
                          "a credit of the ring"));
}

/// The next message, if its credit has come.
bool VerbsRma::send_next() {
  if (posted_sends_ == to_send_.size()) return false;
  const CreditLayout& layout = credit_layout(world_.release);
  const uint64_t k = posted_sends_;
  std::byte* const entry = credits_.data() + k % layout.slots * layout.stride();
  auto* const number = reinterpret_cast<uint64_t*>(entry + layout.number);
  if (std::atomic_ref(*number).load(std::memory_order_acquire) != k + 1) return false;
  const auto read = [&](size_t offset, auto& value) {
    std::memcpy(&value, entry + offset, sizeof value);
  };
  uint64_t to = 0, room = 0;
  uint32_t rkey = 0, tag = 0;
  read(0, to);
  read(8, room);
  read(layout.rkey, rkey);
  read(layout.tag, tag);
  const Bytes& message = to_send_[k];
  require(tag == kRingTag, "a credit of the ring with tag " + std::to_string(tag));
  require(room >= message.size(), "a credit of the ring for " + std::to_string(room) + " bytes");
  const uint64_t at = k % kMessages * kMessageBytes;
  std::memcpy(messages_.data() + at, message.data(), message.size());
  const auto bytes = static_cast<uint32_t>(message.size());
  require_well(post_write(ring(true).qp.get(),
                          {.id = kSent | k,
                           .local = messages_.address() + at,
                           .bytes = bytes,
                           .lkey = messages_.lkey(),
                           .remote = to,
                           .rkey = rkey,
                           .signalled = true,
                           .immediate = immediate(world_.release, bytes)},
                          "a message of the ring"));
  ++posted_sends_;
  return true;
}

uint64_t VerbsRma::room_for(uint8_t* to, uint64_t bytes) {
  const uint64_t size = (bytes + 7) / 8 * 8;
  if (results_used_ + size > kResultBytes) {
    require(done_ == results_.size(), "more is asked for than there is room");
    results_used_ = 0;
  }
  const uint64_t from = std::exchange(results_used_, results_used_ + size);
  results_.push_back({to, from, bytes});
  return from;
}

void VerbsRma::post(int peer, ibv_send_wr request, uint64_t local, uint32_t bytes, uint32_t lkey) {
  ibv_sge piece{.addr = local, .length = bytes, .lkey = lkey};
  request.sg_list = &piece;
  request.num_sge = 1;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(mesh(peer).qp.get(), &request, &bad);
  require(error == 0, "ibv_post_send to " + rank_text(peer) + ": " + std::strerror(error));
}

void VerbsRma::put(int peer, const uint8_t* from, uint64_t bytes, uint64_t address, uint32_t rkey) {
  const auto local = reinterpret_cast<uint64_t>(from);
  for (size_t i = 0; i < exposed_.size(); ++i) {
    const uint64_t begin = exposed_[i].address();
    if (local < begin || local + bytes > begin + exposed_bytes_[i]) continue;
    ibv_send_wr write{};
    write.opcode = IBV_WR_RDMA_WRITE;
    write.wr.rdma.remote_addr = address;
    write.wr.rdma.rkey = rkey;
    return post(peer, write, local, static_cast<uint32_t>(bytes), exposed_[i].lkey());
  }
  throw Refused("a put from memory that is not registered");
}

void VerbsRma::signal(int peer, uint64_t value, uint64_t* original, uint64_t address,
                      uint32_t rkey) {
  ibv_send_wr add{};
  add.wr_id = kResult | results_.size();
  add.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  add.send_flags = IBV_SEND_SIGNALED;
  add.wr.atomic.remote_addr = address;
  add.wr.atomic.rkey = rkey;
  add.wr.atomic.compare_add = value;
  const uint64_t at = room_for(reinterpret_cast<uint8_t*>(original), sizeof *original);
  post(peer, add, results_memory_.address() + at, sizeof *original, results_memory_.lkey());
}

void VerbsRma::get(int peer, uint8_t* to, uint64_t bytes, uint64_t address, uint32_t rkey) {
  ibv_send_wr read{};
  read.wr_id = kResult | results_.size();
  read.opcode = IBV_WR_RDMA_READ;
  read.send_flags = IBV_SEND_SIGNALED;
  read.wr.rdma.remote_addr = address;
  read.wr.rdma.rkey = rkey;
  const uint64_t at = room_for(to, bytes);
  post(peer, read, results_memory_.address() + at, static_cast<uint32_t>(bytes),
       results_memory_.lkey());
}

void VerbsRma::complete(uint64_t id) {
  const uint64_t k = id & ~kKind;
  if ((id & kKind) == kSent) {
    ++sent_;
  } else if ((id & kKind) == kCame) {
    require(k == received_.size(), "messages of the ring out of their order");
    const auto* const from = reinterpret_cast<const uint8_t*>(messages_.data()) +
                             (kMessages + k % kMessages) * kMessageBytes;
    received_.emplace_back(from, from + sizes_[k]);
  } else if ((id & kKind) == kResult) {
    const Result& result = results_.at(k);
    std::memcpy(result.to, results_memory_.data() + result.from, result.bytes);
    ++done_;
  }
}

bool VerbsRma::poll() {
  bool any = send_next();
  ibv_wc completions[32];
  const int count = ibv_poll_cq(device_.completion_queue(), 32, completions);
  require(count >= 0, "ibv_poll_cq failed");
  for (int i = 0; i < count; ++i) {
    const ibv_wc& wc = completions[i];
    require(wc.status == IBV_WC_SUCCESS,
            std::string("one-sided operations: ") + ibv_wc_status_str(wc.status));
    const bool message = (wc.wr_id & kKind) == kCame;
    if (message) {
      const uint32_t bytes = immediate(world_.release, wc.imm_data);
      require(bytes == sizes_[wc.wr_id & ~kKind],
              "a message of the ring with " + std::to_string(bytes) + " bytes");
    }
    complete(wc.wr_id);
    any = true;
  }
  return any;
}

}  // namespace understudy::nccl_rank
