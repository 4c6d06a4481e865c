"""Programs that are named on a command line."""

import argparse
import os
from pathlib import Path


def program(text):
    """argparse's `type`: the program's absolute path, so that "./understudy" is not looked for in PATH."""
    path = Path(text).resolve()
    if not path.is_file() or not os.access(path, os.X_OK):
        raise argparse.ArgumentTypeError(f"no program {text}")
    return path
