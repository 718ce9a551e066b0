"""Questions asked of a corpus, one file each; users reach them by name through this registry."""

from __future__ import annotations

from headwise.registry import Registry
from headwise.studies.study import Study

STUDIES: Registry[type[Study]] = Registry(
    "study",
    (
        "headwise.studies.surface",
        "headwise.studies.profile",
        "headwise.studies.norms",
        "headwise.studies.nullspace",
        "headwise.studies.distances",
        "headwise.studies.importance",
        "headwise.studies.mixing",
        "headwise.studies.identity",
        "headwise.studies.syntax",
        "headwise.studies.coref",
        "headwise.studies.probe",
        "headwise.studies.faithfulness",
        "headwise.studies.adversary",
        "headwise.studies.alignment",
    ),
)
