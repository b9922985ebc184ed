"""A folder index: what pip and uv install from, and what keeps each change of it whole.

`layout` what lies where · `records`, `wheels` what is said of a file · `pages` · `journal` · `lease` who may write ·
`change`, `adding` how a change is made · `check`, `mend` what is wrong, and what is done about it · `folder` all of it
as one object.
"""

from .folder import Changed, FolderIndex, folder_of
from .journal import Head
from .records import IndexFile

__all__ = ["Changed", "FolderIndex", "Head", "IndexFile", "folder_of"]
