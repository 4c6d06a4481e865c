// A decoded capture for people and for programs.
#pragma once

#include <string>

#include "tools/nccl_decode/exchange.h"
#include "tools/nccl_decode/packet.h"

namespace understudy::nccl_decode {

std::string text_of(const std::string& path, const Capture& capture, const Exchange& exchange);
std::string json_of(const std::string& path, const Capture& capture, const Exchange& exchange);

}  // namespace understudy::nccl_decode
