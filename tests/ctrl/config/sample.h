// A good configuration that uses every key, for the configuration tests and the fuzzer.
#pragma once

namespace understudy {

inline constexpr char kSampleConfig[] = R"(format = 1
seed = 7

[fidelity]
tolerance = 0.02
idle = "sleep"
verify_icrc = "sampled"

[fabric]
mtu = 1024
switching = "cut-through"
control_class = "separate"
through = ["icmp"]
pacing = false
udp_source_port = "random"

[[prefix]]
nic = 0
v4 = "10.9.0.0/24"
v6 = "fd00:9::/64"
vlan = 100
pcp = 3
first = 10

[[prefix]]
nic = 1
v6 = "fd00:a::/64"

[[node]]
name = "gpu"
gpus = 8
nics = 2
real = true
link = { rate = "100Mbit/s", latency = "1.5us" }

[[node]]
name = "w"
count = 3
nics = 2
link = { rate = "0.2Gbit/s", latency = "1us" }

[[node]]
name = "solo"
link = { rate = "unlimited", latency = "0ns" }
address = "10.9.0.200"
mac = "52:54:00:0a:09:01"

[[port]]
real = "gpu"
nic = 0
device = "net_vhost0,iface=/run/x.sock"
rate = "25Gbit/s"

[[port]]
real = "gpu"
nic = 1
device = "virtual"

[[job]]
name = "first"
collective = "all_reduce"
algorithm = "ring"
ranks = ["gpu", "w0", "w2"]
nic = 0
sizes = ["4KiB", "16MiB"]
iterations = 3
warmup = 1
channels = 2
payload = "exact"
step_cost = "250ns"
entry = "first_credit"
interval = "10ms"
skew = [{ rank = 2, delay = "5ms" }]

[[job]]
name = "second"
collective = "all_reduce"
ranks = ["w*", "gpu"]
nic = 1
sizes = { from = "4KiB", to = "100KiB", factor = 4 }

[[service]]
node = "w0"
port = 18515
kind = "write_bw"
memory = "backed"
size = "1MiB"
pingpong_mtu = 2048
accept_delay = "70ms"

[[client]]
node = "w1"
server = "gpu"
port = 18600
kind = "send_bw"
size = "4KiB"
iterations = 500
queue_pairs = 2
rdma_cm = true
at = "3ms"

[[event]]
at = "40ms"
link = "w1"
latency = "9us"

[[event]]
at = "20ms"
link = "gpu"
rate = "50Mbit/s"

[[fault]]
name = "late"
action = "delay"
direction = "to_real"
node = "w1"
queue_pair = 2
packets = "read_response"
psn = 5
round = 3
from = "1ms"
to = "2ms"
nth = 7
every = 7
probability = 0.25
max = 4
delay = "30us"

[[fault]]
action = "duplicate"
copies = 3

[[fault]]
action = "reorder"
behind = 2

[[fault]]
action = "corrupt"
icrc = "good"

[[control]]
name = "cc"
law = "dcqcn"
preset = "paper"
g = 0.25
byte_counter = "0B"
window = "bdp"
variable_window = true

[[control]]
name = "delay"
law = "swift"
base_target = "25us"

[[traffic]]
name = "bursts"
pattern = "on_off"
from = ["w0", "w2"]
to = "w1"
nic = 1
on = "20us"
off = "80us"
until = "2ms"
at = "1ms"
stagger = "1us"
priority = 3
control = "cc"

[[traffic]]
pattern = "ring"
from = "w*"
size = "64KiB"
steps = 4
channels = 2
repeat = 2

[[traffic]]
pattern = "all_to_all"
from = ["gpu", "w*"]
size = "1MB"
concurrent = 2

[limits]
packets = 1000
queue_pairs = 500
regions = 600

[[nic]]
name = "slow"
preset = "connectx-6"
packets_per_second = 100000000
pcie = { rate = "100Gbit/s", latency = "200ns" }
completion = "50ns"
ack_delay = "150ns"
ack_every = 4
)";

}  // namespace understudy
