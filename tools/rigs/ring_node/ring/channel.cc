#include "tools/rigs/ring_node/ring/channel.h"

#include <cstring>

#include "dataplane/base/try.h"

namespace understudy {

RankChannel::RankChannel(const RingJobMessage& job, uint32_t channel, ChannelLinks& links)
    : cutting_(job),
      links_(links),
      ranks_(job.ranks),
      rank_(job.client_rank),
      channel_(channel),
      slices_(cutting_.slices_per_chunk()),
      window_(kRingSteps / job.cutting.slice_steps) {}

void RankChannel::start(const ElementRange& part, const float* input, float* output) {
  part_ = part;
  input_ = input;
  output_ = output;
  base_ += messages_;
  messages_ = cutting_.messages(part);
  loops_ = cutting_.loops(part);
  granted_ = received_ = consumed_ = 0;
  stage_loop_ = 0;
  stage_step_ = 0;
  stage_slice_ = 0;
}

ElementRange RankChannel::incoming(uint64_t m) const {
  const uint64_t per_loop = uint64_t{2} * (ranks_ - 1) * slices_;
  const uint64_t j = m % per_loop / slices_;
  // The j-th send of rank x is chunk x+n-1-j, its j-th receive chunk x+n-2-j, modulo n.
  const uint32_t k = static_cast<uint32_t>((rank_ + 2 * uint64_t{ranks_} - 2 - j) % ranks_);
  return cutting_.slice(cutting_.chunk(part_, m / per_loop, k), static_cast<unsigned>(m % slices_));
}

Result<bool> RankChannel::progress() {
  bool moved = false;
  while (step()) moved = true;
  // Grants follow the work: a consumed message's buffer is free again (docs/nccl 3.8).
  while (granted_ < messages_ && granted_ < consumed_ + window_) {
    TRY(links_.grant(base_ + granted_));
    ++granted_;
    moved = true;
  }
  auto posted = TRY(post());
  return moved || posted;
}

bool RankChannel::step() {
  if (stage_loop_ == loops_) return false;
  const uint32_t last_step = 2 * ranks_ - 2;
  const bool receives = stage_step_ > 0;
  const bool sends = stage_step_ < last_step;
  const bool reduces = receives && stage_step_ <= ranks_ - 1;
  const bool final = stage_step_ >= ranks_ - 1;
  if (receives && received_ == consumed_) return false;
  if (sends && filled_ == acknowledged_ + window_) return false;

  const uint32_t k = (rank_ + 2 * ranks_ - 1 - stage_step_) % ranks_;
  const ElementRange range = cutting_.slice(cutting_.chunk(part_, stage_loop_, k), stage_slice_);
  const float* own = input_ + range.first;
  const float* in = receives ? links_.receive_slot(base_ + consumed_) : own;
  float* out = final ? output_ + range.first : links_.send_slot(filled_);
  if (reduces) {
    for (uint64_t i = 0; i < range.count; ++i) out[i] = in[i] + own[i];
  } else {
    std::memcpy(out, in, range.count * RankCutting::kElement);
  }
  if (final && sends) {
    std::memcpy(links_.send_slot(filled_), out, range.count * RankCutting::kElement);
  }
  consumed_ += receives ? 1 : 0;
  if (sends) {
    filled_bytes_[filled_ % kRingSteps] =
        static_cast<uint32_t>(range.count * RankCutting::kElement);
    ++filled_;
  }

  if (++stage_slice_ < slices_) return true;
  stage_slice_ = 0;
  if (++stage_step_ <= last_step) return true;
  stage_step_ = 0;
  ++stage_loop_;
  return true;
}

Result<bool> RankChannel::post() {
  bool moved = false;
  while (posted_ < filled_) {
    const CreditEntry* credit = links_.credit(posted_);
    if (credit == nullptr) break;
    const uint32_t bytes = filled_bytes_[posted_ % kRingSteps];
    TRY(check(*credit, bytes));
    TRY(links_.send(posted_, *credit, bytes));
    ++posted_;
    moved = true;
  }
  return moved;
}

Result<void> RankChannel::check(const CreditEntry& credit, uint64_t bytes) const {
  const std::string fault = credit_fault(credit, rank_, bytes);
  if (fault.empty()) return {};
  return fail("channel " + std::to_string(channel_) + ", credit " + std::to_string(posted_) +
              " of the next rank: " + fault);
}

Result<void> RankChannel::on_received(uint32_t size) {
  const std::string where = "channel " + std::to_string(channel_) + ", message " +
                            std::to_string(base_ + received_) + " of the previous rank: ";
  if (received_ == granted_) return fail(where + "came without a credit");
  const uint64_t expected = incoming(received_).count * RankCutting::kElement;
  if (size != expected) {
    return fail(where + std::to_string(size) + " bytes, the cutting says " +
                std::to_string(expected));
  }
  ++received_;
  return {};
}

std::string RankChannel::waiting_for() const {
  std::string text = "channel " + std::to_string(channel_) + ": " + std::to_string(consumed_) +
                     " of " + std::to_string(messages_) + " messages received, " +
                     std::to_string(acknowledged_) + " of " + std::to_string(base_ + messages_) +
                     " of all operations sent and acknowledged; waits for ";
  if (posted_ < filled_) return text + "a credit for message " + std::to_string(posted_);
  if (acknowledged_ < posted_) {
    text += "the acknowledgement of message " + std::to_string(acknowledged_);
    if (done() || received_ > consumed_) return text;
    text += " and ";
  }
  return text + "message " + std::to_string(base_ + received_) + " of the previous rank";
}

}  // namespace understudy
