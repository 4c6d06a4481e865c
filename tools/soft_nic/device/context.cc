#include "tools/soft_nic/device/context.h"

#include <new>

#include "tools/soft_nic/device/operations.h"

namespace understudy::soft_nic {

namespace {

void fill_tables(verbs_context& verbs) {
  verbs.sz = sizeof verbs;
  verbs.query_port = query_port;
  verbs.query_device_ex = query_device_ex;
  verbs.create_qp_ex = create_qp_ex;
  verbs.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  ibv_context_ops& ops = verbs.context.ops;
  ops.poll_cq = poll_cq;
  ops.req_notify_cq = req_notify_cq;
  ops.post_send = post_send;
  ops.post_recv = post_recv;
  ops.post_srq_recv = post_srq_recv;
  // Memory windows are not offered (max_mw is 0), but the header calls these unseen.
  ops.alloc_mw = [](ibv_pd*, ibv_mw_type) -> ibv_mw* {
    errno = EOPNOTSUPP;
    return nullptr;
  };
  ops.bind_mw = [](ibv_qp*, ibv_mw*, ibv_mw_bind*) { return EOPNOTSUPP; };
  ops.dealloc_mw = [](ibv_mw*) { return EOPNOTSUPP; };
}

}  // namespace

ibv_context* open_context(Nic& nic, ibv_device* device) {
  auto* made = new (std::nothrow) Context(nic);
  if (made == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  made->verbs.priv = reinterpret_cast<verbs_ex_private*>(made);
  fill_tables(made->verbs);
  ibv_context& context = made->verbs.context;
  context.device = device;
  context.cmd_fd = -1;
  context.async_fd = made->events.fd();
  context.num_comp_vectors = 1;
  pthread_mutex_init(&context.mutex, nullptr);
  return &context;
}

}  // namespace understudy::soft_nic
