"""How much of themselves tests run: each feature once, or, where UNDERSTUDY_CASES is "all" as for tools/check --full, every case."""

import os

ALL = os.environ.get("UNDERSTUDY_CASES") == "all"


def cases(few, more):
    """What a test goes through: `more`, too, where all is asked for."""
    return (*few, *more) if ALL else few


def only_in_full(test):
    """Decorates a test that is there only where all is asked for: others of its file show the same feature sooner."""
    return test if ALL else None  # unittest takes what can be called
