"""What a signature has to cover, as digests: of a bundle, and of the distribution that it was packaged as.

A bundle's files are covered by the digest of its manifest.json, which lists theirs. What no digest of the bundle
covers is said beside it: executable bits, and the files of the .dist-info folder. What installers write there
is left out: it says how a wheel was installed, and nothing of it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..bundle.verified import VerifiedBundle

#: Written into the .dist-info folder when a wheel is installed, by pip, uv and their like.
INSTALLER_FILES = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json", "uv_build.json"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Name, version, and the digests of METADATA, WHEEL, entry points, SBOM and licences by name in .dist-info."""

    name: str
    version: str
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What was verified: `digest` is the bundle's, `manifest_digest` that of manifest.json's bytes."""

    provider_id: str
    provider_version: str
    digest: str
    manifest_digest: str
    executable: frozenset[str]
    distribution: Distribution | None = None


def contents_of(bundle: VerifiedBundle, distribution: Distribution | None = None) -> Contents:
    """The contents of a verified bundle; with `distribution` those of its wheel or install."""
    return Contents(
        provider_id=bundle.manifest.provider_id,
        provider_version=bundle.manifest.provider_version,
        digest=bundle.digest,
        manifest_digest=bundle.manifest_digest,
        executable=bundle.executable,
        distribution=distribution,
    )


def distribution_of(name: str, version: str, info: str, digests: Mapping[str, str]) -> Distribution:
    """The distribution whose .dist-info folder `info` holds files with these digests, given by whole path."""
    inside = {path.removeprefix(f"{info}/"): digest for path, digest in sorted(digests.items())}
    return Distribution(
        name=name, version=version, files={path: inside[path] for path in inside if path not in INSTALLER_FILES}
    )
