// For builds without DPDK (-Ddpdk=disabled): no device can be opened.
#include "dataplane/runtime/live.h"

namespace understudy {

std::string why_no_live() {
  return "this build has no DPDK: `run` needs it (Debian package libdpdk-dev, then "
         "meson configure -Ddpdk=enabled)";
}

std::string doubt_about(const LiveOptions&) { return ""; }  // no thread polls

Result<std::unique_ptr<Live>> Live::open(const LiveOptions&) { return fail(why_no_live()); }

}  // namespace understudy
