// States of a queue pair and the attributes that go with their changes (IBTA 11.2.5.2, as Linux
// checks them for user programs).
#include <cerrno>
#include <span>

#include "tools/soft_nic/device/nic.h"
#include "tools/soft_nic/device/queue_pair.h"
#include "tools/soft_nic/device/ways.h"

namespace understudy::soft_nic {

namespace {

/// A change between two states.
struct Change {
  ibv_qp_state from, to;
  int needs, allows;
};

constexpr int kInitNeeds = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kRtrNeeds = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kRtsNeeds =
    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
constexpr int kLive = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER;
constexpr Change kChanges[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, kInitNeeds, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, kInitNeeds},
    {IBV_QPS_INIT, IBV_QPS_RTR, kRtrNeeds, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS, kRtsNeeds, kLive},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, kLive},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, kLive},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
};

constexpr int kUnreliableRtrNeeds = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
constexpr int kUnreliableLive = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS;
constexpr Change kUnreliableChanges[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, kInitNeeds, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, kInitNeeds},
    {IBV_QPS_INIT, IBV_QPS_RTR, kUnreliableRtrNeeds, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, kUnreliableLive},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, kUnreliableLive},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, kUnreliableLive},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_ACCESS_FLAGS},
};

constexpr int kDatagramNeeds = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
constexpr int kDatagramLive = IBV_QP_CUR_STATE | IBV_QP_QKEY;
constexpr Change kDatagramChanges[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, kDatagramNeeds, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, kDatagramNeeds},
    {IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, kDatagramLive},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, kDatagramLive},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, kDatagramLive},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
};

constexpr unsigned kMostTimeout = 31, kMostRetries = 7, kMostRnrTimer = 31, kMostReads = 128;
constexpr uint16_t kUdpSourceBase = 0xc000;  // rule A1: 0xc000..0xffff

bool in_range(const ibv_qp_attr& to, int mask, uint32_t mtu, const Interface& interface) {
  const auto has = [&](int bit) { return (mask & bit) != 0; };
  if (has(IBV_QP_PORT) && to.port_num != 1) return false;
  if (has(IBV_QP_PKEY_INDEX) && to.pkey_index != 0) return false;
  if (has(IBV_QP_PATH_MTU) &&
      (to.path_mtu < IBV_MTU_256 || to.path_mtu > IBV_MTU_4096 || 128U << to.path_mtu > mtu)) {
    return false;
  }
  if (has(IBV_QP_TIMEOUT) && to.timeout > kMostTimeout) return false;
  if (has(IBV_QP_RETRY_CNT) && to.retry_cnt > kMostRetries) return false;
  if (has(IBV_QP_RNR_RETRY) && to.rnr_retry > kMostRetries) return false;
  if (has(IBV_QP_MIN_RNR_TIMER) && to.min_rnr_timer > kMostRnrTimer) return false;
  if (has(IBV_QP_MAX_QP_RD_ATOMIC) && to.max_rd_atomic > kMostReads) return false;
  if (has(IBV_QP_MAX_DEST_RD_ATOMIC) && to.max_dest_rd_atomic > kMostReads) return false;
  return !has(IBV_QP_AV) || is_way(interface, to.ah_attr);
}

}  // namespace

int QueuePair::check_modify(const ibv_qp_attr& to, int mask) const {
  const ibv_qp_state now = attributes_.qp_state;
  const ibv_qp_state next = (mask & IBV_QP_STATE) != 0 ? to.qp_state : now;
  if ((mask & IBV_QP_CUR_STATE) != 0 && to.cur_qp_state != now) return EINVAL;
  if (next == IBV_QPS_RESET || next == IBV_QPS_ERR) {
    return (mask & ~(IBV_QP_STATE | IBV_QP_CUR_STATE)) == 0 ? 0 : EINVAL;
  }
  const auto changes = is_datagrams()    ? std::span<const Change>(kDatagramChanges)
                       : is_unreliable() ? std::span<const Change>(kUnreliableChanges)
                                         : std::span<const Change>(kChanges);
  for (const Change& change : changes) {
    if (change.from != now || change.to != next) continue;
    const int rest = mask & ~IBV_QP_STATE;
    const bool complete = (rest & change.needs) == change.needs;
    const bool known = (rest & ~(change.needs | change.allows)) == 0;
    return complete && known && in_range(to, mask, nic_.mtu(), nic_.interface()) ? 0 : EINVAL;
  }
  return EINVAL;
}

uint8_t QueuePair::access() const {
  const unsigned flags = attributes_.qp_access_flags;
  uint8_t out = kAccessRemoteInvalidate;
  if ((flags & IBV_ACCESS_REMOTE_WRITE) != 0) out |= kAccessRemoteWrite;
  if ((flags & IBV_ACCESS_REMOTE_READ) != 0) out |= kAccessRemoteRead;
  if ((flags & IBV_ACCESS_REMOTE_ATOMIC) != 0) out |= kAccessRemoteAtomic;
  return out;
}

