#include "dataplane/node/ring_environment.h"

#include <algorithm>
#include <cstring>

namespace understudy {

namespace {
/// Credits that a receiver keeps granted: NCCL_STEPS / sliceSteps (nccl-wire 3.8).
constexpr uint32_t kWindow = RingSchedule::kWindow;
}  // namespace

RingEnvironment::RingEnvironment(const RingJob& job, RingProgress& progress,
                                 const std::vector<const uint8_t*>& received)
    : job_(job),
      progress_(progress),
      sender_rank_(job.previous(job.real_rank)),
      receiver_rank_(job.next(job.real_rank)),
      received_(received) {
  channels_.reserve(job.channels);
  for (uint32_t c = 0; c < job.channels; ++c) {
    channels_.emplace_back(job.ranks);
    channels_[c].late_sent.resize(job.most_messages());
    channels_[c].late_received.resize(job.most_messages());
  }
}

void RingEnvironment::on_wake(Time now, uint64_t cookie) {
  const auto kind = static_cast<WakeKind>(cookie >> 56);
  const auto c = static_cast<uint32_t>(cookie >> 32 & 0xffffff);
  switch (kind) {
    case WakeKind::kStart:
      for (uint32_t i = 0; i < channels_.size(); ++i) {
        skip_unused(i);
        prepost_credits(now, i);
      }
      break;
    case WakeKind::kEnter:
      begin(now, c, now);
      break;
    case WakeKind::kData:
      ++channels_[c].due;
      send_due(now, c);
      break;
    case WakeKind::kCredit:
      channels_[c].receiver.grant(now, *host_);
      break;
  }
}

void RingEnvironment::skip_unused(uint32_t c) {
  Channel& ch = channels_[c];
  while (ch.operation < job_.operations.size() && job_.messages(ch.operation, c) == 0) {
    ++ch.operation;
  }
}

/// The first credits of an operation go out as soon as the buffers are free, so that the way they
/// take is not added to what the model charges for the entry.
void RingEnvironment::prepost_credits(Time now, uint32_t c) {
  Channel& ch = channels_[c];
  if (ch.operation == job_.operations.size()) return;
  const uint32_t first = std::min(kWindow, job_.messages(ch.operation, c));
  for (uint32_t i = 0; i < first; ++i) ch.receiver.grant(now, *host_);
  if (job_.scheduled) {
    host_->wake_at(std::max(now, job_.operations[ch.operation].entry), *this,
                   cookie(WakeKind::kEnter, c, 0));
  } else {
    begin_if_credited(now, c);
  }
}

void RingEnvironment::begin_if_credited(Time now, uint32_t c) {
  Channel& ch = channels_[c];
  if (job_.scheduled || ch.running || ch.operation == job_.operations.size()) return;
  // The real rank posted this credit when it entered; the emulated ranks entered with it.
  if (ch.sender.has_credit(ch.base)) begin(now, c, now - job_.credit_latency);
}

void RingEnvironment::begin(Time now, uint32_t c, Time entry) {
  Channel& ch = channels_[c];
  ch.running = true;
  ch.due = ch.sent = ch.acked = ch.received = 0;
  RingResult& result = progress_.results[ch.operation];
  if (result.entry == Time::zero() || entry < result.entry) result.entry = entry;
  ch.run.reset(plan(c), entry);
  pump(now, c);
}

void RingEnvironment::pump(Time now, uint32_t c) {
  PlanOutput out;
  while (channels_[c].run.next(out)) {
    if (out.kind == PlanOutput::Kind::kData) {
      host_->wake_at(std::max(now, out.time), *this, cookie(WakeKind::kData, c, out.message));
    } else if (out.message >= kWindow) {
      host_->wake_at(std::max(now, out.time), *this, cookie(WakeKind::kCredit, c, out.message));
    }
  }
}

void RingEnvironment::send_due(Time now, uint32_t c) {
  Channel& ch = channels_[c];
  while (ch.running && ch.sent < ch.due) {
    const uint32_t size = plan(c).schedule().size(sender_rank_, ch.sent);
    PayloadRef payload;
    if (job_.exact) {
      payload.source = this;
      payload.cookie = cookie(WakeKind::kData, c, ch.sent);
    }
    if (!ch.sender.send(now, *host_, ch.base + ch.sent, size, payload, ch.sent)) return;
    progress_.results[ch.operation].bytes_sent += size;
    ++ch.sent;
  }
}

RingEnvironment::Channel* RingEnvironment::channel_of(const Qp& qp, uint32_t& index,
                                                      bool& is_sender) {
  for (index = 0; index < channels_.size(); ++index) {
    Channel& ch = channels_[index];
    is_sender = ch.sender.qp() == &qp;
    if (is_sender || ch.receiver.qp() == &qp) return &ch;
  }
  return nullptr;
}

void RingEnvironment::on_received(Time now, Qp& qp, const Received& message) {
  uint32_t c = 0;
  bool is_sender = false;
  if (channel_of(qp, c, is_sender) == nullptr) return;
  if (!is_sender) return on_data(now, c, message);
  begin_if_credited(now, c);
  send_due(now, c);
}

void RingEnvironment::on_data(Time now, uint32_t c, const Received& message) {
  Channel& ch = channels_[c];
  if (!message.has_imm) return;
  // The real rank's first data may overtake its first credit, which goes the other way round.
  if (!ch.running && !job_.scheduled && ch.operation < job_.operations.size()) {
    begin(now, c, now - job_.credit_latency);
  }
  const uint32_t m = ch.received;
  if (!ch.running || m >= plan(c).schedule().messages()) {
    ++progress_.violations;
    return;
  }
  RingResult& result = progress_.results[ch.operation];
  if (message.length != plan(c).schedule().size(job_.real_rank, m)) ++result.size_mismatches;
  result.bytes_received += message.length;
  ch.late_received[m] = (m >= 2 ? ch.late_sent[m - 2] : Duration()) + host_->arrival_uncertainty();
  if (!ch.run.on_real_data(job_.real_rank, m, now)) ++progress_.violations;
  ++ch.received;
  pump(now, c);
  finish_if_done(now, c);
}

void RingEnvironment::on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) {
  if (status != WorkStatus::kSuccess) progress_.failed = true;
  uint32_t c = 0;
  bool is_sender = false;
  Channel* ch = channel_of(qp, c, is_sender);
  if (ch == nullptr || !is_sender || status != WorkStatus::kSuccess) return;
  ch->run.on_env_acked(sender_rank_, static_cast<uint32_t>(id), now);
  ++ch->acked;
  pump(now, c);
  finish_if_done(now, c);
}

