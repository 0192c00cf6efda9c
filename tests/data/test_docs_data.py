"""The code of docs/data.md runs as it stands, block after block, in a folder with such photographs."""

import re
from pathlib import Path

import pytest
from image_files import encode, picture

PAGE = Path(__file__).parents[2] / "docs" / "data.md"


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(60):
        for folder, offset in ((f"photos/labelled/{'cat' if number % 2 else 'dog'}", 0), ("photos/field", 1000)):
            path = tmp_path / folder / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encode(picture(number + offset, 40, 36)))
    (tmp_path / "photos/labelled/cat/broken.png").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 6
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    printed = capsys.readouterr().out
    assert "60 ('cat', 'dog') torch.Size([60, 3, 32, 32])" in printed
    assert "cat/broken.png the file is empty" in printed
    assert "CIFAR-10 (train) is not in data/cifar10" in printed
