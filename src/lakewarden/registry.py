"""Finds capabilities by their address: `version tag` is the request declared in `features/version/tag.py`.

A noun is a package listed in `features`, and lists its verbs in display order. Modules are imported only when needed.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType

from lakewarden import features
from lakewarden.errors import WrongUse, did_you_mean
from lakewarden.lifecycle.request import Operation, Request


def nouns() -> tuple[str, ...]:
    return features.NOUNS


def describe(noun: str) -> str:
    """One line about a noun."""
    return (_noun(noun).__doc__ or "").strip().split("\n")[0]


def verbs(noun: str) -> tuple[str, ...]:
    found: tuple[str, ...] = _noun(noun).VERBS
    return found


def aliases(noun: str, verb: str) -> tuple[str, ...]:
    """Other spellings of a verb, which every door accepts."""
    return tuple(alias for alias, meant in _aliases(noun).items() if meant == verb)


def meant(noun: str, word: str) -> str:
    """The verb of an alias, or the word itself."""
    return _aliases(noun).get(word, word)


def declaration(noun: str, verb: str) -> type[Request]:
    """The one request that a verb's module declares."""
    if noun not in nouns():
        raise WrongUse(f"{noun} is unknown", did_you_mean(noun, nouns(), f"Supported: {', '.join(nouns())}."))
    verb = meant(noun, verb)
    if verb not in verbs(noun):
        hint = did_you_mean(verb, verbs(noun), f"Supported: {', '.join(verbs(noun))}.")
        raise WrongUse(f"{noun} has no command {verb}", hint)
    module = importlib.import_module(module_name(noun, verb))
    declared = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Request)
        and value.__module__ == module.__name__
        and value.__pydantic_generic_metadata__["origin"] is None  # without Question[…] itself, which pydantic adds
    ]
    if len(declared) != 1:
        raise TypeError(f"{module.__name__} must declare exactly one request, and declares {len(declared)}")
    return declared[0]


def declarations() -> Iterator[type[Request]]:
    """All capabilities."""
    for noun in nouns():
        for verb in verbs(noun):
            yield declaration(noun, verb)


def operation(kind: str) -> type[Operation]:
    """The operation of a kind, as the journal names it."""
    noun, _, verb = kind.partition(".")
    found = declaration(noun, verb)
    if not issubclass(found, Operation):
        raise WrongUse(f"{kind} is not an operation")
    return found


def module_name(noun: str, verb: str) -> str:
    return f"{features.__name__}.{noun.replace('-', '_')}.{verb.replace('-', '_')}"


def _aliases(noun: str) -> dict[str, str]:
    return getattr(_noun(noun), "ALIASES", {})


def _noun(noun: str) -> ModuleType:
    return importlib.import_module(f"{features.__name__}.{noun.replace('-', '_')}")
