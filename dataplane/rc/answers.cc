#include "dataplane/rc/answers.h"

namespace understudy {

uint32_t AnswerPool::take() {
  uint32_t i = free_;
  if (i != kNone) {
    free_ = answers()[i].behind;
  } else if (used_ < capacity_) {
    i = used_++;
    std::construct_at(&answers()[i]);
  }
  return i;
}

void AnswerPool::give_back(uint32_t i) {
  answers()[i].behind = free_;
  free_ = i;
}

void AnswerPool::set_idle(uint32_t i) {
  Line& line = line_of(i);
  Answer& a = answers()[i];
  a.before_idle = line.last;
  a.behind_idle = kNone;
  (line.last == kNone ? line.first : answers()[line.last].behind_idle) = i;
  line.last = i;
}

void AnswerPool::unset_idle(uint32_t i) {
  Line& line = line_of(i);
  const Answer& a = answers()[i];
  (a.before_idle == kNone ? line.first : answers()[a.before_idle].behind_idle) = a.behind_idle;
  (a.behind_idle == kNone ? line.last : answers()[a.behind_idle].before_idle) = a.before_idle;
}

}  // namespace understudy
