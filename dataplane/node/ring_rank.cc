#include "dataplane/node/ring_rank.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace understudy {

namespace {
constexpr uint32_t kWindow = RingSchedule::kWindow;
constexpr uint64_t kEnter = uint64_t{1} << 32;  // cookies below it: 1 + channel
}  // namespace

RingRank::RingRank(const RingJob& job, RingProgress& progress, const Memory& memory)
    : job_(job), progress_(progress), memory_(memory), channels_(job.channels) {
  for (uint32_t c = 0; c < job.channels; ++c) {
    for (size_t i = 0; i < job.operations.size(); ++i) channels_[c].total += job.messages(i, c);
  }
}

void RingRank::on_wake(Time now, uint64_t cookie) {
  if (cookie == kStart) {
    for (Channel& ch : channels_) {
      const uint64_t first = std::min<uint64_t>(kWindow, ch.total);
      for (uint64_t i = 0; i < first; ++i) ch.receiver.grant(now, *host_);
    }
    if (!job_.operations.empty()) {
      host_->wake_at(std::max(now, job_.operations[0].entry + job_.real_delay), *this, kEnter);
    }
  } else if (cookie == kEnter) {
    enter(now);
  } else {
    advance(now, static_cast<uint32_t>(cookie - 1));
  }
}

void RingRank::enter(Time now) {
  const RingOperation& operation = job_.operations[operation_];
  progress_.results[operation_].entry = now;
  if (job_.exact) fill_input(operation);
  channels_left_ = 0;
  for (uint32_t c = 0; c < channels_.size(); ++c) {
    channels_[c].running = job_.messages(operation_, c) != 0;
    channels_left_ += channels_[c].running ? 1 : 0;
  }
  for (uint32_t c = 0; c < channels_.size(); ++c) advance(now, c);
}

/// NCCL's kernel, in order: per loop 2J sends, of which all but the first step's use a receive,
/// then the two receives of the last step, which are only copied out.
void RingRank::advance(Time now, uint32_t c) {
  Channel& ch = channels_[c];
  while (ch.running) {
    const uint32_t sends = schedule(c).messages_per_loop();
    const uint32_t sequence = sends + RingSchedule::kSlices;
    const uint32_t loop = ch.step / sequence;
    const uint32_t at = ch.step % sequence;
    const uint32_t send = loop * sends + at;
    if (at < sends && send >= ch.acked + kWindow) break;  // no free step to send from
    if (at >= RingSchedule::kSlices && !use_receive(now, c, send - RingSchedule::kSlices)) break;
    if (at < sends) ++ch.processed;
    ++ch.step;
    if (ch.step == schedule(c).loops() * sequence) finish_channel(now, c);
    send_ready(now, c);
  }
}

bool RingRank::use_receive(Time now, uint32_t c, uint32_t m) {
  Channel& ch = channels_[c];
  if (ch.base + m >= ch.arrived) return false;
  const Arrival& arrival = ch.arrivals[(ch.base + m) % kReceiveSlots];
  if (arrival.usable > now) {
    host_->wake_at(arrival.usable, *this, 1 + c);
    return false;
  }
  RingResult& result = progress_.results[operation_];
  result.bytes_received += arrival.bytes;
  if (arrival.bytes != schedule(c).size(job_.previous(job_.real_rank), m)) ++result.size_mismatches;
  if (job_.exact) {
    const uint32_t from = job_.previous(job_.real_rank);
    const RingMessage message = schedule(c).sent(from, m);
    const uint8_t* data =
        memory_.received[c] + uint64_t{ch.receiver.slot(ch.base + m)} * RingSchedule::kMessageBytes;
    float* own = memory_.data.data() + message.offset / sizeof(float);
    const size_t count = message.size / sizeof(float);
    const bool reduce = message.step + 1 < job_.ranks;  // later ones carry final results
    for (size_t i = 0; i < count; ++i) {
      float v;
      std::memcpy(&v, data + i * sizeof v, sizeof v);
      own[i] = reduce ? v + own[i] : v;
    }
  }
  if (ch.receiver.granted() < ch.total) ch.receiver.grant(now, *host_);
  return true;
}

