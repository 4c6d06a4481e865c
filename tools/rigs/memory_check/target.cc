#include "tools/rigs/memory_check/target.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

constexpr std::chrono::seconds kLimit(30);
constexpr uint32_t kOurPsn = 0xfffffe;  ///< wraps at once

Result<void> verbs_failure(const char* what, int error) {
  return fail(std::string(what) + ": " + std::strerror(error));
}

std::string padded(std::string text, size_t size) {
  text.resize(size);
  return text;
}

}  // namespace

Result<Target> Target::connect(const TargetOptions& options) {
  auto stream = TRY(TcpStream::dial(options.server, options.port, kLimit));
  const auto local = TRY(stream.local_address());
  auto device = TRY(VerbsDevice::open("", local, std::nullopt));
  Target target(std::move(device), std::move(stream));
  TRY(target.device_.make_completion_queue(options.send_queue));
  TRY(target.make_queue_pair(options));
  TRY(target.exchange(options));
  return target;
}

Result<void> Target::make_queue_pair(const TargetOptions& options) {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = completion_queue();
  init.qp_type = IBV_QPT_RC;
  init.cap = {options.send_queue, 1, 1, 1, 0};
  qp_.reset(ibv_create_qp(domain(), &init));
  if (!qp_) return verbs_failure("ibv_create_qp", errno);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = device_.port();
  const int error = ibv_modify_qp(
      qp_.get(), &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  return error == 0 ? Result<void>{} : verbs_failure("ibv_modify_qp to INIT", error);
}

Result<std::string> Target::ask(const std::string& message) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(message.data());
  TRY(stream_.send({bytes, message.size()}));
  std::string answer;
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  while (answer.size() < message.size()) {
    bool closed = false;
    const auto part = TRY(stream_.receive(std::chrono::milliseconds(100), closed));
    answer.append(part.begin(), part.end());
    if (closed && answer.size() < message.size()) return fail("the service closed the connection");
    if (std::chrono::steady_clock::now() > deadline) return fail("the service does not answer");
  }
  return answer;
}

Result<void> Target::exchange(const TargetOptions& options) {
  const unsigned code = std::bit_width(std::min(options.mtu, device_.mtu()) / 256);
  std::string answer;
  for (const std::string& message :
       {padded("6.06", 16), std::string("\0\0\x10\0", 4), std::string("\0\0\0\x40", 4),
        std::string(1, static_cast<char>('0' + code)) + std::string(1, '\0')}) {
    answer = TRY(ask(message));
  }
  const unsigned mtu_code = std::min(code, static_cast<unsigned>(answer[0] - '0'));

  char text[128];
  int at = std::snprintf(text, sizeof text, "%04x:%04x:%06x:%06x:%08x:%016llx:", 0u, kTargetReads,
                         qp_->qp_num, kOurPsn, 1u, 0x1000ull);
  for (const uint8_t byte : device_.gid().gid()) {
    at += std::snprintf(text + at, sizeof text - static_cast<size_t>(at), "%02x:", byte);
  }
  std::snprintf(text + at, sizeof text - static_cast<size_t>(at), "%08x:", 0u);
  const std::string ours = padded(text, 108);
  const auto theirs = TRY(ask(ours));
  TRY(to_ready(options, theirs, mtu_code));
  for (int i = 0; i < 2; ++i) {  // as perftest does once it is connected
    TRY(ask(ours));
  }
  return {};
}

Result<void> Target::to_ready(const TargetOptions& options, const std::string& key,
                              uint32_t mtu_code) {
  unsigned lid = 0, reads = 0, qpn = 0, psn = 0;
  unsigned long long address = 0;
  if (std::sscanf(key.c_str(), "%4x:%4x:%6x:%6x:%8x:%16llx:", &lid, &reads, &qpn, &psn, &rkey_,
                  &address) != 6) {
    return fail("not a key message: " + key);
  }
  address_ = address;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = static_cast<ibv_mtu>(mtu_code);
  attr.dest_qp_num = qpn;
  attr.rq_psn = psn;
  attr.max_dest_rd_atomic = 1;
  attr.ah_attr.is_global = 1;
  std::memcpy(attr.ah_attr.grh.dgid.raw, options.server.gid().data(), 16);
  attr.ah_attr.grh.sgid_index = device_.gid_index();
  attr.ah_attr.grh.hop_limit = 64;
  attr.ah_attr.port_num = device_.port();
  int error = ibv_modify_qp(qp_.get(), &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error != 0) return verbs_failure("ibv_modify_qp to RTR", error);
  attr = {};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = options.timeout;
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  attr.sq_psn = kOurPsn;
  attr.max_rd_atomic = kTargetReads;
  error = ibv_modify_qp(qp_.get(), &attr,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                            IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  return error == 0 ? Result<void>{} : verbs_failure("ibv_modify_qp to RTS", error);
}

Result<void> Target::finish() {
  constexpr uint8_t kDone[] = {'d', 'o', 'n', 'e', 0};
  return stream_.send(kDone);
}

}  // namespace understudy
