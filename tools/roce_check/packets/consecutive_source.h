// A capture that its program has cut into files, as `tcpdump -C` and `-G` and `dumpcap -b` do:
// connections go on from one to the next.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dataplane/base/result.h"
#include "tools/roce_check/packets/capture_source.h"

namespace understudy {

/// Files in any order: they are read in that of their first frames, and may be of different formats.
/// Whether one between them is missing cannot be known. Errors name the file: what
/// open_capture_source() says, or that its times overlap those of another one or are of another
/// kind.
Result<std::unique_ptr<CaptureSource>> open_consecutive(const std::vector<std::string>& paths);

}  // namespace understudy
