"""Erased values are found in every spelling, and nothing else is replaced."""

from __future__ import annotations

import json
from urllib.parse import quote, quote_plus

import pytest

from lakewarden.erased_values import ERASED, ErasedValues


def of(*texts: str, kind: str = "string", ignores_case: bool = False) -> ErasedValues:
    return ErasedValues.of([(kind, texts)], {"email": frozenset(texts)}, [], ignores_case)


def cleaned(values: ErasedValues, raw: str, small: bool = True) -> str:
    return values.without(raw, small, set())


@pytest.mark.parametrize(
    "value", ["anna@x.org", "o'h\u00e4ra+x/y@x.org", 'Jane "J" Doe', "+49 30 1234567", "back\\slash"]
)
def test_every_spelling_is_found(value: str) -> None:
    values = of(value)
    once = json.dumps(value)
    spelled = [
        f"of {value} here",
        f"at {quote(value, safe='')}",
        f"in /email={quote_plus(value)}/00.parquet",
        f"up to [{once}], 3 rows",
        f"WHERE email = '{value.replace(chr(39), chr(39) * 2)}'",
        json.dumps({"a": [{"b": f"says {value}"}]}),
        json.dumps({"a": json.dumps({"b": json.dumps([value])})}),
    ]
    for text in spelled:
        assert values.may_be_in(text), text
        after = cleaned(values, text)
        assert value.split("@")[0][-5:] not in after and (ERASED in after or "=*/" in after), (text, after)
        if text.startswith("{"):
            json.loads(after)


@pytest.mark.parametrize(
    "text",
    [
        "hanna@x.org is another",
        "anna@x.org.uk is another",
        "of j.anna@x.org",
        "/email=hanna%40x.org/1.parquet",
        '{"kind": "anna@x.org", "bytes": 7}',
        '["hanna@x.org"]',
    ],
)
def test_other_values_stay(text: str) -> None:
    assert cleaned(of("anna@x.org"), text) == text


def test_the_end_of_a_sentence_is_the_end_of_a_word() -> None:
    assert cleaned(of("anna@x.org"), "of anna@x.org.") == f"of {ERASED}."


@pytest.mark.parametrize("escape", ["\\n", "\\t", "\\r", "\\\\n"])
@pytest.mark.parametrize("value", ["anna@x.org", "Jane Doe", "+49 30 1234567"])
def test_a_literal_escape_is_not_a_part_of_the_word_after_it(value: str, escape: str) -> None:
    """As in a repr, or in a log whose lines are JSON."""
    values = of(value)
    for text in (f"failed:{escape}{value} is gone", f"failed:{escape}{value}{escape}x"):
        assert values.may_be_in(text) and values.is_left_in(text)
        assert cleaned(values, text) == text.replace(value, ERASED)
        inner = json.dumps({"error": text})
        assert json.loads(cleaned(values, inner)) == {"error": text.replace(value, ERASED)}
        assert value not in cleaned(values, f"{inner} of a log")
    many = of(value, *(f"p{number}@x.org" for number in range(100)))
    assert cleaned(many, f"{escape}{value}") == f"{escape}{ERASED}"


@pytest.mark.parametrize("number", [1, 100])
def test_values_with_a_backslash_are_found_as_they_are(number: int) -> None:
    values = of("DOMAIN\\nanna", *(f"p{each}@x.org" for each in range(number)))
    for text in ("of DOMAIN\\nanna", json.dumps({"by": "DOMAIN\\nanna"})):
        assert values.may_be_in(text) and "anna" not in cleaned(values, text)


def test_letter_case_is_ignored_if_the_request_ignores_it() -> None:
    assert cleaned(of("Anna@X.org", ignores_case=True), "of ANNA@x.org, \u0130") == f"of {ERASED}, \u0130"
    assert cleaned(of("Anna@X.org"), "of ANNA@x.org") == "of ANNA@x.org"


def test_short_values_are_replaced_where_values_are_only() -> None:
    values = of("7", kind="long")
    document = {"rows": 7, "kind": "7", "upper": "[7, 17]", "instance": "7", "says": "7 rows", "list": [7]}
    found: set[str] = set()
    after = json.loads(values.without(json.dumps(document), True, found))
    assert after == {**document, "upper": f'["{ERASED}", 17]', "instance": ERASED} and found == {"7"}
    assert json.loads(values.within(found).without(json.dumps(after), True, set()))["says"] == f"{ERASED} rows"
    assert values.without(json.dumps(document), False, found) == json.dumps(document)


def test_texts_keep_their_style() -> None:
    values = of("anna@x.org")
    assert cleaned(values, '{"a":"anna@x.org","b":"\u00e4, b"}') == f'{{"a":"{ERASED}","b":"\u00e4, b"}}'
    assert cleaned(values, '{"a": "anna@x.org", "b": 1}') == f'{{"a": "{ERASED}", "b": 1}}'


def test_conditions_are_places_of_values() -> None:
    assert json.loads(cleaned(of("bob"), '{"where": "name = \'bob\'"}'))["where"] == f"name = '{ERASED}'"


def test_other_addresses_of_the_same_domain_are_ruled_out_at_once() -> None:
    """A journal full of them takes minutes otherwise."""
    values = of("anna@customers.example")
    others = '{"lower": "[\\"bob@customers.example\\"]", "rows": 7}'
    assert not values.may_be_in(others) and not values.any_may_be_in(others)
    for text in ("anna@customers.example", "/email=anna%40customers.example/", '["anna@customers.example"]'):
        assert values.may_be_in(text) and values.any_may_be_in(text)


@pytest.mark.parametrize(("value", "kind", "raw"), [("7", "long", '{"upper": "[7]"}'), ("4.50", "decimal", "[4.5]")])
def test_short_values_are_never_ruled_out_where_they_are(value: str, kind: str, raw: str) -> None:
    values = of(value, kind=kind)
    assert values.any_may_be_in(raw)
    assert ERASED in cleaned(values, json.dumps({"upper": raw}))
