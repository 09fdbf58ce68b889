"""Draw the heatmap of the README and the first page: `python docs/heatmap.py CHECKPOINT`, with Chromium on the path.

The checkpoint is that of the table below it: MiniLM, fine-tuned for SST-2.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image, ImageChops

import benchmark

TEXT = "a gripping story, badly told"
METHODS = ("attattr", "rollout", "gradient_x_input")
WIDTH, SCALE = 620, 2


def screenshot(page: Path, picture: Path) -> None:
    """A page as Chromium draws it."""
    command = [
        shutil.which("chromium") or "chromium", "--headless", "--no-sandbox", "--hide-scrollbars",
        f"--force-device-scale-factor={SCALE}", f"--window-size={WIDTH},700", f"--screenshot={picture}", page.as_uri(),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)


def main(checkpoint: str) -> None:
    """Explain the text, and write `docs/heatmap-sst2.png` without its empty margins."""
    explanation = benchmark.explain(benchmark.load_model(checkpoint, device="cpu"), TEXT, methods=METHODS)
    with TemporaryDirectory() as folder:
        page, picture = Path(folder, "page.html"), Path(folder, "page.png")
        style = "body{font-family:sans-serif;margin:12px;background:#fff;color:#1a1a1a}"
        html = f"<meta charset=utf-8><style>{style}</style>{explanation._repr_html_()}"
        page.write_text(html, encoding="utf-8")
        screenshot(page, picture)
        drawn = Image.open(picture).convert("RGB")
        _, _, right, lower = ImageChops.difference(drawn, Image.new("RGB", drawn.size, "white")).getbbox()
        drawn = drawn.crop((0, 0, min(drawn.width, right + 24), min(drawn.height, lower + 24)))
        drawn.quantize(128).save(Path(__file__).with_name("heatmap-sst2.png"), optimize=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
