"""One BLAS thread while many small products are made.

A solver that multiplies thin matrices thousands of times gains nothing from several BLAS threads: they wait for one another
in busy loops and take the cores from the threads that do the sparse products. Large products are left to all cores.
"""

from typing import Any


def one_blas_thread() -> Any:
    """A context in which BLAS uses one thread; the setting before it comes back afterwards."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn

    return threadpool_limits(limits=1, user_api="blas")
