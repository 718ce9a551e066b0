"""What is left to a person once `make release` has built and checked: printed, with what is done already said so."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from address import home_of

ROOT = Path(__file__).parents[1]


def steps(version: str, home: str | None, changelog: str, built: list[str]) -> list[str]:
    """The steps in their order; a step that is done says so."""
    dated = re.search(rf"^## {re.escape(version)} +\(?\d{{4}}-\d\d-\d\d", changelog, re.MULTILINE)
    return [
        f"home: {home}" if home else "python release/address.py OWNER/NAME, and commit (links, badges of notebooks)",
        "CHANGELOG.md has a date"
        if dated
        else f"date version {version} in CHANGELOG.md (## {version} (YYYY-MM-DD)), commit",
        "make check, and wait for the workflow of that commit",
        f"git tag v{version} && git push origin v{version}",
        f"twine upload {' '.join(f'dist/{name}' for name in built)}",
        "make site && git push origin gh-pages",
    ]


def main() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    built = sorted(path.name for path in (ROOT / "dist").glob("*"))
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    print(f"Built {', '.join(built)}. To publish:")
    for number, step in enumerate(steps(version, home_of(ROOT), changelog, built), 1):
        print(f"  {number}. {step}")


if __name__ == "__main__":
    main()
