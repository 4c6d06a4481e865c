// When emulated ranks enter operations of a job whose real ranks are programs that nobody plans:
// each does what the configuration says, from its own last end, as those programs do
// (collective_model/iteration/iteration.h). What only a real rank can show, when it begins and how
// much longer than that its program takes between operations, all ranks take too.
#pragma once

#include <vector>

#include "dataplane/collective/collective_job.h"

namespace understudy {

class RankEntries {
 public:
  /// `job` outlives this.
  explicit RankEntries(const CollectiveJob& job);

  /// Ranks have done nothing before.
  void start(Time now);

  // What passes on a link between a real and an emulated rank:
  void sent(uint32_t link) { ++links_[link].outstanding; }
  void left(uint32_t link, Time now) { links_[link].left = now; }
  void acknowledged(uint32_t link, Time now);
  void received(uint32_t link, Time now);

  /// What a real rank has shown of its entry into an operation. As made: nothing, and all ranks do
  /// what their steps say.
  struct Shown {
    uint32_t real = 0;  ///< the rank
    Time entry;
    /// Of its operation before, as messages tell: when their acknowledgements say, and the earliest
    /// that it may have been, if these have waited on the rank's NIC.
    Time end, earliest;
    bool sure = true;   ///< it entered at that time; else it may have done so at any since its end
    bool heard = true;  ///< its end is known, and it is that of all real ranks or near
    Duration later;     ///< than its step says; the same holds for all others
    Duration own;       ///< EntryStep::own() of its step

    /// `later`, if the step says `entry` where the rank was done at `end`: no more than what has
    /// come shows.
    void compare(Time entry_said);
  };
  /// What has just come on `link` left when its real rank entered, at `entry`. `former`: the
  /// operation before; null: none. `busy`: the rank's NIC has not sent all of the operations before.
  /// Then, and right behind such data, a credit has waited there.
  Shown shown(uint32_t link, Time entry, const CollectiveShape* former, bool busy);
  /// Once for each operation, with the real rank's step.
  void compare(Shown& shown, const EntryStep& step);
  /// When an emulated rank enters its next operation, which was done with the one before at `free`.
  /// Where a first credit begins each operation, not before that of the real rank. Where the real
  /// rank's end is not known: with it, or when it is free, and its own delay.
  Time enter(uint32_t rank, const EntryStep& step, Time free, const Shown& shown);
  /// The latter, of a step that is `own` long and ends with `delay`.
  static Time with_it(Duration own, Duration delay, Time free, const Shown& shown);

 private:
  bool has_waited(uint32_t link, Time entry) const;
  bool is_heard(uint32_t real, const CollectiveShape& former) const;

  struct Link {
    // Emulated ranks send:
    uint64_t outstanding = 0;  ///< messages that are not acknowledged
    Time left;                 ///< when the last one did
    Time read;                 ///< when it had come to the real rank, by its acknowledgement
    // A real rank sends:
    uint64_t received = 0;
    Time last;                ///< when the latest was heard
    std::vector<Time> heard;  ///< of the last ones, one more than the window has; a ring
  };

  const CollectiveJob& job_;
  bool one_node_ = true;  ///< has all real ranks
  std::vector<Link> links_;
  std::vector<std::vector<uint32_t>> links_of_;  ///< by position among the real ranks
  std::vector<Time> entered_;                    ///< the same: when it was last seen to enter
  std::vector<EntryClock> clocks_;               ///< by rank
};

}  // namespace understudy
