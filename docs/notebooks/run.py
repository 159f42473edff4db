"""Runs the notebooks of this folder and keeps what they show; with Chromium there, pictures of both themes.

python docs/notebooks/run.py
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent


def run(path, folder):
    """The notebook with its outputs, run in a folder of its own."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": folder}}
    ).execute()
    return notebook


def picture(path, theme, folder):
    """One theme of it, as JupyterLab shows it."""
    from nbconvert import HTMLExporter

    page = Path(folder) / f"{path.stem}-{theme}.html"
    page.write_text(HTMLExporter(theme=theme).from_filename(str(path))[0], encoding="utf-8")
    chromium = [
        shutil.which("chromium"),
        "--headless",
        "--no-sandbox",
        "--hide-scrollbars",
        f"--window-size=1000,{3300 if path.stem == 'this-machine' else 2350}",
    ]
    shot = HERE / f"{path.stem}-{theme}.png"
    subprocess.run(
        [*chromium, f"--screenshot={shot}", page.as_uri()], check=True, capture_output=True, timeout=120
    )


def main():
    for path in sorted(HERE.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            notebook = run(path, folder)
            for cell in notebook.cells:  # when it ran is nobody's business
                cell.get("metadata", {}).pop("execution", None)
            nbformat.write(notebook, path)
            for theme in ("light", "dark") if shutil.which("chromium") else ():
                picture(path, theme, folder)


if __name__ == "__main__":
    main()
