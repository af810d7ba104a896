"""Texts as vectors, with the weights in the wheel of wordllama. Nothing is downloaded."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

MISSING = "similar incidents are not looked for; to have them: pip install 'gpulake[recall]'"


class NoEmbedding(Exception):  # noqa: N818 - an absence, not an error
    """The extra is not installed, or its files are not where they should be."""


def vectors(texts: Sequence[str]) -> Any:
    """One row a text, of length 1; 0 where the text has no words. Raises NoEmbedding."""
    import numpy as np

    tokenizer, weights = _model()
    found = np.zeros((len(texts), weights.shape[1]), dtype=np.float32)
    for row, tokens in zip(found, tokenizer.encode_batch(list(texts), add_special_tokens=False), strict=True):
        if tokens.ids:
            mean = weights[tokens.ids].astype(np.float32).mean(axis=0)
            row[:] = mean / (float(np.linalg.norm(mean)) or 1.0)
    return found


@cache
def _model() -> tuple[Any, Any]:
    # Its files are read without its code: importing it takes a second, configures logging, and may download files.
    spec = find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise NoEmbedding(MISSING)
    folder = Path(spec.submodule_search_locations[0])
    try:
        from safetensors import safe_open
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))
        with safe_open(str(folder / "weights" / "l2_supercat_256.safetensors"), framework="np") as file:
            weights = file.get_tensor("embedding.weight")
    except Exception as error:
        raise NoEmbedding(f"{MISSING} (its files cannot be read: {type(error).__name__})") from error
    return tokenizer, weights
