// Two soft NICs on a cable in memory, under a clock that is moved by hand, used by the verbs calls
// of programs.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/soft_nic/device/context.h"
#include "tools/soft_nic/device/nic.h"

namespace understudy::soft_nic {

/// One end of the cable.
class CablePort final : public FramePort {
 public:
  using Frame = std::vector<uint8_t>;

  std::span<const std::span<const uint8_t>> receive() override {
    given_.clear();
    const auto end = arrived.begin() + static_cast<ptrdiff_t>(std::min(burst, arrived.size()));
    taken_.assign(arrived.begin(), end);
    arrived.erase(arrived.begin(), end);
    for (const Frame& frame : taken_) given_.emplace_back(frame);
    return given_;
  }
  uint8_t* reserve(uint32_t bytes) override {
    room_.resize(bytes);
    return room_.data();
  }
  void commit(uint32_t bytes) override {
    waiting_.emplace_back(room_.begin(), room_.begin() + bytes);
  }
  void flush() override {
    for (Frame& frame : waiting_) {
      if (!loses || !loses(frame)) peer->arrived.push_back(std::move(frame));
    }
    waiting_.clear();
  }
  int wait_fd() const override { return -1; }
  bool kernel_answers() const override { return false; }
  bool comes_back() const override { return is_shared; }

  CablePort* peer = nullptr;
  bool is_shared = false;
  size_t burst = 1 << 16;  ///< frames that one receive() gives
  std::deque<Frame> arrived;
  std::function<bool(const Frame&)> loses;

 private:
  Frame room_;
  std::vector<Frame> waiting_, taken_;
  std::vector<std::span<const uint8_t>> given_;
};

/// A program on one end: one of each object.
struct Program {
  static constexpr size_t kBytes = 1 << 20;
  CablePort* port = nullptr;
  std::unique_ptr<Nic> nic;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_mr* mr = nullptr;
  std::vector<uint8_t> memory = std::vector<uint8_t>(kBytes);

  ibv_sge piece(size_t at, uint32_t bytes) const {
    return {reinterpret_cast<uintptr_t>(memory.data() + at), bytes, mr->lkey};
  }
  uint64_t address(size_t at) const { return reinterpret_cast<uintptr_t>(memory.data() + at); }
  std::string text(size_t at, size_t bytes) const {
    return {memory.begin() + static_cast<ptrdiff_t>(at),
            memory.begin() + static_cast<ptrdiff_t>(at + bytes)};
  }
  void write(size_t at, const std::string& bytes) {
    std::memcpy(memory.data() + at, bytes.data(), bytes.size());
  }
};

class SoftNicRig : public testing::Test {
 protected:
  static constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

  explicit SoftNicRig(std::optional<uint16_t> vlan = {}) {
    for (size_t i = 0; i < 2; ++i) {
      Program& p = ends_[i];
      auto port = std::make_unique<CablePort>();
      p.port = port.get();
      Interface interface;
      interface.name = "cable";
      interface.mac.bytes = {2, 0, 0, 0, 0, static_cast<uint8_t>(i + 1)};
      interface.addresses = addresses(i);
      interface.vlan = vlan;
      interface.mtu = 4200;
      p.nic = std::make_unique<Nic>(interface, kWindow,
                                    (1 + static_cast<uint32_t>(i)) * Nic::kQueuePairs,
                                    std::move(port), [this] { return tick(); });
      p.context = open_context(*p.nic, nullptr);
      p.pd = ibv_alloc_pd(p.context);
      p.channel = ibv_create_comp_channel(p.context);
      p.cq = ibv_create_cq(p.context, 256, nullptr, p.channel, 0);
      p.mr = ibv_reg_mr_iova2(p.pd, p.memory.data(), p.memory.size(), p.address(0), kAccess);
      p.qp = make_qp(p, {});
    }
    a().port->peer = b().port;
    b().port->peer = a().port;
  }
  ~SoftNicRig() override {
    for (Program& p : ends_) {
      if (p.qp != nullptr) {
        EXPECT_EQ(ibv_destroy_qp(p.qp), 0);
      }
      EXPECT_EQ(ibv_dereg_mr(p.mr), 0);
      EXPECT_EQ(ibv_destroy_cq(p.cq), 0);
      EXPECT_EQ(ibv_destroy_comp_channel(p.channel), 0);
      EXPECT_EQ(ibv_dealloc_pd(p.pd), 0);
      EXPECT_EQ(ibv_close_device(p.context), 0);
    }
  }

  Program& a() { return ends_[0]; }
  Program& b() { return ends_[1]; }

