"""Folders in memory, as the index's own tests have them."""

from .index.conftest import tmp_path

__all__ = ["tmp_path"]
