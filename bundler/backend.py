"""The PEP 517 backend of a Provider's own pyproject.toml: `python -m build`, `pip install .`, `pip wheel .`, `uv build`.

    [build-system]
    requires = ["agent-graph-bundler"]
    build-backend = "bundler.backend"

The Provider in the folder is validated, bundled and packaged as `agent-bundler wheel` does it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cli.options import GlobalOptions
    from .wheel.build import Content

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_wheel",
]

_Settings = Mapping[str, Any] | None


def get_requires_for_build_wheel(config_settings: _Settings = None) -> list[str]:
    """Nothing more than this package needs itself."""
    _check_config(config_settings)
    return []


def get_requires_for_build_sdist(config_settings: _Settings = None) -> list[str]:
    """Nothing more than this package needs itself."""
    _check_config(config_settings)
    return []


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: _Settings = None) -> str:
    """The METADATA that the wheel will have; the name of its .dist-info folder."""
    from .wheel.build import metadata_folder

    _check_config(config_settings)
    with _content() as content:
        return os.path.basename(metadata_folder(content, metadata_directory))


def build_wheel(
    wheel_directory: str,
    config_settings: _Settings = None,
    metadata_directory: str | None = None,
) -> str:
    """Write the wheel; its file name."""
    from .wheel.build import write_wheel

    _check_config(config_settings)
    with _content() as content:
        return os.path.basename(write_wheel(content, wheel_directory).path)


def build_sdist(sdist_directory: str, config_settings: _Settings = None) -> str:
    """Write the sdist; its file name."""
    from .wheel.sdist import make_sdist

    _check_config(config_settings)
    with _content() as content:
        return os.path.basename(make_sdist(content, sdist_directory))


def build_editable(
    wheel_directory: str,
    config_settings: _Settings = None,
    metadata_directory: str | None = None,
) -> str:
    """Refused: a host verifies what was built, and an editable install is not."""
    from .errors import BundlerError

    with _refusing():
        raise BundlerError(
            "installed-editable",
            "a Provider has no editable install: it would point at a source, which changes and can't be verified",
            hint="install it without --editable; `agent-bundler -m FOLDER` works on the source itself",
        )


@contextmanager
def _content() -> Iterator[Content]:
    """What the wheel of the Provider in the current folder holds."""
    from .bundle.open import open_path
    from .cli.output import warn
    from .tree import DirectoryTree
    from .wheel.build import survey
    from .wheel.settings import check_backend, read_settings

    with _refusing() as options:
        with DirectoryTree(os.curdir) as tree:
            check_backend(tree)
            settings = read_settings(tree)
        with open_path(settings.manifest or "provider.yaml") as opened:
            content = survey(opened, settings)
            warn(options, content.warnings)
            yield content


@contextmanager
def _refusing() -> Iterator[GlobalOptions]:
    """Tell warnings and an error as the command does, and end: a frontend shows what was printed, and no traceback."""
    from .cli.options import GlobalOptions
    from .cli.output import print_error, print_warnings
    from .errors import BundlerError

    options = GlobalOptions()
    try:
        yield options
    except BundlerError as error:
        print_error(options, error)
        sys.exit(1)
    print_warnings(options)


def _check_config(config_settings: _Settings) -> None:
    from .errors import BundlerError

    if config_settings:
        with _refusing():
            raise BundlerError(
                "wheel-settings-invalid",
                f"the config settings {', '.join(config_settings)} are not known; this backend takes none",
                hint="say it in [tool.agent-bundler] of the pyproject.toml",
            )
