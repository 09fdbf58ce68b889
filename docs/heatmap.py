"""Draw the heatmaps of the pages, with Chromium on the path: `python docs/heatmap.py CHECKPOINT [FOLDER GGUF_FILE]`.

The checkpoint is that of the README's table, MiniLM fine-tuned for SST-2; the folder that of SmolLM2-135M-Instruct, whose
weights are in the GGUF file.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image, ImageChops

import benchmark
from benchmark.notebook.explanation import Explanation

TEXT = "a gripping story, badly told"
METHODS = ("attattr", "rollout", "gradient_x_input")
PROMPT = "When Mary and John went to the store, John gave a drink to"
SCALE = 2


def screenshot(page: Path, picture: Path, width: int) -> None:
    """A page as Chromium draws it."""
    command = [
        shutil.which("chromium") or "chromium", "--headless", "--no-sandbox", "--hide-scrollbars",
        f"--force-device-scale-factor={SCALE}", f"--window-size={width},760", f"--screenshot={picture}", page.as_uri(),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)


def draw(explanation: Explanation, name: str, width: int) -> None:
    """Write an explanation as a notebook shows it, without its empty margins."""
    with TemporaryDirectory() as folder:
        page, picture = Path(folder, "page.html"), Path(folder, "page.png")
        style = "body{font-family:sans-serif;margin:12px;background:#fff;color:#1a1a1a}"
        html = f"<meta charset=utf-8><style>{style}</style>{explanation._repr_html_()}"
        page.write_text(html, encoding="utf-8")
        screenshot(page, picture, width)
        drawn = Image.open(picture).convert("RGB")
        _, _, right, lower = ImageChops.difference(drawn, Image.new("RGB", drawn.size, "white")).getbbox()
        drawn = drawn.crop((0, 0, min(drawn.width, right + 24), min(drawn.height, lower + 24)))
        drawn.quantize(128).save(Path(__file__).with_name(name), optimize=True)


def main(checkpoint: str, folder: str = "", gguf_file: str = "") -> None:
    """Draw `heatmap-sst2.png`, and `generation-smollm2.png` where a language model is given."""
    draw(
        benchmark.explain(benchmark.load_model(checkpoint, device="cpu"), TEXT, methods=METHODS),
        "heatmap-sst2.png",
        620,
    )
    if folder:
        model = benchmark.load_model(folder, device="cpu", task="next_token", gguf_file=gguf_file)
        said = benchmark.explain(model, PROMPT, generate=8, methods=["attnlrp", "raw_attention"])
        draw(said, "generation-smollm2.png", 820)


if __name__ == "__main__":
    main(*sys.argv[1:])
