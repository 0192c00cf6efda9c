"""Ask an exported graph with numpy, Pillow and onnxruntime alone: no torch, no wildspec. Goes with docs/howto-deploying.md.

    python examples/onnx_alone.py model.onnx photo.jpg other.png
"""

import json
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps


def upright_rgb(path: str) -> Image.Image:
    """Turned as EXIF says; 16-bit grey scaled, so that 65535 becomes 255; transparency laid on black."""
    try:
        image = Image.open(path)
        image.load()  # a file cut short shows here
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        sys.exit(f"{path}: not readable as an image ({error}); convert it to JPEG or PNG, or leave it out")
    image = ImageOps.exif_transpose(image)
    if image.mode in ("I", "F"):
        sys.exit(f"{path}: 32-bit pixels have no fixed range; scale them to 8 or 16 bits")
    if image.mode.startswith("I;16"):
        image = Image.fromarray(((np.asarray(image).astype(np.uint32) + 128) // 257).astype(np.uint8))
    if "A" in image.mode or "a" in image.mode or "transparency" in image.info:
        image = image.convert("RGBA")
        ground = Image.new("RGB", image.size)
        ground.paste(image, mask=image.getchannel("A"))
        return ground
    return image.convert("RGB")


def pixels(path: str, size: int) -> np.ndarray:
    """uint8 (3, size, size): the shorter side resized to ``size``, antialiased, bilinear; then the centre."""
    image = upright_rgb(path)
    width, height = image.size
    scale = size / min(width, height)
    to_width, to_height = max(size, round(width * scale)), max(size, round(height * scale))
    left, top = (to_width - size) // 2, (to_height - size) // 2
    across, down = width / to_width, height / to_height
    box = (left * across, top * down, (left + size) * across, (top + size) * down)
    return np.asarray(image.resize((size, size), Image.Resampling.BILINEAR, box=box)).transpose(2, 0, 1)


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
    facts = json.loads(session.get_modelmeta().custom_metadata_map["wildspec"])  # classes, input_size, threshold, ...
    batch = np.stack([pixels(path, facts["input_size"]) for path in sys.argv[2:]])
    wanted = ["class", "reject", "score", "p_value"]
    found = session.run(wanted, {"pixels": batch})
    for path, number, reject, score, p_value in zip(sys.argv[2:], *found, strict=True):
        decision = "rejected" if reject else facts["classes"][number]
        print(f"{path}: {decision} (score {score:.5g}, p = {p_value:.4f})")


if __name__ == "__main__":
    main()
