// What a message costs the soft NIC, both ends on one core: two devices on a cable in memory, used
// by the verbs calls of programs, without a system call. ns per message, bytes per second.
//
//   soft_nic_bench [--benchmark_filter=...]
#include <benchmark/benchmark.h>
#include <infiniband/verbs.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "tools/soft_nic/base/monotonic.h"
#include "tools/soft_nic/device/context.h"
#include "tools/soft_nic/device/nic.h"
#include "tools/soft_nic/port/loop_port.h"
#include "tools/soft_nic/port/neighbours.h"

namespace understudy::soft_nic {
namespace {

/// One end: what it sends, the other one receives.
class End final : public FramePort {
 public:
  std::span<const std::span<const uint8_t>> receive() override { return peer->sent_.receive(); }
  uint8_t* reserve(uint32_t bytes) override { return sent_.reserve(bytes); }
  void commit(uint32_t bytes) override { sent_.commit(bytes); }
  void flush() override {}
  int wait_fd() const override { return -1; }
  bool kernel_answers() const override { return false; }

  End* peer = nullptr;

 private:
  LoopPort sent_;
};

constexpr size_t kBytes = 16 << 20;
constexpr int kDepth = 128;
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

struct Program {
  std::unique_ptr<Nic> nic;
  End* end = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_mr* mr = nullptr;
  std::vector<uint8_t> memory = std::vector<uint8_t>(kBytes);
};

class Pair {
 public:
  Pair() {
    for (uint32_t i = 0; i < 2; ++i) {
      Program& p = programs_[i];
      auto end = std::make_unique<End>();
      p.end = end.get();
      Interface interface = bare_interface({IpAddress::v4(0x0a080001 + i)});
      p.nic = std::make_unique<Nic>(interface, 256, (1 + i) * Nic::kQueuePairs, std::move(end),
                                    monotonic_now);
      ibv_context* context = open_context(*p.nic, nullptr);
      ibv_pd* pd = ibv_alloc_pd(context);
      p.cq = ibv_create_cq(context, 2 * kDepth, nullptr, nullptr, 0);
      p.mr = ibv_reg_mr_iova2(pd, p.memory.data(), p.memory.size(),
                              reinterpret_cast<uintptr_t>(p.memory.data()), kAccess);
      ibv_qp_init_attr attr{};
      attr.send_cq = attr.recv_cq = p.cq;
      attr.cap = {kDepth, kDepth, 1, 1, 0};
      attr.qp_type = IBV_QPT_RC;
      p.qp = ibv_create_qp(pd, &attr);
    }
    programs_[0].end->peer = programs_[1].end;
    programs_[1].end->peer = programs_[0].end;
    for (size_t i = 0; i < 2; ++i) introduce(programs_[i], programs_[1 - i]);
    for (size_t i = 0; i < 2; ++i) connect(programs_[i], programs_[1 - i]);
  }

  Program& a() { return programs_[0]; }
  Program& b() { return programs_[1]; }

  void post(ibv_wr_opcode opcode, uint32_t bytes) {
    ibv_sge piece{reinterpret_cast<uintptr_t>(a().memory.data()), bytes, a().mr->lkey};
    ibv_send_wr request{}, *bad = nullptr;
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma.remote_addr = reinterpret_cast<uintptr_t>(b().memory.data());
    request.wr.rdma.rkey = b().mr->rkey;
    if (ibv_post_send(a().qp, &request, &bad) != 0) std::abort();
  }
  void post_receive(uint32_t bytes) {
    ibv_sge piece{reinterpret_cast<uintptr_t>(b().memory.data()), bytes, b().mr->lkey};
    ibv_recv_wr request{}, *bad = nullptr;
    request.sg_list = &piece;
    request.num_sge = 1;
    if (ibv_post_recv(b().qp, &request, &bad) != 0) std::abort();
  }
  /// Completions at `p`, after its packets moved.
  static int poll(Program& p) {
    std::array<ibv_wc, 16> wc;
    const int got = ibv_poll_cq(p.cq, 16, wc.data());
    for (int i = 0; i < got; ++i) {
      if (wc[static_cast<size_t>(i)].status != IBV_WC_SUCCESS) std::abort();
    }
    return got;
  }

 private:
  static void introduce(Program& p, Program& peer) {
    uint8_t* out = peer.end->reserve(Neighbours::kFrameBytes);
    const IpAddress& target = p.nic->interface().addresses.front().address;
    peer.end->commit(Neighbours(peer.nic->interface()).ask(target, out));
    poll(p);
  }
  static void connect(Program& p, const Program& peer) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = kAccess;
    int failed = ibv_modify_qp(
        p.qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qp_num = peer.qp->qp_num;
    attr.max_dest_rd_atomic = attr.max_rd_atomic = 16;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    const auto& gid = peer.nic->interface().addresses.front().address.gid();
    std::memcpy(attr.ah_attr.grh.dgid.raw, gid.data(), gid.size());
    failed |= ibv_modify_qp(p.qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    failed |= ibv_modify_qp(p.qp, &attr,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    if (failed != 0) std::abort();
  }

  std::array<Program, 2> programs_;
};

/// The state's argument is the bytes of a message; kDepth are under way.
void messages(benchmark::State& state, ibv_wr_opcode opcode) {
  Pair pair;
  const auto bytes = static_cast<uint32_t>(state.range(0));
  const bool receives = opcode == IBV_WR_SEND;
  int under_way = 0, offered = 0;
  for (auto _ : state) {
    while (under_way == kDepth) {
      offered -= Pair::poll(pair.b());
      under_way -= Pair::poll(pair.a());
    }
    for (; receives && offered < kDepth; ++offered) pair.post_receive(bytes);
    pair.post(opcode, bytes);
    ++under_way;
  }
  state.SetBytesProcessed(state.iterations() * bytes);
}

BENCHMARK_CAPTURE(messages, write, IBV_WR_RDMA_WRITE)->Arg(8)->Arg(4096)->Arg(65536)->Arg(1 << 20);
BENCHMARK_CAPTURE(messages, send, IBV_WR_SEND)->Arg(8)->Arg(65536);
BENCHMARK_CAPTURE(messages, read, IBV_WR_RDMA_READ)->Arg(8)->Arg(65536);

}  // namespace
}  // namespace understudy::soft_nic

BENCHMARK_MAIN();
