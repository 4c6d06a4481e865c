#include "tests/rigs/nccl_rank/verbs/data_phase.h"

#include <algorithm>
#include <thread>

#include "tests/rigs/nccl_rank/verbs/lines.h"

namespace understudy::nccl_rank {

using std::chrono::steady_clock;

Link link_of(const Connection& c) {
  const bool sends = c.direction == Direction::kSend;
  return {static_cast<int>(c.channel), static_cast<int>(sends ? c.to : c.from), c.index, sends};
}

DataPhase::DataPhase(const RankSchedule& schedule, const Find& find, Values* values)
    : schedule_(schedule), values_(values) {
  for (const Connection& c : schedule.connections()) {
    Side side;
    side.connection = &find(c);
    side.connection->begin({c.capacity / c.slice_steps, c.slice_steps, c.chunk_steps, c.capacity});
    const DataConnection& made = *side.connection;
    side.first = c.direction == Direction::kSend ? made.posted() : made.granted();
    sides_.push_back(side);
  }
}

uint64_t DataPhase::acknowledged(const Side& side) const {
  return side.connection->acknowledged() - side.first;
}

bool DataPhase::over() const {
  for (size_t c = 0; c < sides_.size(); ++c) {
    const Connection& connection = schedule_.connections()[c];
    const Side& side = sides_[c];
    const uint64_t reached =
        connection.direction == Direction::kSend ? acknowledged(side) : side.done;
    if (reached < connection.messages) return false;
  }
  return true;
}

bool DataPhase::look_at_arrivals(uint32_t c) {
  Side& side = sides_[c];
  bool any = false;
  while (side.first + side.seen < side.connection->arrived()) {
    const uint64_t k = side.seen++, at = side.first + k;
    const uint32_t expected = schedule_.message(c, k).wire;
    require(side.connection->size(at) == expected,
            "message " + std::to_string(k) + " of " + rank_text(side.connection->link().peer) +
                ": " + std::to_string(side.connection->size(at)) + " bytes instead of " +
                std::to_string(expected));
    require(flags_are_right(schedule_.connections()[c].protocol, side.connection->step(at),
                            side.connection->slot(at), expected),
            "message " + std::to_string(k) + " of " + rank_text(side.connection->link().peer) +
                ": a flag that its kernel would wait for is not there");
    if (values_ != nullptr) values_->receive(c, k, side.connection->slot(at));
    any = true;
  }
  return any;
}

bool DataPhase::ready(uint32_t c) const {
  const auto& all = schedule_.connections();
  const Connection& connection = all[c];
  const Side& side = sides_[c];
  if (side.done == connection.messages) return false;
  if (connection.direction == Direction::kReceive) {
    if (side.seen <= side.done) return false;
  } else if (side.done >= acknowledged(side) + connection.window) {
    return false;
  }
  for (const Wait& wait : schedule_.waits(c, side.done)) {
    const Side& other = sides_[wait.connection];
    if (wait.moment == Wait::Moment::kArrival) {
      if (other.seen <= wait.message) return false;
    } else if (connection.joint == 0 || all[wait.connection].joint != connection.joint) {
      if (other.done <= wait.message) return false;
    }
  }
  return true;
}

void DataPhase::do_next(uint32_t c) {
  Side& side = sides_[c];
  const uint64_t k = side.done++;
  const Connection& connection = schedule_.connections()[c];
  if (connection.direction == Direction::kReceive) return;
  const uint64_t at = side.first + k;
  if (values_ != nullptr) values_->send(c, k, side.connection->slot(at));
  write_flags(connection.protocol, side.connection->step(at), side.connection->slot(at),
              schedule_.message(c, k).wire);
}

bool DataPhase::advance() {
  const auto& all = schedule_.connections();
  const auto count = static_cast<uint32_t>(all.size());
  bool any = false;
  for (uint32_t c = 0; c < count; ++c) {
    Side& side = sides_[c];
    if (all[c].direction == Direction::kReceive) {
      any |= look_at_arrivals(c);
      for (; side.granted < std::min(all[c].messages, side.done + all[c].window); ++side.granted) {
        side.connection->grant();
        any = true;
      }
    } else {
      while (side.posted < side.done &&
             side.connection->post(schedule_.message(c, side.posted).wire)) {
        ++side.posted;
        any = true;
      }
    }
  }
  if (left_ == 0) stop_();
  for (uint32_t c = 0; c < count && left_ != 0; ++c) {
    // One primitive: all its connections or none; the first of them stands for it.
    const auto together = [&](uint32_t d) {
      return d == c || (all[c].joint != 0 && all[d].joint == all[c].joint);
    };
    bool can = true;
    for (uint32_t d = 0; d < count && can; ++d) {
      if (together(d)) can = d >= c && ready(d);
    }
    if (!can) continue;
    for (uint32_t d = c; d < count; ++d) {
      if (together(d)) do_next(d);
    }
    if (left_) --*left_;
    any = true;
  }
  return any;
}

void DataPhase::stop_after(uint64_t primitives, std::function<void()> then) {
  left_ = primitives;
  stop_ = std::move(then);
}

std::string DataPhase::standing() const {
  std::string out;
  for (size_t c = 0; c < sides_.size(); ++c) {
    const Connection& connection = schedule_.connections()[c];
    const Side& side = sides_[c];
    const bool sends = connection.direction == Direction::kSend;
    out += "\n  channel " + std::to_string(connection.channel) + (sends ? " to " : " of ") +
           rank_text(side.connection->link().peer) + ": of " + std::to_string(connection.messages) +
           " messages " + std::to_string(side.done) + " done, " +
           std::to_string(sends ? side.posted : side.granted) + (sends ? " sent, " : " granted, ") +
           std::to_string(sends ? acknowledged(side) : side.seen) +
           (sends ? " acknowledged" : " arrived");
  }
  return out;
}

void run_phases(const std::vector<std::unique_ptr<DataPhase>>& phases,
                std::chrono::milliseconds patience, const std::function<bool()>& poll,
                const std::function<void()>& beside) {
  constexpr int kPollsBeforeSleep = 256;
  auto last = steady_clock::now();
  const auto over = [&] {
    return std::ranges::all_of(phases, [](const auto& phase) { return phase->over(); });
  };
  for (int idle = 0; !over();) {
    bool moved = poll();
    for (bool again = true; again; moved = moved || again) {
      again = false;
      for (const auto& phase : phases) again = phase->advance() || again;
    }
    if (moved) {
      idle = 0;
      continue;
    }
    if (idle++ == 0) last = steady_clock::now();
    if (idle < kPollsBeforeSleep) continue;
    // Whoever plays the RDMA device needs the processor.
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    beside();
    if (steady_clock::now() - last < patience) continue;
    std::string standing;
    for (const auto& phase : phases) standing += phase->standing();
    throw Refused("nothing comes any more:" + standing);
  }
}

}  // namespace understudy::nccl_rank
