"""Trees: everything that holds a Provider lists paths and reads bytes through one of these.

A Tree is where confinement to the root and symbolic links are decided, once. Paths are relative POSIX
paths in normal form (`paths.normalize`); the root itself is the empty text.
"""

from .archive import Archive, Member
from .base import CHUNK, Entry, Kind, Reader, Skip, Tree, folders_of, strangers
from .directory import DirectoryTree
from .memory import MemoryReader, MemoryTree
from .zipped import ZipTree

__all__ = [
    "CHUNK",
    "Archive",
    "DirectoryTree",
    "Entry",
    "Kind",
    "Member",
    "MemoryReader",
    "MemoryTree",
    "Reader",
    "Skip",
    "Tree",
    "ZipTree",
    "folders_of",
    "strangers",
]
