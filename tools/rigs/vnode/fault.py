"""The error that the user sees: one line, without a stack trace."""


class Fault(Exception):
    """What went wrong and what to do about it; `status` is the process's exit status."""

    def __init__(self, text, status=1):
        super().__init__(text)
        self.status = status
