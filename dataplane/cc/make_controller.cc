#include "dataplane/cc/make_controller.h"

#include "dataplane/cc/dcqcn.h"
#include "dataplane/cc/dctcp.h"
#include "dataplane/cc/hpcc.h"
#include "dataplane/cc/swift.h"
#include "dataplane/cc/timely.h"

namespace understudy {
namespace {

class NoControl : public Controller {
 public:
  NoControl(const NoControlParameters& parameters, const SenderPath& path)
      : Controller(path.line, parameters.window.at_line(path.line, path.base_rtt)) {}
};

struct Maker {
  const SenderPath& path;
  std::unique_ptr<Controller> operator()(const NoControlParameters& p) const {
    return std::make_unique<NoControl>(p, path);
  }
  std::unique_ptr<Controller> operator()(const DcqcnParameters& p) const {
    return std::make_unique<Dcqcn>(p, path);
  }
  std::unique_ptr<Controller> operator()(const TimelyParameters& p) const {
    return std::make_unique<Timely>(p, path);
  }
  std::unique_ptr<Controller> operator()(const DctcpParameters& p) const {
    return std::make_unique<Dctcp>(p, path);
  }
  std::unique_ptr<Controller> operator()(const HpccParameters& p) const {
    return std::make_unique<Hpcc>(p, path);
  }
  std::unique_ptr<Controller> operator()(const SwiftParameters& p) const {
    return std::make_unique<Swift>(p, path);
  }
};

}  // namespace

std::unique_ptr<Controller> make_controller(const ControlParameters& parameters,
                                            const SenderPath& path) {
  const Maker maker{path};
  if (path.line.is_unlimited()) return maker(NoControlParameters{});
  return std::visit(maker, parameters);
}

}  // namespace understudy
