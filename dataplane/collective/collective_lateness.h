// How late messages are by the lateness of those that they depend on: what emulated ranks send
// carries what the real messages that set it free carried, and its own; what a real rank sends
// carries the most of what its schedule lets it wait for.
#pragma once

#include <span>
#include <vector>

#include "dataplane/collective/collective_job.h"

namespace understudy {

/// Of one operation in flight. Allocates when it is made only.
class CollectiveLateness {
 public:
  /// For operations of these shapes, which outlive it as the job does.
  CollectiveLateness(const CollectiveJob& job, std::span<const CollectiveShape* const> shapes);

  void begin(const CollectiveShape& shape);
  /// Adds to what message `k` of a link carries, which an emulated rank sends.
  Duration add(uint32_t link, uint64_t k, Duration late);
  /// Of a message that a real rank has sent: those before it are known.
  Duration of_real(uint32_t link, uint64_t k);

 private:
  struct Track {         ///< one connection of a real rank
    uint64_t first = 0;  ///< place of its messages in late_
    uint64_t known = 0;  ///< messages that have been worked out
  };
  Duration work_out(uint32_t real, uint32_t connection, uint64_t k);

  const CollectiveJob& job_;
  const CollectiveShape* shape_ = nullptr;
  std::vector<std::vector<Track>> tracks_;  ///< by real rank and connection
  std::vector<Duration> late_;
};

}  // namespace understudy
