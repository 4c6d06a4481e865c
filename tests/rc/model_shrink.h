// Makes a failing program small: whatever is not needed for the failure goes.
#pragma once

#include <functional>

#include "tests/rc/model.h"

namespace understudy {

/// `fails(program)` holds for `program` and for what is returned, of which no single step can be
/// taken away, no length halved and no kind of trouble on the link left out without losing the
/// failure. Calls `fails` at most `budget` times.
inline ModelProgram shrink(ModelProgram program,
                           const std::function<bool(const ModelProgram&)>& fails,
                           unsigned budget = 2000) {
  const auto accept = [&](ModelProgram candidate) {
    make_sound(candidate);
    if (budget == 0 || !fails(candidate)) return false;
    program = std::move(candidate);
    return true;
  };
  const auto attempt = [&](auto&& change) {
    if (budget == 0) return false;
    --budget;
    ModelProgram candidate = program;
    change(candidate);
    return accept(std::move(candidate));
  };
  const auto drop_steps = [&] {
    bool smaller = false;
    for (size_t chunk = std::max<size_t>(program.steps.size() / 2, 1);; chunk /= 2) {
      for (size_t at = 0; at < program.steps.size();) {
        const bool gone = attempt([&](ModelProgram& p) {
          const auto first = p.steps.begin() + static_cast<ptrdiff_t>(at);
          p.steps.erase(first,
                        first + static_cast<ptrdiff_t>(std::min(chunk, p.steps.size() - at)));
        });
        if (gone) {
          smaller = true;
        } else {
          at += chunk;
        }
      }
      if (chunk <= 1) return smaller;
    }
  };
  const auto simplify_steps = [&] {
    bool simpler = false;
    for (size_t i = 0; i < program.steps.size(); ++i) {
      while (program.steps[i].length > 0 &&
             attempt([&](ModelProgram& p) { p.steps[i].length /= 2; })) {
        simpler = true;
      }
      if (program.steps[i].at != 0) {
        simpler = attempt([&](ModelProgram& p) { p.steps[i].at = 0; }) || simpler;
      }
    }
    return simpler;
  };
  const auto calm_link = [&] {
    bool calmer = false;
    for (uint32_t ModelLink::*trouble :
         {&ModelLink::lost, &ModelLink::repeated, &ModelLink::reordered, &ModelLink::corrupted,
          &ModelLink::forged}) {
      if (program.link.*trouble == 0) continue;
      calmer = attempt([&](ModelProgram& p) { p.link.*trouble = 0; }) || calmer;
    }
    if (program.flow_control) {
      calmer = attempt([](ModelProgram& p) { p.flow_control = false; }) || calmer;
    }
    return calmer;
  };
  for (bool better = true; better && budget > 0;) {
    better = drop_steps();
    better = calm_link() || better;
    better = simplify_steps() || better;
  }
  return program;
}

}  // namespace understudy
