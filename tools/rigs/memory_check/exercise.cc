#include "tools/rigs/memory_check/exercise.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <optional>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

constexpr uint64_t kAtomic = 8;
constexpr std::chrono::seconds kPatience(120);  ///< without any completion

}  // namespace

Result<ExerciseCounts> Exercise::run(const Target& target, const ExerciseOptions& options) {
  Exercise exercise(target, options);
  auto out = RegisteredMemory::make(target.domain(), kChanges * options.bytes, 0);
  auto in = RegisteredMemory::make(target.domain(), (kChanges + kReads) * options.bytes,
                                   IBV_ACCESS_LOCAL_WRITE);
  if (!out) return fail(out.error().text);
  if (!in) return fail(in.error().text);
  exercise.out_ = std::move(*out);
  exercise.in_ = std::move(*in);
  for (unsigned i = 0; i < options.rounds; ++i) {
    TRY(exercise.round());
  }
  TRY(exercise.read_all());
  return exercise.counts_;
}

/// Lengths of all magnitudes are equally likely.
uint64_t Exercise::random_length(uint64_t most) {
  const uint64_t limit = uint64_t{1} << random_() % static_cast<unsigned>(std::bit_width(most));
  return std::min(most, limit + random_() % limit);
}

Result<void> Exercise::post(ibv_send_wr request, const RegisteredMemory& memory, uint64_t offset,
                            uint64_t length) {
  ibv_sge piece{memory.address() + offset, static_cast<uint32_t>(length), memory.lkey()};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(target_.queue_pair(), &request, &bad)) {
    return fail(std::string("ibv_post_send: ") + std::strerror(error));
  }
  ++posted_;
  return {};
}

Result<void> Exercise::post_write(unsigned slot) {
  const uint64_t length = random_length(options_.bytes);
  const uint64_t offset = random_() % (options_.bytes - length + 1);
  auto* bytes = reinterpret_cast<uint8_t*>(out_.data()) + slot * options_.bytes;
  for (uint64_t i = 0; i < length; ++i) bytes[i] = static_cast<uint8_t>(random_());
  std::copy_n(bytes, length, image_.begin() + static_cast<ptrdiff_t>(offset));
  ibv_send_wr request{};
  request.opcode = IBV_WR_RDMA_WRITE;
  request.wr.rdma = {target_.address() + offset, target_.rkey()};
  ++counts_.writes;
  counts_.bytes += length;
  return post(request, out_, slot * options_.bytes, length);
}

Result<void> Exercise::post_atomic(unsigned slot) {
  const uint64_t offset = random_() % (options_.bytes / kAtomic) * kAtomic;
  uint64_t value = 0;
  std::memcpy(&value, image_.data() + offset, kAtomic);
  // What the answer must be waits in the slot's place for what is sent.
  std::memcpy(out_.data() + slot * options_.bytes, &value, kAtomic);
  ibv_send_wr request{};
  request.wr.atomic.remote_addr = target_.address() + offset;
  request.wr.atomic.rkey = target_.rkey();
  if (random_() % 2 == 0) {
    request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    request.wr.atomic.compare_add = random_();
    value += request.wr.atomic.compare_add;
  } else {
    request.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    const bool equal = random_() % 2 == 0;
    request.wr.atomic.compare_add = equal ? value : random_();
    request.wr.atomic.swap = random_();
    if (request.wr.atomic.compare_add == value) value = request.wr.atomic.swap;
  }
  std::memcpy(image_.data() + offset, &value, kAtomic);
  ++counts_.atomics;
  return post(request, in_, slot * options_.bytes, kAtomic);
}

Result<void> Exercise::post_read(unsigned slot, uint64_t offset, uint64_t length) {
  ibv_send_wr request{};
  request.opcode = IBV_WR_RDMA_READ;
  request.wr.rdma = {target_.address() + offset, target_.rkey()};
  ++counts_.reads;
  counts_.bytes += length;
  return post(request, in_, slot * options_.bytes, length);
}

Result<void> Exercise::round() {
  std::vector<unsigned> atomics;
  for (unsigned slot = 0; slot < kChanges; ++slot) {
    const bool atomic = random_() % 3 == 0;
    if (atomic) atomics.push_back(slot);
    TRY(atomic ? post_atomic(slot) : post_write(slot));
  }
  struct Part {
    uint64_t offset, length;
  };
  std::vector<Part> parts;
  for (unsigned i = 0; i < kReads; ++i) {
    const uint64_t length = random_length(options_.bytes);
    parts.push_back({random_() % (options_.bytes - length + 1), length});
    TRY(post_read(kChanges + i, parts[i].offset, length));
  }
  TRY(wait_for_all());
  for (const unsigned slot : atomics) {
    compare(slot, in_.data() + slot * options_.bytes,
            reinterpret_cast<const uint8_t*>(out_.data() + slot * options_.bytes), kAtomic);
  }
  for (unsigned i = 0; i < kReads; ++i) {
    compare(parts[i].offset, in_.data() + (kChanges + i) * options_.bytes,
            image_.data() + parts[i].offset, parts[i].length);
  }
  return {};
}

Result<void> Exercise::read_all() {
  TRY(post_read(0, 0, options_.bytes));
  TRY(wait_for_all());
  compare(0, in_.data(), image_.data(), options_.bytes);
  return {};
}

Result<void> Exercise::wait_for_all() {
  auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (posted_ > 0) {
    ibv_wc done{};
    const int count = ibv_poll_cq(target_.completion_queue(), 1, &done);
    if (count < 0) return fail("ibv_poll_cq failed");
    if (count == 0) {
      if (std::chrono::steady_clock::now() > deadline) return fail("no completion for 120 s");
      continue;
    }
    if (done.status != IBV_WC_SUCCESS) {
      return fail(std::string("a request failed: ") + ibv_wc_status_str(done.status));
    }
    --posted_;
    deadline = std::chrono::steady_clock::now() + kPatience;
  }
  return {};
}

void Exercise::compare(uint64_t where, const std::byte* found, const uint8_t* expected,
                       uint64_t length) {
  for (uint64_t i = 0; i < length; ++i) {
    if (static_cast<uint8_t>(found[i]) == expected[i]) continue;
    if (counts_.wrong++ == 0) {
      counts_.first_wrong = "byte " + std::to_string(where + i) + " is " +
                            std::to_string(static_cast<unsigned>(found[i])) + ", must be " +
                            std::to_string(expected[i]);
    }
  }
}

}  // namespace understudy
