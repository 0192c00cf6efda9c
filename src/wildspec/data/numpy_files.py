"""Arrays in .npy and .npz files, without pickle. A damaged file is a DataError."""

from pathlib import Path

import numpy as np

from wildspec.errors import DataError, one_line


def read_arrays(path: Path, *wanted: tuple[str, ...], mapped: bool = False) -> tuple[list[np.ndarray | None], str]:
    """For each group of names the array under the first of them that there is, else None; and the names in the file.

    An .npy file has one array without a name: it stands for the first group. mapped: it is not read but mapped.
    """
    try:
        loaded = np.load(path, allow_pickle=False, mmap_mode="r" if mapped and path.suffix.lower() == ".npy" else None)
        if isinstance(loaded, np.ndarray):
            return [loaded, *([None] * (len(wanted) - 1))], "one array"
        with loaded:
            found = [next((loaded[name] for name in group if name in loaded), None) for group in wanted]
            return found, ", ".join(loaded)
    except Exception as error:  # numpy and zipfile raise anything on damaged files: BadZipFile, zlib.error, MemoryError, ...
        line, then = one_line(error), "write it again with numpy.save or savez"
        if "pickle" in line or "Python objects" in line:  # numpy's advice to switch pickle on would be bad advice
            line, then = "it holds Python objects, or no array at all", f"{then}, names as text: names.astype(str)"
        raise DataError(f"{path} is not a readable numpy file: {line}; {then}") from error
