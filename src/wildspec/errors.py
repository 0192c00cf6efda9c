"""The errors a user can cause. Each message names the object, what was expected, what came, and what to do next.

The command line prints such an error as one line and exits with status 2; any other exception is a defect of ours: 70.
"""


class WildspecError(Exception):
    """Base of every error that wildspec raises on purpose."""


class InputError(WildspecError, ValueError):
    """An argument, file or data set has a wrong value."""


class InputTypeError(WildspecError, TypeError):
    """An argument has a wrong type."""


class DataError(WildspecError, ValueError):
    """Data on disk is missing, unreadable or not what it claims to be."""


class CheckpointError(WildspecError, ValueError):
    """A checkpoint or bundle is damaged, incomplete, unsafe or of another format version."""


class ConvergenceError(WildspecError, ArithmeticError):
    """A numerical method did not reach the accuracy it was asked for."""


class MissingDependencyError(WildspecError, ImportError):
    """An optional package is needed; the message says which extra installs it."""


def one_line(error: BaseException) -> str:
    """What another library says, on one line; its kind where it says nothing."""
    return " ".join(str(error).split()) or type(error).__name__


def kind_and_line(error: BaseException) -> str:
    """The same with the kind of the error before it, at most 200 letters: for what should not have come."""
    return f"{type(error).__name__}: {one_line(error)}"[:200]
