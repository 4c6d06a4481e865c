#include "tools/rigs/ring_node/session.h"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "dataplane/base/try.h"
#include "tools/rigs/ring_node/values.h"

namespace understudy {
namespace {

using std::chrono::milliseconds;

/// Empty polls before the processor is offered to others: Soft-RoCE may need it for our packets.
constexpr unsigned kPollsPerYield = 64;
/// Empty polls, about a millisecond of them, after which it sleeps between polls: a virtual machine
/// that spins through a long message takes the processor from what sends the message.
constexpr unsigned kPollsBeforeSleep = 16384;
constexpr std::chrono::microseconds kSleep{50};
/// Empty polls before the clock is read, which is a system call in some virtual machines.
constexpr unsigned kPollsPerLook = 1024;
constexpr uint64_t kLookEveryNs = 1'000'000'000;

/// Waits as long as is right after so many empty polls.
void pause_polling(unsigned idle_polls) {
  if (idle_polls >= kPollsBeforeSleep) {
    std::this_thread::sleep_for(kSleep);
  } else if (idle_polls % kPollsPerYield == 0) {
    sched_yield();
  }
}

/// CLOCK_MONOTONIC.
uint64_t now_ns() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::nanoseconds(since).count());
}

}  // namespace

Result<SizeOutcome> Session::run_size(uint32_t index) {
  const RingJobMessage::Operation& operation = job_.operations[index];
  const uint64_t count = operation.bytes / RankCutting::kElement;
  const bool verify = verifies();
  std::vector<float> input = input_values(input_seed_, job_.client_rank, count);
  std::vector<float> expected;
  if (verify) expected = expected_values(job_, input_seed_, input);
  std::vector<float> output(count);

  SizeOutcome outcome;
  outcome.bytes = operation.bytes;
  uint64_t wrong = 0;
  const uint64_t runs = uint64_t{operation.warmup} + operation.iterations;
  for (uint64_t run = 0; run < runs; ++run) {
    const bool perturbed = options_.perturb && run + 1 == runs;
    const uint64_t element = options_.perturb.value_or(0) % count;
    std::vector<float> before;
    if (perturbed) {
      // `output` is what came out of the unchanged input; the other sign is always seen in a sum.
      before = output;
      input[element] = -input[element];
      expected = expected_values(job_, input_seed_, input);
    }
    std::ranges::fill(output, 0.0f);
    TRY(wait_before_operation());
    const auto time = run_operation(input, output);
    if (!time) return fail(std::to_string(operation.bytes) + " bytes: " + time.error().text);
    if (run >= operation.warmup) outcome.times_ns.push_back(*time);
    if (const uint64_t differences = verify ? count_differences(output, expected) : 0) {
      if (wrong == 0)
        outcome.first_wrong =
            "run " + std::to_string(run) + ", " + first_difference(output, expected);
      wrong += differences;
    }
    if (perturbed && only_difference(before, output) != element) {
      outcome.perturbation_seen = false;
    }
  }
  if (verify) outcome.wrong = wrong;
  Neighbour<RingClient>& next = *neighbours_.front();
  next.machine().send_result({.operation = index,
                              .bytes = outcome.bytes,
                              .times_ns = outcome.times_ns,
                              .wrong = outcome.wrong});
  TRY(next.exchange(milliseconds(0)));
  return outcome;
}

Result<void> Session::wait_before_operation() const {
  const auto period = static_cast<uint64_t>(options_.period.count());
  auto wait = static_cast<uint64_t>(options_.delay.count());
  if (period != 0) wait += (now_ns() / period + 1) * period;
  if (wait == 0) return {};
  // Else a sleep may be up to 50 us longer.
  prctl(PR_SET_TIMERSLACK, 1);
  constexpr uint64_t kSecond = 1'000'000'000;
  const timespec time{static_cast<time_t>(wait / kSecond), static_cast<long>(wait % kSecond)};
  const int error =
      clock_nanosleep(CLOCK_MONOTONIC, period != 0 ? TIMER_ABSTIME : 0, &time, nullptr);
  return error == 0 ? Result<void>()
                    : fail(std::string("clock_nanosleep: ") + std::strerror(error));
}

Result<uint64_t> Session::run_operation(std::span<const float> input, std::span<float> output) {
  const RankCutting cutting(job_);
  const std::vector<ElementRange> parts = cutting.parts(input.size());
  if (profiler_ != nullptr) {
    const auto used = std::ranges::count_if(parts, [](const auto& part) { return part.count > 0; });
    profiler_->start(input.size(), static_cast<uint32_t>(used));
  }
  const uint64_t start = now_ns();
  for (size_t c = 0; c < channels_.size(); ++c) {
    channels_[c]->start(parts[c], input.data(), output.data());
  }
  TRY(work_until(&RankChannel::done));
  return now_ns() - start;
}

