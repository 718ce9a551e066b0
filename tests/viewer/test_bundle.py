"""The committed bundle is what the TypeScript source builds: checked by hashes, so no node is needed here."""

import hashlib
import json
from importlib.resources import files
from pathlib import Path

import pytest

WEB = Path(__file__).parents[2] / "web"
FIXED = ("build.mjs", "package-lock.json", "package.json", "tsconfig.json")
STALE = "The viewer's bundle is stale: run `npm ci && npm run build` in web/ and commit src/headwise/viewer/static."

record = json.loads(files("headwise.viewer").joinpath("static", "bundle.json").read_text())


@pytest.mark.skipif(not WEB.is_dir(), reason="the source of the viewer is not part of an installed package")
def test_the_bundle_was_built_from_these_sources() -> None:
    paths = sorted([*FIXED, *(p.relative_to(WEB).as_posix() for p in (WEB / "src").rglob("*") if p.is_file())])
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.encode() + b"\0" + (WEB / path).read_bytes() + b"\0")
    assert digest.hexdigest() == record["sources"], STALE


@pytest.mark.parametrize("name", ["viewer.js", "viewer.css", "serve.js", "serve.css"])
def test_the_bundle_was_not_edited_by_hand(name: str) -> None:
    text = files("headwise.viewer").joinpath("static", name).read_bytes()
    assert hashlib.sha256(text).hexdigest() == record["files"][name], STALE
