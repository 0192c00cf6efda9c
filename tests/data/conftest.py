"""A folder per class, as people have them."""

from pathlib import Path

import pytest
from image_files import put


@pytest.fixture
def classes_folder(tmp_path: Path) -> Path:
    root = tmp_path / "classes"
    for number, name in enumerate(["dog/10.png", "dog/2.png", "cat/b.PNG", "cat/deep/er/a.png", "Eel 3/x.png"]):
        put(root / name, number)
    (root / "zebra").mkdir()  # a class without images keeps its number
    (root / "dog" / "notes.txt").write_text("not an image")
    put(root / ".hidden" / "a.png")
    put(root / "dog" / ".thumb.png")
    return root
