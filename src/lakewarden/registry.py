"""Finds capabilities by their address: `version tag` is the request declared in `features/version/tag.py`.

Nothing is listed twice: a noun is a folder named in `features`, and names its verbs in the order in
which they are shown. Only what is asked for is imported.
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
    """What a noun is about, in one line."""
    return (_noun(noun).__doc__ or "").strip().split("\n")[0]


def verbs(noun: str) -> tuple[str, ...]:
    found: tuple[str, ...] = _noun(noun).VERBS
    return found


def aliases(noun: str, verb: str) -> tuple[str, ...]:
    """Other words for a verb, which every door understands."""
    return tuple(alias for alias, meant in _aliases(noun).items() if meant == verb)


def meant(noun: str, word: str) -> str:
    """The verb that a word stands for: itself, unless it is an alias."""
    return _aliases(noun).get(word, word)


def declaration(noun: str, verb: str) -> type[Request]:
    """The one request that a verb's module declares."""
    if noun not in nouns():
        raise WrongUse(f"no such thing as {noun}", did_you_mean(noun, nouns(), f"There are {', '.join(nouns())}."))
    verb = meant(noun, verb)
    if verb not in verbs(noun):
        hint = did_you_mean(verb, verbs(noun), f"There are {', '.join(verbs(noun))}.")
        raise WrongUse(f"{noun} cannot {verb}", hint)
    module = importlib.import_module(module_name(noun, verb))
    declared = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Request)
        and value.__module__ == module.__name__
        and value.__pydantic_generic_metadata__["origin"] is None  # pydantic puts Question[…] itself beside it
    ]
    if len(declared) != 1:
        raise TypeError(f"{module.__name__} must declare exactly one request, and declares {len(declared)}")
    return declared[0]


def declarations() -> Iterator[type[Request]]:
    """Every capability there is."""
    for noun in nouns():
        for verb in verbs(noun):
            yield declaration(noun, verb)


def operation(kind: str) -> type[Operation]:
    """The operation that a journal row of this kind is of."""
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
