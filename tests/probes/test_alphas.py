from __future__ import annotations

from typing import Any

import pytest

from fieldmark.errors import UsageError
from fieldmark.probes._select import parse_alphas


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (["2^-15 .. 2^10"], [2.0**power for power in range(-15, 11)]),
        ("[2^-15 .. 2^4]", [2.0**power for power in range(-15, 5)]),
        ("2^-1..2^1", [0.5, 1.0, 2.0]),
        ("10^-1 .. 10^1", [0.1, 1.0, 10.0]),
        ("2^3 .. 2^3", [8.0]),
        ([1, 0.5, "2^2", "3"], [1.0, 0.5, 4.0, 3.0]),
        ("1, 2^2", [1.0, 4.0]),
        (0.25, [0.25]),
        (3, [3.0]),
        ((1.0, 2.0), [1.0, 2.0]),
        ("1e-3", [0.001]),
    ],
)
def test_what_is_meant(written: Any, meant: list[float]) -> None:
    assert parse_alphas(written) == pytest.approx(meant)


@pytest.mark.parametrize(
    ("written", "line"),
    [
        ([], "alphas is empty"),
        ("", "alphas contains ''"),
        ([0], "alphas contains 0: expected finite numbers above 0"),
        ([-1.0], "alphas contains -1.0: expected finite"),
        ([float("nan")], "alphas contains nan: expected finite"),
        (["inf"], "alphas contains 'inf': expected finite"),
        (["2^10 .. 2^-15"], "runs from high to low"),
        (["2^-15 .. 10^2"], "alphas contains '2^-15 .. 10^2': expected numbers"),
        (["1^1 .. 1^4"], "alphas contains '1^1 .. 1^4'"),
        (["0.1 .. 5"], "alphas contains '0.1 .. 5': expected numbers"),
        (["2^1 .. 2^2 .. 2^3"], "alphas contains"),
        (["many"], "alphas contains 'many'"),
        (True, "alphas contains True"),
        ([True], "alphas contains True"),
        (None, "alphas contains None"),
        ([[1]], "alphas contains"),
        (["2^0 .. 2^100000"], "alphas"),
    ],
)
def test_mistakes_get_one_line(written: Any, line: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_alphas(written)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)