void RingEnvironment::on_transmitted(Time scheduled, Time actual, Qp& qp, uint64_t id) {
  uint32_t c = 0;
  bool is_sender = false;
  Channel* ch = channel_of(qp, c, is_sender);
  if (ch == nullptr || !is_sender || !ch->running) return;
  const auto m = static_cast<uint32_t>(id);
  const uint32_t round = RingSchedule::kSlices * (job_.ranks - 1);  // law of nccl-wire 3.13
  ch->late_sent[m] =
      (actual - scheduled) + (m >= round ? ch->late_received[m - round] : Duration());
  RingResult& result = progress_.results[ch->operation];
  result.lateness = std::max(result.lateness, ch->late_sent[m]);
}

void RingEnvironment::finish_if_done(Time now, uint32_t c) {
  Channel& ch = channels_[c];
  if (!ch.running) return;
  const uint32_t messages = plan(c).schedule().messages();
  if (ch.acked < messages || ch.received < messages) return;
  RingResult& result = progress_.results[ch.operation];
  result.end = std::max(result.end, now);
  ch.running = false;
  ch.base += messages;
  ++ch.operation;
  skip_unused(c);
  report_finished();
  prepost_credits(now, c);
}

void RingEnvironment::report_finished() {
  size_t done = job_.operations.size();
  for (const Channel& ch : channels_) done = std::min(done, ch.operation);
  progress_.finished.store(static_cast<uint32_t>(done), std::memory_order_release);
}

/// The emulated predecessor's message in exact mode: what the chain of emulated ranks makes of its
/// start, which is the oldest of them (step 0) or what the real rank sent n-1 steps before. Ranks
/// add their own contribution in ring order, received + own, as NCCL's kernels do.
void RingEnvironment::fill(uint64_t cookie, uint64_t offset, std::span<uint8_t> out) const {
  const auto c = static_cast<uint32_t>(cookie >> 32 & 0xffffff);
  const auto m = static_cast<uint32_t>(cookie);
  const Channel& ch = channels_[c];
  // A packet sent again may leave when its operation is over; its receiver has the bytes already.
  if (ch.operation >= job_.operations.size() || m >= job_.messages(ch.operation, c)) {
    std::memset(out.data(), 0, out.size());
    return;
  }
  const RingMessage message = plan(c).schedule().sent(sender_rank_, m);
  const size_t count = out.size() / sizeof(float);
  const uint64_t first = (message.offset + offset) / sizeof(float);
  auto store = [&](size_t i, float v) { std::memcpy(out.data() + i * sizeof v, &v, sizeof v); };
  auto load = [&](size_t i) {
    float v;
    std::memcpy(&v, out.data() + i * sizeof v, sizeof v);
    return v;
  };
  const uint32_t emulated = job_.ranks - 1;
  uint32_t rank;  // whose contribution comes next
  uint32_t step;  // at which it sends
  if (message.step >= emulated) {
    const uint32_t source = m - RingSchedule::kSlices * emulated;
    const uint8_t* data =
        received_[c] + uint64_t{ch.receiver.slot(ch.base + source)} * RingSchedule::kMessageBytes +
        offset;
    std::memcpy(out.data(), data, out.size());
    rank = receiver_rank_;
    step = message.step - emulated + 1;
  } else {
    rank = (sender_rank_ + job_.ranks - message.step) % job_.ranks;
    const Pattern own(job_.seed, rank);
    for (size_t i = 0; i < count; ++i) store(i, own.at(first + i));
    rank = job_.next(rank);
    step = 1;
  }
  for (; rank != job_.real_rank && step < job_.ranks; rank = job_.next(rank), ++step) {
    const Pattern own(job_.seed, rank);
    for (size_t i = 0; i < count; ++i) store(i, load(i) + own.at(first + i));
  }
}

}  // namespace understudy
