"""gpulake: from raw GPU-cluster traces to tested tables, findings and plots."""

__version__ = "1.0.0"


def __getattr__(name: str) -> object:
    """`gpulake.open`, without loading the engine for those who do not call it. __init__.pyi has its type."""
    if name == "open":
        from importlib import import_module

        # By name: a room that imports gpulake does not import its API.
        return import_module("gpulake.api").open_lake
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
