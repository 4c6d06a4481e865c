"""Draws what tools/experiments/bench measured, with gnuplot: nanoseconds over packet sizes, and over every other argument that takes several values."""

import shutil
import subprocess

WIDTH, HEIGHT, HEADING = 1200, 380, 40
TERMINALS = {".svg": "svg", ".png": "pngcairo"}


def missing():
    """What this machine lacks; None if nothing."""
    return None if shutil.which("gnuplot") else "gnuplot (Debian package gnuplot-nox)"


def quoted(text):
    return "'" + str(text).replace("'", "''") + "'"


# Programs whose rows are the floors, and those that they are drawn beside: one picture.
TOGETHER = {"path_bench", "port_bench", "dpdk-testpmd"}
FEW, MANY = 2, 3  # points of a line: with fewer values an argument is a choice, no axis
AXES = {"cores": FEW}


def panels(rows):
    """{title: (name of the x axis, {title of a line: [(x, ns)]})}."""
    found, least = {}, {}

    def add(title, axis, line, x, row, points):
        found.setdefault(title, (axis, {}))[1].setdefault(line, []).append((x, row.ns))
        least[title] = points

    for row in rows.ordered():
        name = row.name
        if name.size:
            line = f"{name.stage} {name.argument}".strip()
            if name.program not in TOGETHER:
                add(name.program, "bytes of payload", f"{line} {name.state}".removesuffix(" -"), name.size, row, MANY)
            elif name.cold is True:
                add("frames beyond the caches", "bytes of payload", line, name.size, row, FEW)
            else:
                add("frames in the caches", "bytes of payload", line, name.size, row, FEW)
        for argument, value in name.arguments:
            if isinstance(value, int) and value > 0:
                others = [f"{key}={other}" for key, other in name.arguments if key != argument]
                size = [] if name.size is None else [f"{name.size} B"]
                state = [] if name.cold is None else [name.state]
                line = " ".join([name.program, name.stage, *size, *state, *others])
                title = argument or f"argument of {name.stage}"
                add(f"over {title}", title, line, value, row, AXES.get(argument, MANY))
    kept = {title: (axis, {line: sorted(points) for line, points in lines.items() if len(points) >= least[title]})
            for title, (axis, lines) in found.items()}
    return {title: panel for title, panel in kept.items() if panel[1]}


def script(found, file, heading):
    """Of gnuplot, with its data."""
    text = [f"set terminal {TERMINALS[file.suffix]} size {WIDTH},{HEIGHT * len(found) + HEADING} noenhanced background 'white'",
            f"set output {quoted(file)}", f"set multiplot layout {len(found)},1 title {quoted(heading)} font ',10'",
            "set grid", "set key outside right", "set logscale xy 2", "set ylabel 'ns'", "set format x '%.0f'"]
    number = 0
    for title, (axis, lines) in found.items():
        plots = []
        for line, points in lines.items():
            text += [f"$d{number} << EOD", *(f"{x} {y:.6g}" for x, y in points), "EOD"]
            plots.append(f"$d{number} using 1:2 with linespoints title {quoted(line)}")
            number += 1
        text += [f"set title {quoted(title)}", f"set xlabel {quoted(axis)}", "plot " + ", ".join(plots)]
    return "\n".join([*text, "unset multiplot", "unset output", ""])


def draw(rows, file, heading):
    """None, or why there is no picture."""
    found = panels(rows)
    if not found:
        return "nothing was measured at several sizes"
    done = subprocess.run(["gnuplot"], input=script(found, file, heading), capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"gnuplot: {done.stderr.strip()}"
