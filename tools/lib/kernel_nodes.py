"""Configurations of real kernels in virtual time, for tools and tests: text of TOML, one function a table."""


def head(nics=1, seed=7):
    """What comes before the nodes; NIC n has addresses in 10.9.n.0/24, in the order of the nodes."""
    prefixes = "".join(f'[[prefix]]\nnic = {nic}\nv4 = "10.9.{nic}.0/24"\n' for nic in range(nics))
    return f"format = 1\nseed = {seed}\n[fabric]\nmtu = 4096\n{prefixes}"


def kernel(name, program, rate="100Gbit/s", latency="100ns", nics=1, **settings):
    """A node that is a kernel, with a port for each NIC; `settings` are others of real's, as text: share, packet_cost ..."""
    more = "".join(f', {key} = "{value}"' for key, value in settings.items())
    ports = "".join(f'[[port]]\nreal = "{name}"\nnic = {nic}\ndevice = "virtual"\n' for nic in range(nics))
    return (f"[[node]]\nname = \"{name}\"\nnics = {nics}\nreal = {{ kind = \"kernel\", program = '''{program}'''{more} }}\n"
            f'link = {{ rate = "{rate}", latency = "{latency}" }}\n{ports}')


def emulated(name, count=1, rate="100Gbit/s", latency="100ns"):
    return f'[[node]]\nname = "{name}"\ncount = {count}\nlink = {{ rate = "{rate}", latency = "{latency}" }}\n'


def ring_job(ranks, sizes, name="allreduce", iterations=2, warmup=0, payload="exact", traffic_class=None):
    """An all-reduce as a ring of nodes, in this order, whose results ring_node verifies. Sizes are text with units."""
    return job('collective = "all_reduce"\nalgorithm = "ring"\n', ranks, sizes, name, iterations, warmup, payload, traffic_class)


def job(operation, ranks, sizes, name="job", iterations=2, warmup=0, payload="synthetic", traffic_class=None):
    """The same of any other operation, as lines of TOML."""
    def texts(values):
        return ", ".join(f'"{value}"' for value in values)

    more = "" if traffic_class is None else f"traffic_class = {traffic_class}\n"
    return (f'[[job]]\nname = "{name}"\n{operation}ranks = [{texts(ranks)}]\n'
            f'sizes = [{texts(sizes)}]\niterations = {iterations}\nwarmup = {warmup}\npayload = "{payload}"\n'
            f'entry = "first_credit"\n{more}')


def output_of(name, lines):
    """What a node's program printed, of the lines that simulate shows."""
    mark = f"{name}: "
    return [line[len(mark):] for line in lines if line.startswith(mark)]
