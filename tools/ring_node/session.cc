#include "tools/ring_node/session.h"

#include <sched.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "tools/ring_node/values.h"

namespace understudy {
namespace {

using std::chrono::milliseconds;

/// Completions a channel can have outstanding: 4 receives, 4 sends, a credit; with room to spare.
constexpr unsigned kCompletionsPerChannel = 32;
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

Result<std::unique_ptr<Session>> Session::start(const RingNodeOptions& options) {
  auto to_next = TcpStream::dial(options.next, options.port, options.connect_limit);
  if (!to_next) return fail(to_next.error().text);
  const auto local = to_next->local_address();
  if (!local) return fail(local.error().text);
  auto device = VerbsDevice::open(options.device, *local, options.gid_index);
  if (!device) return fail(device.error().text);

  std::unique_ptr<Session> session(new Session(options, std::move(*device)));
  const IpAddress gid = session->device_.gid();
  session->neighbours_.push_back(std::make_unique<Neighbour>(
      "next rank at " + options.next.text(), std::move(*to_next), RingClient(options.job, gid)));
  if (options.previous != options.next) {
    auto to_previous = TcpStream::dial(options.previous, options.port, options.connect_limit);
    if (!to_previous) return fail(to_previous.error().text);
    session->neighbours_.push_back(
        std::make_unique<Neighbour>("previous rank at " + options.previous.text(),
                                    std::move(*to_previous), RingClient(options.job, gid)));
  }
  for (auto step : {&Session::learn_job, &Session::draw_input_seed, &Session::load_profiler,
                    &Session::connect_links}) {
    if (auto done = (session.get()->*step)(); !done) {
      session->give_up(done.error().text);
      return fail(done.error().text);
    }
  }
  return session;
}

Result<void> Session::learn_job() {
  const auto known = [](RingClient& client) { return client.job().has_value(); };
  for (auto& neighbour : neighbours_) {
    auto waited = neighbour->wait_for("description of the job", options_.connect_limit, known);
    if (!waited) return waited;
  }
  job_ = *neighbours_.front()->client().job();
  for (auto& neighbour : neighbours_) {
    const std::string difference = job_difference(job_, *neighbour->client().job());
    if (!difference.empty()) return fail("the neighbours describe different jobs: " + difference);
  }
  std::vector<RingDirection> directions = neighbours_.front()->client().directions();
  if (directions.front() != RingDirection::kClientSends) {
    return fail(options_.next.text() + " is not the rank after ours (rank " +
                std::to_string(job_.client_rank) + ")");
  }
  if ((job_.ranks == 2) != (neighbours_.size() == 1)) {
    return fail("a ring of " + std::to_string(job_.ranks) + " ranks has " +
                (job_.ranks == 2 ? "one neighbour" : "two different neighbours"));
  }
  if (options_.perturb && !verifies()) {
    return fail(
        "--perturb needs results that can be verified: payload \"exact\" and, with several "
        "real ranks, --input-seed");
  }
  for (const auto& operation : job_.operations) {
    if (options_.perturb && operation.warmup + operation.iterations < 2) {
      return fail("--perturb needs at least 2 iterations (with warm-up) of each size");
    }
  }
  return {};
}

Result<void> Session::draw_input_seed() {
  if (options_.input_seed) {
    input_seed_ = *options_.input_seed;
    return {};
  }
  if (getrandom(&input_seed_, sizeof input_seed_, 0) != sizeof input_seed_) {
    return fail(std::string("getrandom: ") + std::strerror(errno));
  }
  return {};
}

/// The communicator's hash is the job's name's: all of its ranks have the same.
Result<void> Session::load_profiler() {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : job_.name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  auto loaded = Profiler::load(hash, job_.client_rank, job_.ranks);
  if (!loaded) return fail(loaded.error().text);
  profiler_ = std::move(*loaded);
  return {};
}

bool Session::verifies() const { return verifiable(job_, options_.input_seed.has_value()); }

Result<void> Session::connect_links() {
  auto queue = device_.make_completion_queue(kCompletionsPerChannel * job_.channels);
  if (!queue) return queue;
  for (uint32_t c = 0; c < job_.channels; ++c) {
    auto links = VerbsLinks::make(device_, job_, c);
    if (!links) return fail(links.error().text);
    channels_.push_back(std::make_unique<RankChannel>(job_, c, **links));
    links_.push_back(std::move(*links));
  }
  for (auto& neighbour : neighbours_) {
    RingClient& client = neighbour->client();
    for (uint32_t c = 0; c < job_.channels; ++c) {
      for (RingDirection direction : client.directions()) client.connect(links_[c]->end(direction));
    }
    auto waited = neighbour->wait_for("answer to the connects", options_.connect_limit,
                                      [](RingClient& m) { return m.all_connected(); });
    if (!waited) return waited;
    for (const RingLinkEnd& theirs : client.connected()) {
      if (auto connected = links_[theirs.channel]->connect(theirs); !connected) return connected;
    }
  }
  // Ready only when all links stand, so that no neighbour starts while another is still missing.
  for (auto& neighbour : neighbours_) neighbour->client().send_ready();
  for (auto& neighbour : neighbours_) {
    auto waited = neighbour->wait_for("sign that it is ready", options_.connect_limit,
                                      [](RingClient& m) { return m.peer_ready(); });
    if (!waited) return waited;
  }
  return {};
}

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
  Neighbour& next = *neighbours_.front();
  next.client().send_result({.operation = index,
                             .bytes = outcome.bytes,
                             .times_ns = outcome.times_ns,
                             .wrong = outcome.wrong});
  if (auto told = next.exchange(milliseconds(0)); !told) return fail(told.error().text);
  return outcome;
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
  unsigned idle_polls = 0;
  uint64_t last_progress = 0;  // time of the first look after the last progress, 0 before it
  uint64_t last_look = start;
  const auto unfinished = [](const auto& channel) { return !channel->done(); };
  while (std::ranges::any_of(channels_, unfinished)) {
    auto moved = poll_completions();
    if (!moved) return fail(moved.error().text);
    for (auto& channel : channels_) {
      const auto progressed = channel->progress();
      if (!progressed) return fail(progressed.error().text);
      *moved = *moved || *progressed;
    }
    if (*moved) {
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
    if (auto calm = look_for_trouble(now - last_progress); !calm) return fail(calm.error().text);
  }
  return now_ns() - start;
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
      auto taken = channel(wc.wr_id).on_received(wc.imm_data);
      if (!taken) return fail(taken.error().text);
    }
  }
  return count > 0;
}

Result<void> Session::look_for_trouble(uint64_t idle_ns) {
  if (const std::string event = device_.fatal_event(); !event.empty()) return fail(event);
  for (auto& neighbour : neighbours_) {
    if (auto told = neighbour->exchange(milliseconds(0)); !told) return told;
  }
  if (milliseconds(idle_ns / 1'000'000) < options_.progress_limit) return {};
  std::string text = "no progress for " + std::to_string(idle_ns / 1'000'000) + " ms";
  for (const auto& channel : channels_) {
    if (!channel->done()) text += "; " + channel->waiting_for();
  }
  return fail(text);
}

Result<void> Session::finish() {
  for (auto& neighbour : neighbours_) {
    neighbour->client().send_done();
    if (auto told = neighbour->exchange(milliseconds(0)); !told) return told;
  }
  return {};
}

void Session::give_up(const std::string& why) {
  for (auto& neighbour : neighbours_) {
    neighbour->client().send_error(why);
    // Whether it arrives no longer matters to us: there is a better error to show.
    static_cast<void>(neighbour->exchange(milliseconds(0)));
  }
}

}  // namespace understudy
