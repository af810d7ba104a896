from os import PathLike

from gpulake.api import OpenLake

__version__: str

def open(path: str | PathLike[str] | None = None) -> OpenLake: ...  # noqa: A001
