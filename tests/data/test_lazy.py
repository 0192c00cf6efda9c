"""``import wildspec.data`` loads what is asked for: decoding an image needs no torch, and a worker starts at once."""

import subprocess
import sys

import wildspec.data


def test_every_public_name_is_there() -> None:
    for name in wildspec.data.__all__:
        assert getattr(wildspec.data, name) is not None


def test_decoding_does_not_load_torch() -> None:
    program = "import sys; import wildspec.data.decode; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "False\n", done.stderr
