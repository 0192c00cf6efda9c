"""Few BLAS threads inside, what was set before outside, also when something goes wrong inside."""

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from wildspec.blas import blas_threads, one_blas_thread


def in_use() -> set[int]:
    return {entry["num_threads"] for entry in threadpool_info() if entry["user_api"] == "blas"}


def test_the_setting_comes_back():
    with threadpool_limits(limits=2, user_api="blas"):
        before = in_use()
        with one_blas_thread():
            assert in_use() == {1}
            with blas_threads(2):
                assert in_use() == before
        assert in_use() == before
        with pytest.raises(KeyError), one_blas_thread():
            raise KeyError
        assert in_use() == before
