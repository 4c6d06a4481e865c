// What the sender of an unreliable connection sends: every packet once, in the order of PSNs, and
// nobody answers. What was lost is no fault of its.
#include "tools/roce_check/requests/request_stream.h"

namespace understudy {

void RequestStream::unreliable(const PacketRecord& p) {
  findings_.examined(Rule::kA4_2);
  findings_.examined(Rule::kA4_4);
  findings_.examined(Rule::kA4_5);
  if (!started_) start(p);
  int64_t psn = extended(p.psn);
  if (is_new_connection(p, psn)) {
    start(p);
    psn = next_;
  }
  if (psn < next_) {
    ++counts_.retransmissions;
    if (!context_.impaired) {
      fault(Rule::kA5_6, p.stamp(), psn, "sent again, which an unreliable connection never does");
    }
    return;
  }
  ++counts_.requests;
  if (psn > next_) {
    if (!context_.impaired) {
      suspect(Rule::kA4_2, p.stamp(), psn,
              std::to_string(psn - next_) + " packets before it were not sent");
    }
    open_.reset();
    cut_ = true;
  }
  next_ = base_ = acked_ = retired_end_ = psn + 1;
  if (!p.info().start && !open_ && psn != first_) return;  // the rest of one that has a gap
  Slot slot;
  set(slot, p, 0);
  judge_message(slot, psn, p.stamp());
}

}  // namespace understudy
