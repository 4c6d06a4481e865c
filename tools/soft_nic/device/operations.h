// Functions that programs reach by the tables of an open device, not by name.
#pragma once

#include <infiniband/verbs.h>

namespace understudy::soft_nic {

// verbs_device.cc
int query_port(ibv_context* context, uint8_t port, ibv_port_attr* out, size_t bytes);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* out, size_t bytes);
// verbs_completion.cc
int poll_cq(ibv_cq* cq, int most, ibv_wc* out);
int req_notify_cq(ibv_cq* cq, int solicited_only);
// verbs_queue_pair.cc
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr);
// verbs_post.cc
int post_send(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad);
int post_recv(ibv_qp* qp, ibv_recv_wr* request, ibv_recv_wr** bad);
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* request, ibv_recv_wr** bad);
// verbs_post_extended.cc
/// Fills the table of ibv_wr_* calls.
void fill_post_operations(ibv_qp_ex& qp);

}  // namespace understudy::soft_nic
