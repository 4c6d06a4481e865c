#include "ctrl/report/json/trace_json.h"

namespace understudy {

using namespace report_parts;

Json trace_report_json(const TraceReport& traces) {
  Json out;
  out["source"] = traces.source;
  out["rules"] = traces.rules;
  out["nodes"] = traces.nodes;
  out["communicators"] = traces.communicators;
  out["connections"] = traces.connections;
  out["finish_ps"] = traces.finish().ps();
  out["ranks"] = list(traces.ranks, [](const TraceRankReport& rank) {
    return Json{{"node", rank.node},
                {"gpu", rank.gpu},
                {"finish_ps", rank.finish.ps()},
                {"computed_ps", rank.computed.ps()}};
  });
  out["operations"] = list(traces.operations, [](const TraceOperationsReport& one) {
    return Json{{"what", one.what},
                {"count", one.count},
                {"bytes", one.bytes},
                {"all_ps", one.all.ps()},
                {"longest_ps", one.longest.ps()},
                {"waiting_ps", one.waiting.ps()}};
  });
  return out;
}

}  // namespace understudy
