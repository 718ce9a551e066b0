"""Settings of studies as they are typed on the command line."""

from __future__ import annotations

import pytest

from headwise.cli.settings import settings_of
from headwise.errors import InputError


def test_a_setting_takes_the_shape_of_its_default():
    told = settings_of("surface,norms", None, ["surface.quantities=raw,effective"])
    assert told == {"surface": {"quantities": ("raw", "effective")}, "norms": {}}
    assert settings_of("surface", None, ["quantities=raw"]) == {"surface": {"quantities": ("raw",)}}


def test_quantity_goes_to_every_study_that_looks_at_quantities():
    told = settings_of("surface,norms", "raw,norm", [])
    assert told["surface"] == {"quantities": ("raw", "norm")}


@pytest.mark.parametrize(
    ("assignment", "said"),
    [("quantities", "KEY=VALUE"), ("depth=3", "there is no 'depth'"), ("norms.quantities=raw", "no 'norms.")],
)
def test_what_no_study_has_is_refused(assignment: str, said: str):
    with pytest.raises(InputError, match=said):
        settings_of("surface", None, [assignment])
