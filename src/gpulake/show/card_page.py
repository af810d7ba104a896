"""The efficiency card as one HTML file."""

from __future__ import annotations

from pathlib import Path

from gpulake.core import words
from gpulake.show import plots
from gpulake.show.card_text import MEANINGS
from gpulake.show.efficiency import Card
from gpulake.show.page import write_page


def write_card(card: Card, path: Path) -> None:
    """Writes the file in one step."""
    write_page(
        path,
        "card.html",
        {"days": plots.buckets(card.days)},
        "--out",
        card=card,
        meanings=MEANINGS,
        colours=plots.BUCKET_COLOURS,
        words=words,
    )
