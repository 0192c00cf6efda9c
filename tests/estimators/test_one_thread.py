"""One BLAS thread inside, what was set before outside, also when something goes wrong inside."""

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from wildspec.estimators.one_thread import one_blas_thread


def blas_threads() -> set[int]:
    return {entry["num_threads"] for entry in threadpool_info() if entry["user_api"] == "blas"}


def test_the_setting_comes_back():
    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        with one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == before
        with pytest.raises(KeyError), one_blas_thread():
            raise KeyError
        assert blas_threads() == before
