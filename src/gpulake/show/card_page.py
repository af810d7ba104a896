"""The efficiency card as one HTML file."""

from __future__ import annotations

from pathlib import Path

from gpulake.core import ledger, words
from gpulake.show import card_text, plots
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
        clusters=card.clusters,
        ledger=ledger,
        colours=plots.BUCKET_COLOURS,
        words=words,
        text=card_text,
    )
