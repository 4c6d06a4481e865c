// DCQCN's reaction point (rule A6; Zhu et al., SIGCOMM 2015; NVIDIA's "DCQCN CC Parameters"; the
// form of HPCC's simulator): a rate that CNPs cut by the share alpha / 2, and that a timer and a
// byte counter bring back to the target and beyond.
#pragma once

#include "dataplane/cc/parameters.h"
#include "dataplane/cc/rate_controller.h"

namespace understudy {

/// All clocks stand still until the first CNP; the increase clocks start at each cut. What is due
/// at one instant happens in this order: alpha's update, the timer's increase, the cut; and all of
/// it before a CNP or a departure of that instant.
class Dcqcn : public RateController {
 public:
  Dcqcn(const DcqcnParameters& parameters, const SenderPath& path);

  void on_ack(const AckHeard& ack) override;
  void on_cnp(Time now) override;
  void on_sent(Time now, uint64_t bytes) override;
  /// Only what can change the rate: alpha is brought up to date when it is needed, and increases
  /// are not waited for once rate and target are the line's.
  Time deadline() const override;
  void on_timer(Time now) override { advance(now); }
  bool rate_changes_gap() const override { return p_.rate_changes_gap; }

  double alpha() const { return alpha_; }  ///< as of the last event
  Rate target() const { return Rate::bits_per_second(target_); }

 private:
  bool limited() const { return bps() != line_bps() || target_ != line_bps(); }
  void first_cnp(Time now);
  void advance(Time now);
  void advance_alpha(Time now);
  void cut(Time now);
  void increase();

  const DcqcnParameters p_;
  double alpha_;
  uint64_t target_;  ///< bit/s
  Time next_alpha_ = Time::never();
  Time next_increase_ = Time::never();
  Time next_cut_ = Time::never();  ///< only while a CNP waits for it
  Time cut_clock_;                 ///< an instant at which a decrease period ended or began
  bool cnp_since_alpha_ = false;
  uint64_t byte_count_ = 0;
  // Increases by either clock since the last cut.
  uint64_t time_stage_ = 0;
  uint64_t byte_stage_ = 0;
};

}  // namespace understudy
