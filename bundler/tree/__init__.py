"""Trees: everything that holds a Provider lists paths and reads bytes through one of these.

A Tree is where confinement to the root and symbolic links are decided, once. Paths are relative POSIX
paths in normal form (`paths.normalize`); the root itself is the empty text.
"""

from .base import CHUNK, Entry, Kind, Reader, Skip, Tree, folders_of, strangers
from .directory import DirectoryTree
from .memory import MemoryReader, MemoryTree

__all__ = [
    "CHUNK",
    "DirectoryTree",
    "Entry",
    "Kind",
    "MemoryReader",
    "MemoryTree",
    "Reader",
    "Skip",
    "Tree",
    "folders_of",
    "strangers",
]
