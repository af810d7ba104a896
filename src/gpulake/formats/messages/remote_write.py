"""Prometheus remote write, versions 1 and 2: a request of protocol buffers, packed with Snappy."""

from __future__ import annotations

import struct

import pyarrow as pa

from gpulake.formats.messages import MESSAGES, Message
from gpulake.formats.messages.samples import SampleMessages
from gpulake.formats.prometheus import labels_json
from gpulake.formats.protobuf import as_bytes, fields, varint

MOST_BYTES = 64 << 20  # of a request, unpacked
STALE = 0x7FF0000000000002  # the series has ended: no value
_DOUBLE = struct.Struct("<d")
_BITS = struct.Struct("<Q")
_SERIES = {1: 1, 2: 5}  # number of the field, by version
_SYMBOLS = 4


def unpacked(value: bytes) -> bytes:
    size, _ = varint(value, 0)
    if size > MOST_BYTES:
        raise ValueError(f"a request of {size:,} bytes")
    try:
        found: bytes = pa.decompress(value, decompressed_size=size, codec="snappy", asbytes=True)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"not packed with Snappy: {error}") from error
    return found


@MESSAGES.register("remote_write")
class RemoteWrite(SampleMessages):
    def __init__(self) -> None:
        super().__init__()
        self._known: dict[bytes, int] = {}  # series by the bytes of their labels

    def forget(self) -> None:
        super().forget()
        self._known = {}

    def read(self, place: int, message: Message) -> None:
        request = unpacked(message.value)
        symbols: list[str] = []
        for number, _, value in fields(request):
            if number == _SYMBOLS:
                symbols.append(as_bytes(value).decode())
        wanted = _SERIES[2] if symbols else _SERIES[1]
        for number, _, value in fields(request):
            if number == wanted:
                self._series(place, as_bytes(value), symbols)

    def _series(self, place: int, series: bytes, symbols: list[str]) -> None:
        """Labels come first; what is known of them is found by their bytes."""
        at, labels_end, samples = 0, 0, list[bytes]()
        while at < len(series):
            key, at = varint(series, at)
            if key & 7 != 2:
                raise ValueError("a series with a number where a message is expected")
            size, begin = varint(series, at)
            at = begin + size
            if key >> 3 == 1:
                labels_end = at
            elif key >> 3 == 2:
                samples.append(series[begin:at])
        if not samples:
            return  # a histogram, or what is known of a metric: nothing that a table has
        words = series[:labels_end]
        number = None if symbols else self._known.get(words)
        if number is None:
            labels = _indexed(words, symbols) if symbols else _labels(words)
            number = self.found.number(labels.pop("__name__"), labels_json(labels))
            if not symbols:
                self._known[words] = number
        for sample in samples:
            value, at_ms = _sample(sample)
            if value is not None:
                self.found.add(number, value, at_ms, place)


def _sample(sample: bytes) -> tuple[float | None, int]:
    # As it is nearly always written: the value as a double, then the time. A value of 0 is left out.
    if sample[:1] == b"\x09" and sample[9:10] == b"\x10":
        at_ms, _ = varint(sample, 10)
        value = sample[1:9]
    else:
        found = {number: field for number, _, field in fields(sample)}
        value, at_ms = as_bytes(found.get(1, bytes(8))), int(found.get(2, 0))
    if _BITS.unpack(value)[0] == STALE:
        return None, 0
    return _DOUBLE.unpack(value)[0], at_ms


def _labels(words: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, _, label in fields(words):
        if number == 1:
            pair = {key: as_bytes(value).decode() for key, _, value in fields(as_bytes(label))}
            found[pair[1]] = pair.get(2, "")
    return found


def _indexed(words: bytes, symbols: list[str]) -> dict[str, str]:
    """Version 2: pairs of places in the list of symbols."""
    places = []
    for number, _, packed in fields(words):
        at, row = 0, as_bytes(packed) if number == 1 else b""
        while at < len(row):
            place, at = varint(row, at)
            places.append(symbols[place])
    return dict(zip(places[::2], places[1::2], strict=True))
