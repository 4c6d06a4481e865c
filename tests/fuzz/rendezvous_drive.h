// Any bytes as the state of torchrun's rendezvous. Shared by the fuzzer and a test.
#pragma once

#include "ctrl/peers/torch_store/base64.h"
#include "ctrl/peers/torch_store/rendezvous_state.h"
#include "tests/fuzz/input.h"

namespace understudy {

/// What is read is written as the same, in the same form.
inline void drive_rendezvous_state(std::span<const uint8_t> bytes) {
  RendezvousForm form;
  const auto state = read_rendezvous_state(bytes, form);
  if (!state) {
    must(!state.error().text.empty());
  } else {
    RendezvousForm again;
    const auto written = read_rendezvous_state(write_rendezvous_state(*state, form), again);
    must(written && *written == *state && again.addr == form.addr);
  }
  if (const auto decoded = base64_bytes(bytes)) {
    const std::string text = base64_text(*decoded);
    const auto back = base64_bytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
    must(back == decoded);
  }
}

}  // namespace understudy
