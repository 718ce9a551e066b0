"""The documentation as a site: it builds without a warning, names everything there is, and needs no network to read."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

from docs.pages import ROOT
from headwise.measures import ATTENTION, MIXING
from headwise.studies import STUDIES

QUANTITY_SECTIONS = ("Formula", "Reading", "Traps", "Cost", "Reference")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True))
    return folder
