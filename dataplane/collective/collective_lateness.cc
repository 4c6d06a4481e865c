#include "dataplane/collective/collective_lateness.h"

#include <algorithm>

namespace understudy {

CollectiveLateness::CollectiveLateness(const CollectiveJob& job,
                                       std::span<const CollectiveShape* const> shapes)
    : job_(job), tracks_(job.real.size()) {
  uint64_t most = 0;
  const CollectiveShape* last = nullptr;
  for (const CollectiveShape* shape : shapes) {
    if (shape == last) continue;
    last = shape;
    uint64_t messages = 0;
    for (size_t r = 0; r < shape->real.size(); ++r) {
      const std::vector<Connection>& all = shape->real[r]->connections();
      if (tracks_[r].size() < all.size()) tracks_[r].resize(all.size());
      for (const Connection& c : all) messages += c.messages;
    }
    most = std::max(most, messages);
  }
  late_.resize(most);
}

void CollectiveLateness::begin(const CollectiveShape& shape) {
  shape_ = &shape;
  uint64_t first = 0;
  for (size_t r = 0; r < shape.real.size(); ++r) {
    const std::vector<Connection>& all = shape.real[r]->connections();
    for (size_t c = 0; c < all.size(); ++c) {
      tracks_[r][c] = {first, 0};
      first += all[c].messages;
    }
  }
  std::fill_n(late_.begin(), first, Duration());
}

Duration CollectiveLateness::add(uint32_t link, uint64_t k, Duration late) {
  const CollectiveConnection& l = job_.links[link];
  const uint32_t connection = shape_->uses[link].real;
  return late_[tracks_[job_.real_index[l.real]][connection].first + k] += late;
}

Duration CollectiveLateness::of_real(uint32_t link, uint64_t k) {
  const CollectiveConnection& l = job_.links[link];
  return work_out(job_.real_index[l.real], shape_->uses[link].real, k);
}

/// Messages of a connection are worked out in their order, so this goes no deeper than the ways
/// from connection to connection.
Duration CollectiveLateness::work_out(uint32_t real, uint32_t connection, uint64_t k) {
  const CollectiveShape& shape = *shape_;
  const RankSchedule& schedule = *shape.real[real];
  const Connection& c = schedule.connections()[connection];
  Track& track = tracks_[real][connection];
  for (; track.known <= k; ++track.known) {
    Duration late = late_[track.first + track.known];  // as it left an emulated rank
    if (!c.network && c.direction == Direction::kReceive) {
      const FarEnd& far = shape.far[real][connection];
      late = work_out(job_.real_index[far.rank], far.connection, track.known);
    }
    for (const Wait& wait : schedule.waits(connection, track.known)) {
      const Connection& other = schedule.connections()[wait.connection];
      if (wait.moment == Wait::Moment::kDone) {
        if (c.joint != 0 && other.joint == c.joint) continue;
        late = std::max(late, work_out(real, wait.connection, wait.message));
      } else if (other.network) {
        late = std::max(late, late_[tracks_[real][wait.connection].first + wait.message]);
      } else {
        const FarEnd& far = shape.far[real][wait.connection];
        late = std::max(late, work_out(job_.real_index[far.rank], far.connection, wait.message));
      }
    }
    late_[track.first + track.known] = late;
  }
  return late_[track.first + k];
}

}  // namespace understudy
