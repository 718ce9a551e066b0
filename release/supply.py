"""What comes with headwise: hashes of every archive, licences, and a bill of materials (CycloneDX) for the wheel.

    python release/supply.py hashes     write constraints.hashed.txt from the index (needs the network)
    python release/supply.py archives   print the same without torch (whose CPU build is of another index) and eflomal
                                        (built from source): what CI installs with --require-hashes --no-deps
    python release/supply.py licences   print them; exit code 1 where a core dependency is GPL, or unknown
    python release/supply.py sbom       write release/sbom.cdx.json of the core dependencies, from what is installed

`hashes` takes, of every pinned version, the archives for CPython 3.11 to 3.14 on Linux x86-64, those for any machine,
and the sources. Install with: pip install --no-deps --require-hashes -r constraints.hashed.txt.
"""

from __future__ import annotations

import html
import json
import re
import sys
import tomllib
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
INDEX = "https://pypi.org/simple"
LINK = re.compile(r'<a[^>]* href="([^"]+)"')
TAGS = re.compile(
    r"-(py3|py2\.py3|cp311|cp312|cp313|cp314|cp3\d+-abi3)[^/]*-(any|manylinux[^/]*x86_64|linux_x86_64)[^/]*\.whl$"
)
APART = ("torch", "eflomal")
GPL = re.compile(r"(?<!L)\bA?GPL|GNU (Affero )?General", re.IGNORECASE)


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    found = (line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    return {canonicalize_name(name): version.strip() for name, version in found}


def archives(name: str, version: str) -> list[str]:
    """The SHA-256 of every archive of a version that may be installed here."""
    with urllib.request.urlopen(f"{INDEX}/{name}/", timeout=60) as page:
        links = [html.unescape(link) for link in LINK.findall(page.read().decode())]
    hashes = []
    for link in links:
        address, _, fragment = link.partition("#")
        file = urllib.parse.unquote(address.rpartition("/")[2])
        written = rf"^{re.sub('[-_.]+', '[-_.]+', name)}-{re.escape(version)}(-|\.tar\.gz$|\.zip$)"
        if re.match(written, file, re.IGNORECASE) and (TAGS.search(file) or file.endswith((".tar.gz", ".zip"))):
            hashes.append(fragment.removeprefix("sha256="))
    return sorted(set(hashes))


def write_hashes() -> int:
    wanted = pins()
    with ThreadPoolExecutor(8) as pool:
        found = dict(zip(wanted, pool.map(lambda item: archives(*item), wanted.items()), strict=True))
    lines = ["# Made by release/supply.py hashes from constraints.txt."]
    for name, hashes in found.items():
        lines.append(f"{name}=={wanted[name]}" + "".join(f" \\\n    --hash=sha256:{each}" for each in hashes))
    missing = [name for name, hashes in found.items() if not hashes]
    (ROOT / "constraints.hashed.txt").write_text("\n".join(lines) + "\n")
    print(
        f"{len(found)} packages, {sum(map(len, found.values()))} archives; none found of: {', '.join(missing) or '-'}"
    )
    return len(missing) > 0


def print_archives() -> int:
    """Of constraints.hashed.txt what comes as an archive of the index itself."""
    entries = re.split(r"\n(?=\S)", (ROOT / "constraints.hashed.txt").read_text().strip())
    print("\n".join(entry for entry in entries if entry.partition("==")[0] not in APART))
    return 0


def core() -> list[metadata.Distribution]:
    """What `pip install headwise` brings, without extras, by the metadata of what is installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    todo, found = [Requirement(each).name for each in project["dependencies"]], {}
    while todo:
        name = canonicalize_name(todo.pop())
        if name in found:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # for another system
        needs = [Requirement(each) for each in found[name].requires or []]
        todo += [need.name for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]
    return [found[name] for name in sorted(found)]


def licence(package: metadata.Distribution) -> str:
    told = package.metadata
    classifiers = [
        each.rpartition(" :: ")[2] for each in told.get_all("Classifier") or [] if each.startswith("License")
    ]
    short = told.get("License") if len(told.get("License") or "") < 60 else None
    return told.get("License-Expression") or short or ", ".join(classifiers)


def public(package: metadata.Distribution) -> str:
    """The version without what a build adds to it: 2.13.0 of 2.13.0+cpu."""
    return package.version.partition("+")[0]


def print_licences() -> int:
    packages = {package.metadata["Name"]: licence(package) for package in core()}
    for name, told in packages.items():
        print(f"{name:<28} {told or 'UNKNOWN'}")
    wrong = [name for name, told in packages.items() if not told or GPL.search(told)]
    print(f"{len(packages)} packages; GPL or unknown: {', '.join(wrong) or 'none'}. Extras with GPL: trees, aligners.")
    return len(wrong) > 0


def bill() -> dict:
    """CycloneDX 1.6, without a time or a serial number, so that it is the same each time."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    parts = [
        {"type": "library", "name": each.metadata["Name"], "version": public(each),
         "purl": f"pkg:pypi/{canonicalize_name(each.metadata['Name'])}@{public(each)}",
         "licenses": [{"license": {"name": licence(each)}}]}
        for each in core()
    ]  # fmt: skip
    own = {"type": "library", "name": project["name"], "version": project["version"],
           "licenses": [{"license": {"id": project["license"]}}]}  # fmt: skip
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own},
        "components": parts,
    }


def write_bill() -> int:
    path = ROOT / "release" / "sbom.cdx.json"
    path.write_text(json.dumps(bill(), indent=1) + "\n")
    print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    verbs = {"hashes": write_hashes, "archives": print_archives, "licences": print_licences, "sbom": write_bill}
    if len(sys.argv) != 2 or sys.argv[1] not in verbs:
        sys.exit(f"usage: python release/supply.py {'|'.join(verbs)}")
    sys.exit(verbs[sys.argv[1]]())
