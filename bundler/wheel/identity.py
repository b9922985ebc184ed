"""What a Provider's wheel is called: derived from the Provider, or as its author declared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import BundlerError
from ..protocol.model import Provider
from .distinfo import Metadata
from .naming import ENVELOPE_NAME, NAMESPACE, claimed_by, distribution_name, module_name, python_version

if TYPE_CHECKING:
    from .settings import Settings

TAG = "py3-none-any"


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelIdentity:
    """Names of a wheel; `declared` are those of `distribution` and `version` that are not the derived ones."""

    provider_id: str
    provider_version: str
    distribution: str
    version: str
    declared: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        """The Provider's package, which is what its entry point names; nothing in it is ever imported."""
        return f"{NAMESPACE}.{module_name(self.provider_id)}"

    @property
    def bundle_folder(self) -> str:
        """Where the bundle lies in the wheel and in a site-packages folder."""
        return f"{NAMESPACE}/{module_name(self.provider_id)}/bundle"

    @property
    def envelope(self) -> str:
        """Where the signed statement about the bundle lies: beside it, and not in it."""
        return f"{NAMESPACE}/{module_name(self.provider_id)}/{ENVELOPE_NAME}"

    @property
    def stem(self) -> str:
        """What the names of its files begin with."""
        return f"{self.distribution.replace('-', '_')}-{self.version}"

    @property
    def dist_info(self) -> str:
        return f"{self.stem}.dist-info"

    @property
    def wheel_name(self) -> str:
        return f"{self.stem}-{TAG}.whl"

    @property
    def sdist_name(self) -> str:
        return f"{self.stem}.tar.gz"


def identify(provider_id: str, provider_version: str, settings: Settings) -> WheelIdentity:
    """The names of a Provider's wheel.

    Raises `wheel-version-unmappable` where no version is set and none follows from the Provider's, and
    `wheel-settings-invalid` for a distribution that belongs to another Provider id.
    """
    from .settings import check_distribution

    check_distribution(settings, provider_id)
    distribution = settings.distribution or distribution_name(provider_id)
    version = settings.version or python_version(provider_version)
    return WheelIdentity(
        provider_id=provider_id,
        provider_version=provider_version,
        distribution=distribution,
        version=version,
        declared=deviations(provider_id, provider_version, distribution, version),
    )


def identity_of(provider: Provider, metadata: Metadata) -> WheelIdentity:
    """The names that a wheel or an installed distribution has."""
    return WheelIdentity(
        provider_id=provider.id,
        provider_version=provider.version,
        distribution=metadata.name,
        version=metadata.version,
        declared=deviations(provider.id, provider.version, metadata.name, metadata.version),
    )


def owner_fault(identity: WheelIdentity, path: str) -> BundlerError | None:
    """`wheel-identity-mismatch` where the distribution's name is the one of another Provider id."""
    owner = claimed_by(identity.distribution)
    if owner in (None, identity.provider_id):
        return None
    return BundlerError(
        "wheel-identity-mismatch",
        f"{identity.distribution} is the distribution of the Provider `{owner}`; the bundle is of `{identity.provider_id}`",
        path=path,
    )


def deviations(provider_id: str, provider_version: str, distribution: str, version: str) -> tuple[str, ...]:
    """Which of `distribution` and `version` are not those that follow from the Provider."""
    found = [] if distribution == distribution_name(provider_id) else ["distribution"]
    try:
        same = version == python_version(provider_version)
    except BundlerError:
        same = False
    return tuple(found if same else [*found, "version"])
