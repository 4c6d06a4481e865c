"""Calculon's settings and sweeps as jobs of `understudy predict`: layers take what Calculon says of a block, operations what its networks
say. Facts: calculon-ai/calculon caa4b11, calculon/network.py (latency + bytes * scalar * (1 + offset / ranks) / (bandwidth * efficiency)) and
calculon/llm/llm.py."""

import math

RECOMPUTE = {"none": "none", "attn_only": "selective", "full": "full"}
# Of a sweep's rows: all of them have these, whatever base_execution says. What tensor parallelism takes is that of all-reduces, and the
# optimizer is whole: its time and the memory say so.
SWEEP = {"pipeline_interleaving": 1, "optimizer_sharding": False, "tensor_par_comm_type": "ar", "data_par_overlap": False}


class Network:
    def __init__(self, given):
        self.rate = given["bandwidth"] * 1e9 * given["efficiency"]
        self.latency, self.operations = given["latency"], given["ops"]

    def factor(self, operation, ranks):
        scalar, offset = self.operations[operation]
        return scalar * (1 + (offset or 0) / ranks)

    def seconds(self, operation, size, ranks):
        return self.latency + size * self.factor(operation, ranks) / self.rate

    def table(self, ranks):
        factors = ", ".join(f"{name} = {self.factor(name, ranks):.12g}" for name in ("all_reduce", "all_gather", "reduce_scatter"))
        return f'{{ rate = "{round(8 * self.rate)}bit/s", latency = "{round(self.latency * 1e12)}ps", {factors} }}'


def networks_of(execution, system):
    """Of tensor parallelism, the pipeline and replicas."""
    return [Network(system["networks"][execution[f"{what}_par_net"]]) for what in ("tensor", "pipeline", "data")]


def innermost_networks(tensor, pipeline, data, system):
    """The first network each of them fits into; that a sweep's rows have these follows from their times."""
    sizes = (tensor, tensor * pipeline, tensor * pipeline * data)
    return [Network(next(net for net in system["networks"] if net["size"] >= size)) for size in sizes]


def link_seconds(network, application, execution):
    """What tensor parallelism's operations of a block and micro-batch take on their way: forward, and back with those that full recomputation
    does again."""
    ranks = execution["tensor_par"]
    if ranks == 1:
        return 0, 0
    size = 2 * execution["microbatch_size"] * application["seq_size"] * application["hidden"]
    if execution["tensor_par_comm_type"] == "ar":
        forward = 2 * network.seconds("all_reduce", size, ranks)
    else:
        forward = 2 * (network.seconds("all_gather", size, ranks) + network.seconds("reduce_scatter", size, ranks))
    return forward, forward * (2 if execution["activation_recompute"] == "full" else 1)


def block_of_case(case, application, network):
    """Seconds of a block: forward, backward, optimizer; of its tensor parallelism what is not an operation's way."""
    stats = case["stats"]
    forward, backward = link_seconds(network, application, case["execution"])
    return (stats["block_fw_time"] + stats["baseblock_fw_tp_time_exposed"] - forward,
            stats["block_re_time"] + stats["block_agrad_time"] + stats["block_wgrad_time"] + stats["baseblock_agrad_tp_time_exposed"] +
            stats["baseblock_recomm_time_exposed"] - backward,
            stats["block_optim_time"])


def block_of_row(row, execution, application, network):
    blocks = application["num_blocks"] // row["pp"]
    each = blocks * execution["batch_size"] // (row["dp"] * execution["microbatch_size"])
    forward, backward = link_seconds(network, application, execution)
    if execution["activation_recompute"] == "full":
        backward -= forward  # what is done again is not in tp_exposed_s
    return (row["fw_s"] / each, (row["bw_s"] + row["recompute_s"] + row["tp_exposed_s"]) / each - forward - backward, row["optim_s"] / blocks)


def ps(seconds):
    return f'"{max(1, round(seconds * 1e12))}ps"'


def model_lines(application, execution, vocabulary):
    chunks, sharding = execution["pipeline_interleaving"], int(execution["optimizer_sharding"])
    lines = ["format = 1", "[model]", f"layers = {application['num_blocks']}", f"hidden = {application['hidden']}",
             f"heads = {application['attn_heads']}", f"feed_forward = {application['feedforward']}", f"sequence = {application['seq_size']}",
             f"vocabulary = {vocabulary}", "positions = false",
             "[parallel]", f"tp = {execution['tensor_par']}", f"pp = {execution['pipeline_par']}", f"dp = {execution['data_par']}",
             f"micro_batch = {execution['microbatch_size']}", f"global_batch = {execution['batch_size']}",
             f'recompute = "{RECOMPUTE[execution["activation_recompute"]]}"', f"zero = {sharding}", 'gradients = "bf16"']
    if chunks > 1:
        lines += [f"chunks = {chunks}", 'schedule = "interleaved"']
    if execution["tensor_par_comm_type"] == "rs_ag":
        lines.append("sequence_parallel = true")
    return lines


def layer_parameters(application, tensor):
    """Of a rank, with biases and norms."""
    hidden, wide = application["hidden"], application["feedforward"]
    return (4 * hidden * hidden + 2 * hidden * wide + 3 * hidden + wide) // tensor + 6 * hidden


def gpu_lines(system):
    return ["[gpu]", f'flops = "{system["matrix"]["float16"]["tflops"]}TFLOP/s"', 'memory = "80GiB"',
            f'memory_bandwidth = "{system["mem1"]["GBps"]}GB/s"']


def whole_job(application, execution, system, networks, block=None, efficiency=None):
    """A configuration for `predict`; with `block` its times, else the roofline at `efficiency`."""
    overlap = str(execution["data_par_overlap"]).lower()
    lines = model_lines(application, execution, 0)
    if execution["data_par"] > 1:
        lines.append(f"bucket = {layer_parameters(application, execution['tensor_par'])}")  # block by block
    lines += [f"overlap_gradients = {overlap}", f"overlap_weights = {overlap}", "overlap_pipeline = false"]
    lines += gpu_lines(system)
    if block:
        forward, backward, optimizer = block
        lines.append(f"layer = {{ forward = {ps(forward)}, backward = {ps(backward)}, optimizer = {ps(optimizer)} }}")
    else:
        lines.append(f"efficiency = {efficiency:.9f}")
    lines.append("[operations]")
    ranks = (execution["tensor_par"], execution["pipeline_par"], execution["data_par"])
    for what, network, number in zip(("tensor", "pipeline", "data"), networks, ranks):
        if number > 1:
            lines.append(f"{what} = {network.table(number)}")
    return "\n".join(lines) + "\n"


def sweep_execution(sweep, row):
    return SWEEP | {"tensor_par": row["tp"], "pipeline_par": row["pp"], "data_par": row["dp"], "batch_size": sweep["batch"],
                    "microbatch_size": sweep["microbatch"], "activation_recompute": sweep["activation_recompute"]}


def pairs_in_other_order(ours, theirs):
    """Pairs of strategies of which we say the other one is faster, each with how far apart theirs are (share)."""
    out = []
    for i in range(len(ours)):
        for j in range(i):
            if (ours[i] - ours[j]) * (theirs[i] - theirs[j]) < 0:
                out.append(abs(math.log(theirs[i] / theirs[j])))
    return out
