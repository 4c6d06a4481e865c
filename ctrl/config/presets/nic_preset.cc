#include "ctrl/config/presets/nic_preset.h"

#include <array>

namespace understudy {
namespace {

// Payload of large writes in TLPs of 256 bytes, by the model of Neugebauer et al., Understanding PCIe
// performance for end host networking, SIGCOMM 2018 (github.com/pcie-bench/pcie-model): 128/130 of
// the lanes' rate, less 16 of 168 and 4 of 1538 bytes for acknowledgements, credits and clocks, less
// 24 of 280 for headers.
constexpr Rate megabits(uint64_t rate) { return Rate::bits_per_second(rate * 1'000'000); }
constexpr Rate kGen3x8 = megabits(52'900), kGen3x16 = megabits(104'000),
               kGen4x16 = megabits(207'900), kGen5x16 = megabits(415'800);
constexpr Duration kStated600 = Duration::ns(600 / 4);

// A queue pair stops when more than 64 of its packets are in the driver, the one on the wire among
// them, and goes on below 16; of packets without a message's end each 66th asks for an
// acknowledgement.
constexpr uint16_t kRxeAhead = 64, kRxeAgain = 14, kRxeAckEvery = 66;

constexpr auto kPresets = std::to_array<NicPreset>({
    {"connectx-4-lx", "Mellanox, ConnectX-4 Lx EN product brief", 75'000'000, kGen3x8, {}},
    {"connectx-4", "NVIDIA, ConnectX-4 adapter cards user manual", {}, kGen3x16, {}},
    {"connectx-5", "Mellanox, ConnectX-5 EN product brief", {}, kGen3x16, kStated600},
    {"connectx-6", "NVIDIA, ConnectX-6 adapter cards user manual", 215'000'000, kGen4x16,
     kStated600},
    {"connectx-6-dx", "NVIDIA, ConnectX-6 Dx user manual", {}, kGen4x16, {}},
    {"connectx-7", "NVIDIA, ConnectX-7 NDR data sheet, April 2021", 330'000'000, kGen5x16, {}},
    {"bluefield-2", "NVIDIA, BlueField-2 DPU user manual", {}, kGen4x16, {}},
    {"bluefield-3", "NVIDIA, BlueField-3 DPU Controller user manual", {}, kGen5x16, {}},
    {"rdma_rxe",
     "Linux 6.1, drivers/infiniband/sw/rxe: rxe_param.h, rxe_req.c, rxe_net.c",
     {},
     {},
     {},
     kRxeAhead,
     kRxeAgain,
     kRxeAckEvery},
});

}  // namespace

std::span<const NicPreset> nic_presets() { return kPresets; }

}  // namespace understudy
