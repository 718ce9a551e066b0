"""Where the project lives, written wherever it must stand: python release/address.py OWNER/NAME [--check].

pyproject.toml gets [project.urls], CITATION.cff its repository, mkdocs.yml the addresses of site and repository,
and every notebook a first cell with a Colab and a Binder link. Until a person has given it a home there is none, and no
link is made up: one that leads to a stranger's repository would run a stranger's code. `--check` says what is missing.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}")
BADGE = "headwise-badges"  # the id of the cell
PIP = "%pip install --quiet headwise"


def urls(home: str) -> str:
    owner, name = home.split("/")
    at = f"https://github.com/{home}"
    named = {
        "Homepage": at, "Documentation": f"https://{owner.lower()}.github.io/{name}/", "Issues": f"{at}/issues",
        "Changelog": f"{at}/blob/main/CHANGELOG.md",
    }  # fmt: skip
    return "[project.urls]\n" + "".join(f'{key} = "{value}"\n' for key, value in named.items())


def in_pyproject(text: str, home: str) -> str:
    bare = re.sub(r"\[project\.urls\]\n(?:\w+ = .*\n)*\n", "", text)
    return bare.replace("[project.scripts]\n", f"{urls(home)}\n[project.scripts]\n", 1)


def in_citation(text: str, home: str) -> str:
    bare = re.sub(r"^repository-code: .*\n", "", text, flags=re.MULTILINE)
    return bare.replace("type: software\n", f'type: software\nrepository-code: "https://github.com/{home}"\n', 1)


def in_site(text: str, home: str) -> str:
    owner, name = home.split("/")
    bare = re.sub(r"^(repo_url|site_url): .*\n", "", text, flags=re.MULTILINE)
    lines = f"site_url: https://{owner.lower()}.github.io/{name}/\nrepo_url: https://github.com/{home}\n"
    return bare.replace("docs_dir: docs\n", f"{lines}docs_dir: docs\n", 1)


def badges(home: str, path: str) -> str:
    """The Markdown of two links that open a file of the repository.

    >>> badges("a/b", "examples/x.ipynb").splitlines()[1]
    '[![Binder](https://mybinder.org/badge_logo.svg)](https://mybinder.org/v2/gh/a/b/main?labpath=examples%2Fx.ipynb)'
    """
    colab = f"https://colab.research.google.com/github/{home}/blob/main/{path}"
    binder = f"https://mybinder.org/v2/gh/{home}/main?labpath={path.replace('/', '%2F')}"
    return (
        f"[![Colab](https://colab.research.google.com/assets/colab-badge.svg)]({colab})\n"
        f"[![Binder](https://mybinder.org/badge_logo.svg)]({binder})\n"
        f"On Colab run `{PIP}` first; Binder has it."
    )


def in_notebook(text: str, home: str, path: str) -> str:
    book: dict[str, Any] = json.loads(text)
    cell = {"cell_type": "markdown", "id": BADGE, "metadata": {}, "source": badges(home, path).splitlines(True)}
    book["cells"] = [cell, *(one for one in book["cells"] if one.get("id") != BADGE)]
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def rewritten(root: Path, home: str) -> dict[Path, str]:
    """Every file that names the home, as it then reads."""
    plain = {"pyproject.toml": in_pyproject, "CITATION.cff": in_citation, "mkdocs.yml": in_site}
    found = {root / name: write((root / name).read_text("utf-8"), home) for name, write in plain.items()}
    for path in sorted((root / "examples").glob("*.ipynb")):
        found[path] = in_notebook(path.read_text("utf-8"), home, path.relative_to(root).as_posix())
    return found


def home_of(root: Path) -> str | None:
    """What pyproject.toml says."""
    found = re.search(
        r'^Homepage = "https://github\.com/([^"]+)"$', (root / "pyproject.toml").read_text(), re.MULTILINE
    )
    return found and found.group(1)


def main(words: list[str]) -> int:
    if words == ["--check"]:
        home = home_of(ROOT)
        if home is None:
            print(
                "no home yet: python release/address.py OWNER/NAME writes links and badges, and commit what it writes"
            )
            return 1
        stale = [
            str(path.relative_to(ROOT)) for path, text in rewritten(ROOT, home).items() if path.read_text() != text
        ]
        print(f"{home}: {'all files name it' if not stale else 'write it anew, stale are ' + ', '.join(stale)}")
        return len(stale) > 0
    if len(words) != 1 or not FORM.fullmatch(words[0]):
        print("The home must be OWNER/NAME on GitHub: python release/address.py OWNER/NAME", file=sys.stderr)
        return 2
    for path, text in rewritten(ROOT, words[0]).items():
        path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
