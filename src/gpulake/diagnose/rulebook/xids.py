"""NVIDIA's catalogues of Xids and SXids become rules, for every way in which drivers and monitors write them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from gpulake.diagnose.rulebook.rule import Rule, read_rule
from gpulake.formats import kernel


@dataclass(frozen=True)
class Catalogue:
    """How the entries of one catalogue are written in logs."""

    family: str  # its file in formats, its key in that file, and the beginning of its rules' names
    word: str  # for people
    reason: str  # where an entry names none
    before: str  # RE2: what stands before the code
    lines: list[str]  # ways to write it, with {code}
    any_code: str  # RE2: a code that the catalogue does not have
    undocumented: int  # an example of such a code


FAMILIES = ("xid", "sxid")
# The strength of the rule for undocumented codes.
_STRENGTH_OF_ANY = 50


@cache
def catalogued_rules() -> tuple[Rule, ...]:
    return tuple(rule for family in FAMILIES for rule in _rules(family))


def catalogue_of(family: str) -> Catalogue:
    return Catalogue(family, **kernel.catalogue(family)["written"])


def _rules(family: str) -> list[Rule]:
    content, catalogue = kernel.catalogue(family), catalogue_of(family)
    actions, source = content["actions"], content["source"]
    documented = [_rule(catalogue, entry, actions, source) for entry in content[family]]
    codes = [code for entry in content[family] for code in entry["codes"]]
    return [*documented, _any(catalogue, codes, source)]


def _rule(catalogue: Catalogue, entry: dict[str, Any], actions: dict[str, Any], source: str) -> Rule:
    codes, text = sorted(entry["codes"]), entry.get("text", "")  # text: a word that has to follow
    return read_rule(
        {
            "name": "_".join((catalogue.family, str(codes[0]), *text.lower().split())),
            "pattern": f"{catalogue.before}(?P<code>{_either(codes)})\\b" + (f".*{text}" if text else ""),
            "unless": entry.get("unless", ""),
            "reason": entry.get("reason", catalogue.reason),
            "cause": f"{catalogue.word} {{code}}, {_lower(entry['name'])}: {entry['meaning']}",
            "source": source,
            **actions[entry["action"]],
            **({"strength": entry["strength"]} if "strength" in entry else {}),
            "matches": [f"{line} {text}".strip().format(code=code) for code in codes for line in catalogue.lines],
            "ignores": [f"{line} {text}".format(code=f"{codes[-1]}0") for line in catalogue.lines],
        },
        catalogue.family,
    )


def _any(catalogue: Catalogue, documented: list[int], source: str) -> Rule:
    return read_rule(
        {
            "name": f"{catalogue.family}_undocumented",
            "pattern": f"{catalogue.before}(?P<code>{catalogue.any_code})\\b",
            "unless": f"{catalogue.before}(?:{_either(documented)})\\b",
            "role": "cause",
            "reason": catalogue.reason,
            "cause": f"{catalogue.word} {{code}}: the driver reported a fault of the hardware or of its use",
            "remedy": "Look the code up in NVIDIA's catalogue; drain the node and run dcgmi diag if it comes back.",
            "recovery": "cordon_node_and_restart",
            "why": "What is not known to be harmless is kept away from jobs until somebody has looked.",
            "source": source,
            "strength": _STRENGTH_OF_ANY,
            "matches": [line.format(code=catalogue.undocumented) for line in catalogue.lines],
            "ignores": [f"{catalogue.word} count: none", "SXid and Xid errors: 0"],
        },
        catalogue.family,
    )


def _either(codes: list[int]) -> str:
    return "|".join(str(code) for code in codes)


def _lower(name: str) -> str:
    """Within a sentence; an abbreviation stays as it is."""
    first = name.split()[0]
    return name if any(letter.isupper() for letter in first[1:]) else name[0].lower() + name[1:]
