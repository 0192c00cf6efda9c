"""Few BLAS threads while many small products are made.

A solver that multiplies thin matrices thousands of times gains nothing from several BLAS threads: they wait for one another
in busy loops and take the cores from the threads that do the sparse products. Large products are left to all cores.
"""

from typing import Any


def blas_threads(count: int) -> Any:
    """A context in which BLAS uses so many threads; the setting before it comes back afterwards."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn

    return threadpool_limits(limits=count, user_api="blas")


def one_blas_thread() -> Any:
    return blas_threads(1)