Result<void> Session::work_until(bool (RankChannel::*over)() const) {
  unsigned idle_polls = 0;
  uint64_t last_progress = 0;  // time of the first look after the last progress, 0 before it
  uint64_t last_look = 0;
  const auto unfinished = [&](const auto& channel) { return !(*channel.*over)(); };
  while (std::ranges::any_of(channels_, unfinished)) {
    bool moved = false;
    for (auto& channel : channels_) {
      const auto progressed = TRY(channel->progress());
      moved = moved || progressed;
    }
    // What there is to do is done before it looks: a look may wait.
    if (!moved) {
      moved = TRY(poll_completions());
    }
    if (moved) {
      idle_polls = 0;
      last_progress = 0;
      continue;
    }
    ++idle_polls;
    pause_polling(idle_polls);
    if (idle_polls % kPollsPerLook != 0) continue;
    const uint64_t now = now_ns();
    if (last_progress == 0) last_progress = last_look = now;
    if (now - last_look < kLookEveryNs) continue;
    last_look = now;
    TRY(look_for_trouble(now - last_progress));
  }
  return {};
}

Result<bool> Session::poll_completions() {
  ibv_wc completions[16];
  const int count = ibv_poll_cq(device_.completion_queue(), 16, completions);
  if (count < 0) return fail("ibv_poll_cq failed");
  for (int i = 0; i < count; ++i) {
    const ibv_wc& wc = completions[i];
    const uint64_t kind = wc.wr_id & 3;
    if (wc.status != IBV_WC_SUCCESS) {
      static constexpr const char* kKinds[] = {"data write", "receive", "credit write"};
      const std::string event = device_.fatal_event();
      return fail("channel " + std::to_string(wc.wr_id >> 2) + ", " + kKinds[kind] + ": " +
                  ibv_wc_status_str(wc.status) + " (status " + std::to_string(wc.status) +
                  ", vendor error " + std::to_string(wc.vendor_err) + ")" +
                  (event.empty() ? "" : "; " + event) + "; " + channel(wc.wr_id).waiting_for());
    }
    if (kind == VerbsLinks::kData) {
      channel(wc.wr_id).on_sent();
    } else if (kind == VerbsLinks::kReceive) {
      TRY(channel(wc.wr_id).on_received(wc.imm_data));
    }
  }
  return count > 0;
}

Result<void> Session::look_for_trouble(uint64_t idle_ns) {
  if (const std::string event = device_.fatal_event(); !event.empty()) return fail(event);
  for (auto& neighbour : neighbours_) {
    TRY(neighbour->exchange(milliseconds(0)));
  }
  if (caller_ != nullptr) {
    TRY(caller_->exchange(milliseconds(0)));
  }
  if (milliseconds(idle_ns / 1'000'000) < options_.progress_limit) return {};
  std::string text = "no progress for " + std::to_string(idle_ns / 1'000'000) + " ms";
  for (const auto& channel : channels_) {
    if (!channel->idle()) text += "; " + channel->waiting_for();
  }
  return fail(text);
}

void Session::pass_results() {
  if (caller_ == nullptr || all_real()) return;  // a circle: the program's own output shows them
  for (const RingResultMessage& result : caller_->machine().take_results()) {
    neighbours_.front()->machine().send_result(result);
  }
}

Result<void> Session::finish() {
  TRY(work_until(&RankChannel::idle));
  // A real one may still need acknowledgements of ours, and has results to pass on.
  const auto wait_for_caller = [&]() -> Result<void> {
    if (caller_ == nullptr) return {};
    return caller_->wait_for("end of its operations", options_.progress_limit,
                             [](RealPeer& m) { return m.done(); });
  };
  if (!all_real()) {
    TRY(wait_for_caller());
    pass_results();
  }
  for (auto& neighbour : neighbours_) {
    neighbour->machine().send_done();
    TRY(neighbour->exchange(milliseconds(0)));
  }
  return all_real() ? wait_for_caller() : Result<void>();
}

void Session::give_up(const std::string& why) {
  // Whether it arrives no longer matters to us: there is a better error to show.
  for (auto& neighbour : neighbours_) {
    neighbour->machine().send_error(why);
    static_cast<void>(neighbour->exchange(milliseconds(0)));
  }
  if (caller_ == nullptr) return;
  caller_->machine().send_error(why);
  static_cast<void>(caller_->exchange(milliseconds(0)));
}

}  // namespace understudy