int QueuePair::modify(const ibv_qp_attr& to, int mask, const MacAddress& peer_mac) {
  ibv_qp_attr& mine = attributes_;
  const auto has = [&](int bit) { return (mask & bit) != 0; };
  if (has(IBV_QP_ACCESS_FLAGS)) mine.qp_access_flags = to.qp_access_flags;
  if (has(IBV_QP_PKEY_INDEX)) mine.pkey_index = to.pkey_index;
  if (has(IBV_QP_PORT)) mine.port_num = to.port_num;
  if (has(IBV_QP_QKEY)) mine.qkey = to.qkey;
  if (has(IBV_QP_AV)) mine.ah_attr = to.ah_attr;
  if (has(IBV_QP_PATH_MTU)) mine.path_mtu = to.path_mtu;
  if (has(IBV_QP_DEST_QPN)) mine.dest_qp_num = to.dest_qp_num & kQpnMask;
  if (has(IBV_QP_RQ_PSN)) mine.rq_psn = to.rq_psn & Psn::kMask;
  if (has(IBV_QP_SQ_PSN)) mine.sq_psn = to.sq_psn & Psn::kMask;
  if (has(IBV_QP_MAX_DEST_RD_ATOMIC)) mine.max_dest_rd_atomic = to.max_dest_rd_atomic;
  if (has(IBV_QP_MAX_QP_RD_ATOMIC)) mine.max_rd_atomic = to.max_rd_atomic;
  if (has(IBV_QP_MIN_RNR_TIMER)) mine.min_rnr_timer = to.min_rnr_timer;
  if (has(IBV_QP_TIMEOUT)) mine.timeout = to.timeout;
  if (has(IBV_QP_RETRY_CNT)) mine.retry_cnt = to.retry_cnt;
  if (has(IBV_QP_RNR_RETRY)) mine.rnr_retry = to.rnr_retry;
  if (rc_ && has(IBV_QP_ACCESS_FLAGS)) rc_->set_access(access());
  if (rc_ && has(IBV_QP_MIN_RNR_TIMER)) rc_->set_min_rnr_timer(mine.min_rnr_timer);
  if (!has(IBV_QP_STATE)) return 0;

  const ibv_qp_state before = mine.qp_state;
  if (to.qp_state == IBV_QPS_ERR) {
    if (before == IBV_QPS_RESET) mine.qp_state = IBV_QPS_INIT;
    fail(std::nullopt);
  } else if (to.qp_state == IBV_QPS_RESET) {
    reset();
  } else if (is_datagrams()) {
    if (to.qp_state == IBV_QPS_RTS && before == IBV_QPS_RTR) next_psn_ = Psn(mine.sq_psn);
  } else if (to.qp_state == IBV_QPS_RTR) {
    connect(peer_mac);
  } else if (to.qp_state == IBV_QPS_RTS && before == IBV_QPS_RTR) {
    begin_to_send();
  } else if (rc_ && before != to.qp_state) {
    rc_->modify(nic_.now(), to.qp_state == IBV_QPS_SQD ? QpState::kSqd : QpState::kRts);
  }
  mine.qp_state = handle_.ex.qp_base.state = to.qp_state;
  return 0;
}

void QueuePair::connect(const MacAddress& peer_mac) {
  QpConfig config;
  config.node = domain_;
  config.qpn = number();
  config.remote_qpn = attributes_.dest_qp_num;
  config.rq_psn = Psn(attributes_.rq_psn);
  config.mtu = 128U << attributes_.path_mtu;
  config.min_rnr_timer = attributes_.min_rnr_timer;
  config.max_dest_rd_atomic = attributes_.max_dest_rd_atomic;
  config.send_queue = sends_.entries();
  config.access = access();
  config.unreliable = is_unreliable();
  config.start = QpState::kRtr;
  RoceAddressing& way = config.addressing;
  way = way_of(nic_.interface(), attributes_.ah_attr, peer_mac);
  way.udp_src = static_cast<uint16_t>(kUdpSourceBase | (number() & 0x3fff));
  is_local_ = nic_.is_within(way.dst, config.remote_qpn);
  rc_.emplace(config, nic_.regions(), nic_.rc_counters(), *this);
  rc_->responder().set_receive_sink(this);
}

void QueuePair::begin_to_send() {
  rc_->set_send_attributes(Psn(attributes_.sq_psn), attributes_.timeout, attributes_.retry_cnt,
                           attributes_.rnr_retry, attributes_.max_rd_atomic);
  rc_->modify(nic_.now(), QpState::kRts);
}

/// Work, receives and completions of them are forgotten (IBTA 10.3.1).
void QueuePair::reset() {
  rc_.reset();
  sends_.clear();
  if (own_receives_) own_receives_->clear();
  receiving_ = blocked_ = is_local_ = false;
  send_cq().forget(number());
  receive_cq().forget(number());
}

}  // namespace understudy::soft_nic