  /// Every look at the clock takes its time.
  Time tick() {
    now_ += step_;
    return now_;
  }
  void run(int rounds = 50) {
    for (int i = 0; i < rounds; ++i) {
      for (Program& p : ends_) {
        const std::lock_guard lock(p.nic->mutex());
        p.nic->progress(tick());
      }
      now_ += Duration::us(10);
    }
  }

  static ibv_qp* make_qp(Program& p, ibv_srq* srq, uint64_t posts = 0,
                         ibv_qp_type type = IBV_QPT_RC) {
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = attr.recv_cq = p.cq;
    attr.srq = srq;
    attr.cap = {16, 16, 4, 4, 64};
    attr.qp_type = type;
    attr.pd = p.pd;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    if (posts != 0) {
      attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
      attr.send_ops_flags = posts;
    }
    return ibv_create_qp_ex(p.context, &attr);
  }

  static int to_init(ibv_qp* qp) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = kAccess;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS);
  }
  static constexpr int kRtrMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  ibv_qp_attr rtr(const Program& peer) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer.qp->qp_num;
    attr.rq_psn = 0xfffff0;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 1;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    const auto& gid = peer.nic->interface().addresses[gid_].address.gid();
    std::memcpy(attr.ah_attr.grh.dgid.raw, gid.data(), gid.size());
    attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(gid_);
    return attr;
  }
  static constexpr int kRtsMask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  static ibv_qp_attr rts() {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 8;  // 1 ms
    attr.retry_cnt = 3;
    attr.rnr_retry = 7;
    attr.sq_psn = 0xfffff0;
    attr.max_rd_atomic = 4;
    return attr;
  }
  /// Of the end `i`; the GID `gid_` is used.
  static std::vector<IpPrefix> addresses(size_t i) {
    const auto last = static_cast<uint32_t>(i + 1);
    std::array<uint8_t, 16> v6{0xfd, 0, 0, 8};
    v6[15] = static_cast<uint8_t>(last);
    return {{IpAddress::v4(0x0a080000 + last), 24}, {IpAddress::v6_bytes(v6.data()), 64}};
  }
  /// Whoever asks for a MAC looks at its own device only; so the answer is there before.
  void introduce() {
    for (Program& p : ends_) {
      for (const IpPrefix& of : (&p == &a() ? b() : a()).nic->interface().addresses) {
        std::array<uint8_t, Neighbours::kFrameBytes> question;
        const uint32_t bytes = Neighbours(p.nic->interface()).ask(of.address, question.data());
        p.port->peer->arrived.emplace_back(question.begin(), question.begin() + bytes);
      }
    }
    run(2);
  }
  void connect() {
    introduce();
    for (Program& p : ends_) {
      ASSERT_EQ(to_init(p.qp), 0);
      ibv_qp_attr attr = rtr(&p == &a() ? b() : a());
      ASSERT_EQ(ibv_modify_qp(p.qp, &attr, kRtrMask), 0);
      attr = rts();
      ASSERT_EQ(ibv_modify_qp(p.qp, &attr, kRtsMask), 0);
    }
  }

  static int post(ibv_qp* qp, ibv_wr_opcode opcode, std::vector<ibv_sge> pieces, uint64_t id = 1,
                  unsigned flags = IBV_SEND_SIGNALED,
                  const std::function<void(ibv_send_wr&)>& more = {}) {
    ibv_send_wr request{}, *bad = nullptr;
    request.wr_id = id;
    request.opcode = opcode;
    request.sg_list = pieces.data();
    request.num_sge = static_cast<int>(pieces.size());
    request.send_flags = flags;
    if (more) more(request);
    const int failed = ibv_post_send(qp, &request, &bad);
    EXPECT_EQ(bad, failed != 0 ? &request : nullptr);
    return failed;
  }
  static int post_receive(ibv_qp* qp, std::vector<ibv_sge> pieces, uint64_t id = 100) {
    ibv_recv_wr request{}, *bad = nullptr;
    request.wr_id = id;
    request.sg_list = pieces.data();
    request.num_sge = static_cast<int>(pieces.size());
    return ibv_post_recv(qp, &request, &bad);
  }
  /// All completions that are there.
  static std::vector<ibv_wc> completions(Program& p) {
    std::vector<ibv_wc> out(300);
    out.resize(static_cast<size_t>(std::max(ibv_poll_cq(p.cq, 300, out.data()), 0)));
    return out;
  }
  /// The one completion that is there.
  static ibv_wc completion(Program& p) {
    const auto all = completions(p);
    EXPECT_EQ(all.size(), 1U);
    return all.empty() ? ibv_wc{} : all[0];
  }

  static constexpr uint32_t kWindow = 64;
  std::array<Program, 2> ends_;
  size_t gid_ = 0;  ///< of both ends, for connections and address handles
  Time now_;
  Duration step_ = Duration::us(1);
};

}  // namespace understudy::soft_nic
