#include "tools/rigs/ring_node/ring/verbs_links.h"

#include "dataplane/base/try.h"

namespace understudy {

Result<std::unique_ptr<VerbsLinks>> VerbsLinks::make(const VerbsDevice& device,
                                                     const RingJobMessage& job, uint32_t channel) {
  std::unique_ptr<VerbsLinks> links(new VerbsLinks(job, channel));
  VerbsLink::Settings settings{.number = channel,
                               .sends = true,
                               .slots = kRingSteps / job.cutting.slice_steps,
                               .slot_bytes = links->capacity(),
                               .sender_rank = job.client_rank};
  links->to_next_ = TRY(VerbsLink::make({&device}, settings));
  settings.sends = false;
  settings.sender_rank = (job.client_rank + job.ranks - 1) % job.ranks;
  links->from_previous_ = TRY(VerbsLink::make({&device}, settings));
  return links;
}

RingLinkEnd VerbsLinks::end(RingDirection direction) const {
  RingLinkEnd end;
  end.channel = channel_;
  end.direction = direction;
  link(direction).describe(end);
  return end;
}

Result<void> VerbsLinks::connect(const RingLinkEnd& theirs) {
  const bool sends = theirs.direction == RingDirection::kClientSends;
  return link(theirs.direction)
      .connect(theirs, sends ? job_.data_traffic_class : job_.control_traffic_class);
}

}  // namespace understudy
