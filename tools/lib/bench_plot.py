"""Draws what tools/bench measured, with gnuplot: nanoseconds over packet sizes, and over every other argument that takes several values."""

import shutil
import subprocess

WIDTH, ROW_HEIGHT, HEADING = 1200, 420, 40
TERMINALS = {".svg": "svg", ".png": "pngcairo"}


def missing():
    """What this machine lacks; None if nothing."""
    return None if shutil.which("gnuplot") else "gnuplot (Debian package gnuplot-nox)"


def quoted(text):
    return "'" + str(text).replace("'", "''") + "'"


def panels(rows):
    """{title: (name of the x axis, {title of a line: [(x, ns)]})}; lines have two points or more."""
    found = {}

    def add(title, axis, line, x, row):
        found.setdefault(title, (axis, {}))[1].setdefault(line, []).append((x, row.ns))

    for row in rows.ordered():
        name = row.name
        rest = f"{name.stage} {name.argument}".strip()
        if name.size is not None and name.size > 0:
            if name.cold is not True:
                add("frames in the caches", "bytes of payload", rest, name.size, row)
            if name.cold is not False:
                add("frames beyond the caches", "bytes of payload", rest, name.size, row)
        for argument, value in name.arguments:
            if isinstance(value, int) and value > 0:
                others = [f"{key}={other}" for key, other in name.arguments if key != argument]
                size = [] if name.size is None else [f"{name.size} B"]
                state = [] if name.cold is None else [name.state]
                title = argument or f"argument of {name.stage}"
                add(f"over {title}", title, " ".join([name.program, name.stage, *size, *state, *others]), value, row)
    kept = {title: (axis, {line: sorted(points) for line, points in lines.items() if len(points) > 1})
            for title, (axis, lines) in found.items()}
    return {title: panel for title, panel in kept.items() if panel[1]}


def script(found, file, heading):
    """Of gnuplot, with its data."""
    columns = min(2, len(found))
    height = ROW_HEIGHT * -(-len(found) // columns) + HEADING
    text = [f"set terminal {TERMINALS[file.suffix]} size {WIDTH},{height} noenhanced background 'white'", f"set output {quoted(file)}",
            f"set multiplot layout {-(-len(found) // columns)},{columns} title {quoted(heading)}",
            "set grid", "set key outside below horizontal", "set logscale xy 2", "set ylabel 'ns'", "set format x '%.0f'"]
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
        return "nothing was measured at two sizes or more"
    done = subprocess.run(["gnuplot"], input=script(found, file, heading), capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"gnuplot: {done.stderr.strip()}"
