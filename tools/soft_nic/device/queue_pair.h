// A queue pair as verbs know it: attributes and their states, posted work, completions; a
// reliable connection of dataplane/rc below, or datagrams. queue_pair.cc hears the transport,
// queue_pair_post.cc takes work, queue_pair_states.cc changes states, queue_pair_datagrams.cc is
// the unreliable kind. Under the device's lock.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <optional>

#include "dataplane/rc/qp.h"
#include "dataplane/wire/parse.h"
#include "tools/soft_nic/device/completion_queue.h"
#include "tools/soft_nic/device/receive_queue.h"
#include "tools/soft_nic/device/send_queue.h"

namespace understudy::soft_nic {

class Nic;

/// A shared receive queue. `ibv` is what the program has.
struct SharedReceives {
  SharedReceives(uint32_t entries, uint32_t most_pieces)
      : queue(entries, most_pieces), pieces(most_pieces) {}
  ibv_srq ibv{};
  ReceiveQueue queue;
  uint32_t pieces;
  uint32_t users = 0;  ///< queue pairs
  uint32_t limit = 0;  ///< fewer receives raise an event, once; 0: never
};

class QueuePair final : public QpOwner, private ReceiveSink {
 public:
  /// What the program has.
  struct Handle {
    ibv_qp_ex ex{};
    QueuePair* self = nullptr;
  };
  /// `attributes` are within the device's limits.
  QueuePair(Nic& nic, const ibv_qp_init_attr& attributes, uint32_t domain);

  ibv_qp* handle() { return &handle_.ex.qp_base; }
  ibv_qp_ex* extended() { return &handle_.ex; }
  static QueuePair& of(ibv_qp* qp) { return *reinterpret_cast<Handle*>(qp)->self; }
  static QueuePair& of(ibv_qp_ex* qp) { return *reinterpret_cast<Handle*>(qp)->self; }
  Nic& nic() { return nic_; }
  uint32_t number() const { return handle_.ex.qp_base.qp_num; }
  void set_number(uint32_t qpn) { handle_.ex.qp_base.qp_num = qpn; }
  const ibv_qp_init_attr& created_with() const { return created_; }
  const ibv_qp_attr& attributes() const { return attributes_; }

  /// What must be known before modify(): whether that change is allowed with these attributes; 0 or
  /// EINVAL.
  int check_modify(const ibv_qp_attr& to, int mask) const;
  /// As checked; `peer_mac` where the mask has IBV_QP_AV.
  int modify(const ibv_qp_attr& to, int mask, const MacAddress& peer_mac);

  /// An errno of ibv_post_send(3) or 0. The caller sends.
  int post_send(const ibv_send_wr& request);
  int post_receive(const ibv_recv_wr& request);

  /// Ends all work; `event` tells the program why where no completion does.
  void fail(std::optional<ibv_event_type> event);
  size_t works() const { return sends_.waiting(); }  ///< posted and not done
  bool uses(uint32_t region) const { return sends_.uses(region); }

  // For the device:
  bool is_ready = false;
  bool hears(const IpAddress& from, const IpAddress& to) const;
  /// Its next packet does not leave the process.
  bool is_local() const { return rc_ ? is_local_ : is_datagram_local(); }
  void on_packet(Time now, const FrameView& view, const RoceView& roce, const uint8_t* payload);
  bool has_packet(Time now) const;
  /// Writes the next packet; returns its bytes, 0 for none after all.
  uint32_t build(Time now, uint8_t* out);
  Time deadline() const { return rc_ ? rc_->deadline() : Time::never(); }
  /// It goes: what it has of the device's memory is given back.
  void end_connection() { rc_.reset(); }
  void on_timer(Time now);

  uint32_t events_raised = 0;  ///< asynchronous ones

 private:
  // queue_pair_states.cc
  void connect(const MacAddress& peer_mac);
  void begin_to_send();
  void reset();
  uint8_t access() const;
  bool is_unreliable() const { return created_.qp_type == IBV_QPT_UC; }

  // queue_pair_post.cc
  ibv_wc_status find_pieces(const ibv_send_wr& request, bool writes, Work& work);
  int check_send(const ibv_send_wr& request) const;
  void take_inline(const ibv_send_wr& request, Work& work);
  bool begin(const ibv_send_wr& request, Work& work);
  WorkRequest translate(const ibv_send_wr& request, Work& work);

  // queue_pair_datagrams.cc
  bool is_datagrams() const { return created_.qp_type == IBV_QPT_UD; }
  int check_datagram(const ibv_send_wr& request) const;
  void address(const ibv_send_wr& request, Datagram& out) const;
  bool is_datagram_local() const;
  uint32_t build_datagram(uint8_t* out);
  void hear_datagram(const FrameView& view, const RoceView& roce, const uint8_t* payload);

  // QpOwner
  void on_received(Time now, Qp& qp, const Received& message) override;
  void on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) override;
  void on_established(Time now, Qp& qp) override;
  // ReceiveSink
  bool take() override;
  std::optional<NakCode> place(uint32_t offset, std::span<const uint8_t> bytes) override;

  void complete(const Work& work, ibv_wc_status status);
  void complete_receive(const ibv_wc& wc, bool solicited);
  void finish_refused();
  void flush_receives();
  void raise(ibv_event_type type);
  void look_for_end(bool was_request, uint64_t refusals_before);
  ReceiveQueue& receives() { return shared_ != nullptr ? shared_->queue : *own_receives_; }
  CompletionQueue& send_cq() { return CompletionQueue::of(created_.send_cq); }
  CompletionQueue& receive_cq() { return CompletionQueue::of(created_.recv_cq); }
  void push(CompletionQueue& cq, const ibv_wc& wc, bool solicited);

  Handle handle_;
  Nic& nic_;
  const ibv_qp_init_attr created_;
  const uint32_t domain_;
  ibv_qp_attr attributes_{};
  std::optional<Qp> rc_;
  OutPacket out_;
  SendQueue sends_;
  std::optional<ReceiveQueue> own_receives_;
  SharedReceives* shared_;
  Receive receive_;         ///< the one that a message is coming into ...
  bool receiving_ = false;  ///< ... if there is one
  ibv_wc_status receive_status_ = IBV_WC_SUCCESS;
  bool blocked_ = false;  ///< a request that fails waits for those before it, others behind it
  bool is_local_ = false;
  Psn next_psn_;  ///< of datagrams
};

}  // namespace understudy::soft_nic
