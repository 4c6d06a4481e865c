// Random WRITEs, READs and ATOMICs on a target's memory, compared byte by byte with what a copy
// here says it must hold.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tools/rigs/memory_check/target.h"

namespace understudy {

struct ExerciseOptions {
  uint64_t bytes = 1 << 20;  ///< of the target's memory that is used; a multiple of 8
  unsigned rounds = 40;
  uint64_t seed = 1;
};

struct ExerciseCounts {
  uint64_t writes = 0, atomics = 0, reads = 0;
  uint64_t bytes = 0;  ///< written and read
  uint64_t wrong = 0;  ///< bytes read, or originals of atomics, that were not what they must be
  std::string first_wrong;  ///< where
};

class Exercise {
 public:
  /// The target's memory must be zeros, and nobody else's.
  static Result<ExerciseCounts> run(const Target& target, const ExerciseOptions& options);

 private:
  static constexpr unsigned kChanges = 8;  ///< WRITEs and ATOMICs of a round, before its READs
  static constexpr unsigned kReads = 2;

  Exercise(const Target& target, const ExerciseOptions& options)
      : target_(target), options_(options), random_(options.seed), image_(options.bytes) {}
  Result<void> round();
  Result<void> read_all();
  Result<void> post_write(unsigned slot);
  Result<void> post_atomic(unsigned slot);
  Result<void> post_read(unsigned slot, uint64_t offset, uint64_t length);
  Result<void> post(ibv_send_wr request, const RegisteredMemory& memory, uint64_t offset,
                    uint64_t length);
  Result<void> wait_for_all();
  void compare(uint64_t where, const std::byte* found, const uint8_t* expected, uint64_t length);
  uint64_t random_length(uint64_t most);

  const Target& target_;
  ExerciseOptions options_;
  std::mt19937_64 random_;
  std::vector<uint8_t> image_;  ///< what the target's memory must hold
  RegisteredMemory out_, in_;   ///< a slot of options_.bytes for each request of a round
  unsigned posted_ = 0;
  ExerciseCounts counts_;
};

}  // namespace understudy