void RingRank::send_ready(Time now, uint32_t c) {
  Channel& ch = channels_[c];
  while (ch.sent < ch.processed) {
    const RingMessage message = schedule(c).sent(job_.real_rank, ch.sent);
    PayloadRef payload;
    if (job_.exact) {
      payload.bytes = reinterpret_cast<const uint8_t*>(memory_.data.data());
      payload.offset = message.offset;
    }
    if (!ch.sender.send(now, *host_, ch.base + ch.sent, message.size, payload, ch.sent)) return;
    progress_.results[operation_].bytes_sent += message.size;
    ++ch.sent;
  }
}

void RingRank::on_received(Time now, Qp& qp, const Received& message) {
  for (uint32_t c = 0; c < channels_.size(); ++c) {
    Channel& ch = channels_[c];
    // The last credits may come after the last receive was used, when the channel runs no more.
    if (ch.sender.qp() == &qp) send_ready(now, c);
    if (ch.receiver.qp() != &qp || !message.has_imm) continue;
    if (ch.arrived == ch.receiver.granted()) {
      ++progress_.violations;
      continue;
    }
    // Credits are granted across operations: the predecessor may have entered the next one.
    ch.arrivals[ch.arrived++ % kReceiveSlots] = {now + job_.step_cost, message.length};
    advance(now, c);
  }
}

void RingRank::on_completed(Time now, Qp& qp, uint64_t, WorkStatus status) {
  if (status != WorkStatus::kSuccess) {
    progress_.failed = true;
    return;
  }
  for (uint32_t c = 0; c < channels_.size(); ++c) {
    if (channels_[c].sender.qp() != &qp) continue;
    ++channels_[c].acked;
    advance(now, c);
    if (!channels_[c].running) finish_channel(now, c);
  }
}

/// A channel is through when it has used its last receive; the operation's time ends there. The
/// next operation waits for the acknowledgements too.
void RingRank::finish_channel(Time now, uint32_t c) {
  Channel& ch = channels_[c];
  if (ch.running) {
    ch.running = false;
    RingResult& result = progress_.results[operation_];
    result.end = std::max(result.end, now);
  }
  const uint32_t messages = job_.messages(operation_, c);
  if (messages == 0 || ch.acked < messages) return;
  ch.base += messages;
  ch.step = ch.processed = ch.sent = ch.acked = 0;
  if (--channels_left_ != 0) return;
  const RingOperation& operation = job_.operations[operation_];
  if (job_.exact) progress_.results[operation_].wrong_elements = wrong_elements(operation);
  ++operation_;
  progress_.finished.store(static_cast<uint32_t>(operation_), std::memory_order_release);
  if (operation_ < job_.operations.size()) {
    host_->wake_at(std::max(now, job_.operations[operation_].entry + job_.real_delay), *this,
                   kEnter);
  }
}

void RingRank::fill_input(const RingOperation& operation) {
  const Pattern own(memory_.input_seed, job_.real_rank);
  const size_t count = operation.bytes / sizeof(float);
  for (size_t i = 0; i < count; ++i) memory_.data[i] = own.at(i);
}

/// Chunk k of a loop is first sent by rank k+1 and grows by one contribution a hop
/// (nccl-wire 3.10).
uint64_t RingRank::wrong_elements(const RingOperation& operation) const {
  uint64_t wrong = 0;
  for (uint32_t c = 0; c < channels_.size(); ++c) {
    if (operation.plans[c] == nullptr) continue;
    const RingSchedule& schedule = operation.plans[c]->schedule();
    for (uint32_t loop = 0; loop < schedule.loops(); ++loop) {
      for (uint32_t rank = 0; rank < job_.ranks; ++rank) {
        for (uint32_t slice = 0; slice < RingSchedule::kSlices; ++slice) {
          const uint32_t m = loop * schedule.messages_per_loop() + slice;
          const RingMessage first = schedule.sent(rank, m);
          for (uint64_t i = 0; i < first.size / sizeof(float); ++i) {
            const uint64_t element = first.offset / sizeof(float) + i;
            float sum = 0;
            for (uint32_t k = 0; k < job_.ranks; ++k) {
              const uint32_t r = (rank + k) % job_.ranks;
              const uint64_t seed = r == job_.real_rank ? memory_.input_seed : job_.seed;
              const float own = Pattern(seed, r).at(element);
              sum = k == 0 ? own : sum + own;
            }
            wrong += std::bit_cast<uint32_t>(sum) != std::bit_cast<uint32_t>(memory_.data[element]);
          }
        }
      }
    }
  }
  return wrong;
}

}  // namespace understudy
